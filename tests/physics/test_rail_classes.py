import math
from itertools import pairwise

import numpy as np
import pytest

from physics.rail_classes import RAIL_CLASSES, limit_scale, named_nominals, rail_class_of, shown_nominals
from telemetry.entities import NOMINAL_TAG, Entity, EntityKind


def rail(*tags: tuple[str, str]) -> Entity:
    return Entity(kind=EntityKind.SUPPLY, key="psu0", name="psu0", tags=tags)


def test_the_limit_of_a_12_v_rail_is_that_of_the_design_guide() -> None:
    twelve = rail_class_of(12.0)
    assert twelve is not None
    assert twelve.lowest_v == pytest.approx(11.40)
    assert twelve.plausible_v == pytest.approx((6.0, 16.0))
    assert limit_scale(12.0) == 1.0  # to the bit: what was measured at 12 V stays


def test_limits_of_other_rails_are_the_same_share() -> None:
    assert limit_scale(54.0) == pytest.approx(4.5)
    assert limit_scale(48.0) == pytest.approx(4.0)
    assert math.isnan(limit_scale(230.0))  # no load hangs on mains directly
    assert math.isnan(limit_scale(13.0))
    assert math.isnan(limit_scale(None))


@pytest.mark.parametrize(
    ("volts", "nominal_v"),
    [
        (3.3, 3.3),
        (5.1, 5.0),
        (11.2, 12.0),
        (12.6, 12.0),
        (47.0, 48.0),
        (50.4, 48.0),
        (52.5, 48.0),
        (53.2, 54.0),
        (54.4, 54.0),
        (231, 230),
    ],
)
def test_a_reading_shows_its_class(volts: float, nominal_v: float) -> None:
    assert shown_nominals(np.array([volts])) == pytest.approx([nominal_v])


@pytest.mark.parametrize("volts", [0.0, -12.0, 8.0, 20.0, 75.0, 1000.0, float("nan"), float("inf")])
def test_a_reading_between_the_classes_shows_none(volts: float) -> None:
    assert np.isnan(shown_nominals(np.array([volts]))).all()


def test_a_reading_belongs_to_one_class_at_most() -> None:
    spans = sorted(one.shown_v for one in RAIL_CLASSES)
    assert all(low < high for low, high in spans)
    assert all(before[1] <= after[0] for before, after in pairwise(spans))
    assert all(one.source for one in RAIL_CLASSES)


def test_the_tag_names_the_nominal_voltage() -> None:
    assert rail((NOMINAL_TAG, "54")).nominal_v == 54.0
    assert rail().nominal_v is None
    assert rail((NOMINAL_TAG, "high")).nominal_v is None
    assert named_nominals([rail((NOMINAL_TAG, "54")), rail()]) == pytest.approx([54.0, math.nan], nan_ok=True)
