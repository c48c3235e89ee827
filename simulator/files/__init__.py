"""Files that users write: nodes, GPU parts, workloads, racks and scenarios, as checked data."""

# What a start without GPUs simulates.
DEFAULT_NODE = "v100x4"
DEFAULT_SCENARIO = "healthy"
