"""What users write: nodes, GPU parts, workloads, racks and scenarios, as checked data."""
