"""Sensors of a plant with their periods, windows, errors and faults: all that a detector may see."""
