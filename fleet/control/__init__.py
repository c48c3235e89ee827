"""Agent side of the control endpoint: identity, scope and freshness of requests, and the limits of the node."""
