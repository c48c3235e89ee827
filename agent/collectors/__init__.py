"""Collectors, one a file: each reads the samples of one source into one table."""
