"""Reproducible measurements, each side by side with what else a user could run."""
