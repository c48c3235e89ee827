"""Faults put into recordings of healthy machines: pure functions from a trace to a trace, one file for each kind."""
