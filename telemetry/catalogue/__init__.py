"""The signals by what has them; `telemetry.signals` puts them together."""
