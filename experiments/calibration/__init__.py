"""What a measured sweep says of the step times of its engines, for the simulator to use."""
