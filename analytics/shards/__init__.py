"""Detector state that can be saved, split by entities, and merged again elsewhere."""
