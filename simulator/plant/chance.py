"""Chance with a name: every part of the plant draws from a stream of its own."""

import zlib

import numpy as np


def stream(seed: int, name: str) -> np.random.Generator:
    """Return the generator of one part; a part more or less does not change what the others draw."""
    return np.random.default_rng(np.random.SeedSequence([seed, zlib.crc32(name.encode())]))
