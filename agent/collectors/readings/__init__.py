"""Readings that other programs send."""
