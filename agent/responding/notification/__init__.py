"""Telling people of incidents: what is said, to whom, and that it arrives."""
