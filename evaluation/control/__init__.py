"""Suite `control`: whether the clock cap is right, saves the node, and what it costs."""
