"""The sampler: when collectors read, and what happens when they cannot."""
