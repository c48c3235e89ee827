"""Tests of the table of plugs and of the trip curves."""

import pytest

from physics.breakers import TRIP_CURVES, BreakerCurve
from physics.plugs import OTHER, PLUG_TYPES, PlugType, plug_type


@pytest.mark.parametrize("plug", PLUG_TYPES, ids=lambda plug: plug.name)
def test_every_plug_names_its_source_and_a_peak_is_no_less_than_the_rating(plug: PlugType) -> None:
    assert plug.source
    assert plug.name == OTHER or (plug.rating_a is not None and plug.rating_a > 0)
    assert plug.peak_a is None or plug.peak_a >= (plug.rating_a or 0.0)


@pytest.mark.parametrize("written", ["8-pin PCIe", "8 pin pcie", "8PIN-PCIE"])
def test_case_spaces_and_hyphens_of_a_name_do_not_matter(written: str) -> None:
    found = plug_type(written)
    assert found is not None
    assert found.name == "8-pin PCIe"


def test_a_plug_outside_the_table_has_no_type() -> None:
    assert plug_type("XT30") is None


def test_an_auxiliary_plug_carries_what_the_card_specification_allows_at_12_v() -> None:
    # 336521, table 3-5: 75, 150 and 600 W with 8 % less than 12 V.
    for name, power_w in (("6-pin PCIe", 75.0), ("8-pin PCIe", 150.0), ("12VHPWR", 600.0)):
        plug = plug_type(name)
        assert plug is not None
        assert plug.rating_a == pytest.approx(power_w / (12.0 * 0.92), rel=0.02)


def test_a_breaker_trips_above_what_it_holds_and_sooner_the_higher_the_current() -> None:
    assert set(TRIP_CURVES) == set(BreakerCurve)
    for curve in TRIP_CURVES.values():
        assert 1.0 <= curve.holds_ratio < curve.trips_ratio < curve.instant_ratio[0] < curve.instant_ratio[1]
