"""Pins of a power connector: which readings count, their shares of the current, and how these changed."""
