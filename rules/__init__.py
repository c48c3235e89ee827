"""From meaning to response: policies in YAML, the engine that decides and the rails that limit it."""
