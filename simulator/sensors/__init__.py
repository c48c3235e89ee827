"""Sensors of a plant with their periods, windows, errors and faults: the only input of detectors."""
