"""Detectors: frames and events in, findings out. One detector a file; `analytics.detectors.build` lists them."""
