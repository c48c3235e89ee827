"""A driver library that other programs can load, and the shared state behind it."""
