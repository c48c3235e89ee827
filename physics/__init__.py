"""Equations without state: supply paths, power curves, heat. Each constant is defined once, with its source."""
