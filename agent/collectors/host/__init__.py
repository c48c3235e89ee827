"""Collectors of the node itself: processor, memory, pressure stall figures, PCI bus, the agent's own cost."""
