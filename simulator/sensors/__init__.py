"""What a detector may see of a plant: sensors with their periods, windows, errors and faults."""
