"""Runs of a simulated node faster than real time, into recordings, with the truth beside them."""
