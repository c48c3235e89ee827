"""Conditions of policies: requirements on the facts of an incident and its node."""
