"""Equations without state: supply paths, power curves, heat. Each constant stands once, with its source."""
