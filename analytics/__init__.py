"""From samples to meaning: pure detectors, event fusion, connectivity and incidents."""
