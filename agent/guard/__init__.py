"""The edge guard: detectors, incidents, rules and rails on the node itself, needing no network and no store."""
