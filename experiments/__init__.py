"""What is tried: config, cells, trials, sweeps and the command line."""
