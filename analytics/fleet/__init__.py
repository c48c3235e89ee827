"""The fleet: many nodes' windows judged by the same detectors, and what only somebody who sees all of them can say."""
