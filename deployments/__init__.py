"""Where it runs: dispatcher, backends, replica, lanes and the open-loop client."""
