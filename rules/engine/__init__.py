"""The engine: incidents in, decisions out, within the limits."""
