"""Signals by kind of entity; `telemetry.signals` joins them."""
