"""Collectors over the GPU driver, one table or source a file."""
