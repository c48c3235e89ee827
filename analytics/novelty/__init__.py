"""Novelty of a table of series against its healthy past: one score per row, and a flag by a false-alarm budget."""
