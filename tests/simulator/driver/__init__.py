"""Tests of the driver library and its state."""
