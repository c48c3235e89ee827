"""Ranked hypotheses of an incident: signs read from findings and events, weighed by a visible table."""
