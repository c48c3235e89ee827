"""Frames, rollups and records as InfluxDB line protocol."""
