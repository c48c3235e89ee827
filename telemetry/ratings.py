"""Rated power of supplies: given by the configuration or reported by the supply itself, never derived from its load."""

import math
from collections.abc import Sequence
from enum import StrEnum

import numpy as np

from telemetry.entities import Entity
from telemetry.frames import FloatArray

# Tags of a supply: its rated output power in watts, and who named it.
RATED_TAG, RATED_SOURCE_TAG = "rated_w", "rated_from"


class RatingSource(StrEnum):
    """Source of a rating: what an operator configured goes before what the supply reports."""

    CONFIGURATION = "configuration"
    SUPPLY = "supply"


def rating_tags(rated_w: float | None, source: RatingSource) -> tuple[tuple[str, str], ...]:
    """Return the tags of a rating; none where there is no rating, or it is not above 0."""
    if rated_w is None or not (math.isfinite(rated_w) and rated_w > 0.0):
        return ()
    return ((RATED_TAG, f"{rated_w:g}"), (RATED_SOURCE_TAG, source.value))


def rated_power_w(supplies: Sequence[Entity], *, configured_w: float | None = None) -> FloatArray:
    """Return the rated power of each supply, shape ``(n_supplies,)``; NaN where it is unknown.

    `configured_w` holds for every supply for which the configuration names no rating of its own.
    """
    return np.array([_rated_w(one, configured_w) for one in supplies], dtype=np.float64)


def _rated_w(supply: Entity, configured_w: float | None) -> float:
    own = supply.tag(RATED_SOURCE_TAG) == RatingSource.CONFIGURATION
    if configured_w is not None and not own:
        return configured_w
    try:
        rated_w = float(supply.tag(RATED_TAG) or "")
    except ValueError:
        return math.nan
    return rated_w if math.isfinite(rated_w) and rated_w > 0.0 else math.nan
