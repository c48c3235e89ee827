"""The physics of a node, in steps of one millisecond, all GPUs at once."""
