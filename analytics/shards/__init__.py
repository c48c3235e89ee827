"""The state of detectors as a thing that can be kept, cut by entities, and put together again elsewhere."""
