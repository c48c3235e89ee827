"""Construction of the collectors and event sources that a node has."""
