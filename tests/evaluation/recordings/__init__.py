"""Recordings that tests replay, and what made them."""
