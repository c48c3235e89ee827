"""Checks over whole policies and over all of them together: pure reasoning, nothing is run."""
