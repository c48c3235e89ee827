"""Rated power of the supplies of a table, read from their tags once for all detectors that ask."""

from collections.abc import Sequence
from functools import lru_cache

from analytics.connectivity.kinship import ByIdentity
from telemetry.entities import Entity
from telemetry.frames import FloatArray
from telemetry.ratings import rated_power_w


def ratings_of(supplies: Sequence[Entity], *, configured_w: float | None = None) -> FloatArray:
    """Return what `rated_power_w` does, in watts, ``(n_supplies,)``, read-only; the same array for the same table."""
    return _ratings_of(ByIdentity(supplies), configured_w)


@lru_cache(maxsize=32)
def _ratings_of(supplies: ByIdentity[Sequence[Entity]], configured_w: float | None) -> FloatArray:
    rated_w = rated_power_w(supplies.it, configured_w=configured_w)
    rated_w.flags.writeable = False  # several states share it
    return rated_w
