"""From incidents to decisions: policies in YAML, the engine, and its limits."""
