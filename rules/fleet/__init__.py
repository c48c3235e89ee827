"""Policies and engine of a fleet: actions on whole nodes."""
