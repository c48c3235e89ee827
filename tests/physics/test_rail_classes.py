import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from physics.rail_classes import (
    LEAST_RAIL_V,
    RAIL_CLASSES,
    RailClass,
    class_of_limits,
    limit_scale,
    may_feed_gpus,
    named_nominals,
    rail_class_of,
    shown_nominals,
)
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


@given(
    rail=st.sampled_from([one for one in RAIL_CLASSES if one.has_limit]),
    below=st.floats(0.01, 0.08),
    above=st.floats(0.01, 0.08),
)
def test_limits_within_a_twelfth_of_a_nominal_voltage_are_those_of_its_class(
    rail: RailClass, below: float, above: float
) -> None:
    assert class_of_limits((1.0 - below) * rail.nominal_v, (1.0 + above) * rail.nominal_v) == rail


@given(low_v=st.floats(0.0, 60.0), high_v=st.floats(0.0, 80.0), reading_v=st.none() | st.floats(0.0, 80.0))
def test_a_class_of_limits_lies_within_them_and_they_within_what_is_plausible_of_it(
    low_v: float, high_v: float, reading_v: float | None
) -> None:
    found = class_of_limits(low_v, high_v, reading_v)
    if found is not None:
        least_v, most_v = found.plausible_v
        assert least_v <= low_v <= found.nominal_v <= high_v <= most_v


@pytest.mark.parametrize(
    ("low_v", "high_v", "reading_v", "nominal_v"),
    [
        (0.0, 20.0, None, None),  # what a chip starts with
        (2.0, 65.5, None, None),
        (48.0, 60.0, None, 54.0),
        (43.0, 58.0, None, None),  # of -48 V equipment, and of a bus of 54 V
        (43.0, 58.0, 54.1, 54.0),
        (43.0, 58.0, 50.0, None),  # either, under load
        (40.5, 57.0, None, 48.0),  # ETSI EN 300 132-2
        (176.0, 264.0, None, 230.0),
    ],
)
def test_wide_limits_name_a_class_only_where_it_is_clear_which(
    low_v: float, high_v: float, reading_v: float | None, nominal_v: float | None
) -> None:
    found = class_of_limits(low_v, high_v, reading_v)
    assert (None if found is None else found.nominal_v) == nominal_v


@pytest.mark.parametrize(("nominal_v", "lowest_v"), [(51.0, 48.45), (50.0, 47.5), (54.5, 51.775)])
def test_a_tag_between_the_main_buses_has_the_shares_of_the_one_it_shows(nominal_v: float, lowest_v: float) -> None:
    assert limit_scale(nominal_v) * LEAST_RAIL_V == pytest.approx(lowest_v)
    assert may_feed_gpus(nominal_v)


@pytest.mark.parametrize("nominal_v", [12.5, 20.0, 235.0])
def test_a_tag_of_no_class_and_one_of_mains_have_no_limit(nominal_v: float) -> None:
    assert np.isnan(limit_scale(nominal_v))
