"""Learning of the power curve of each board."""
