"""Rehearsals: the live guard and the live actuator on a simulated node, faster than real time."""
