"""The edge guard: detectors, incidents, rules and limits on the node itself, needing no network and no store."""
