"""The processes of one node, each a module that runs with ``python -m``: they share the ring and the journals."""
