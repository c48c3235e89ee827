"""Margins after the loss of a feed, over tied buses and converters, and of supplies that several sensors show."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analytics.supply.margin_plan import MarginPlan, draws_of
from analytics.supply.supply_margins import Basis, Margin, MarginLevels, MeasuredLoad, margins_of
from physics.breakers import BreakerCurve
from physics.link_loads import NOT_METERED, Draw, InputSide, LinkKind, input_side, link_loads
from physics.wiring import Bus, MainsFeed, Origin, Plugs, Redundancy, Shelf, WiredSupply, Wiring
from telemetry.entities import Entity
from telemetry.records import Severity
from tests.analytics.scenes import node_of, supply

LEVELS = MarginLevels(continuous_ratio=0.8, over_current_ratio=1.3, critical_ratio=1.5)
BREAKER_A, MAINS_V, EFFICIENCY = 32.0, 230.0, 0.88


def two_feeds(redundancy: Redundancy | None, *, rated_w: float = 3300.0) -> Wiring:
    """Return a bus of four supplies on two feeds, as in a server of two circuits."""
    supplies = tuple(
        WiredSupply(name=f"psu{number}", sensors=(f"psu{number}",), rated_w=rated_w, feed="AB"[number // 2])
        for number in range(4)
    )
    feeds = tuple(
        MainsFeed(name=name, nominal_v=MAINS_V, breaker_a=BREAKER_A, curve=BreakerCurve.C) for name in ("A", "B")
    )
    names = tuple(one.name for one in supplies)
    bus = Bus(name="hgx", nominal_v=54.0, supplies=names, redundancy=redundancy)
    return Wiring(origin=Origin.CONFIGURED, supplies=supplies, buses=(bus,), feeds=feeds)


def plan_of(wiring: Wiring, entities: tuple[Entity, ...] | None = None) -> MarginPlan:
    members = tuple(supply(number) for number in range(len(wiring.supplies))) if entities is None else entities
    return MarginPlan.of(wiring, members, node_of(4, len(members)), rated_w=None)


def even(power_w: float, n_supplies: int = 4, voltage_v: float = 54.0) -> dict[str, Draw]:
    current_a = power_w / voltage_v / n_supplies
    return {f"psu{number}": Draw(voltage_v=voltage_v, current_a=current_a) for number in range(n_supplies)}


def over(
    wiring: Wiring,
    draws: Mapping[str, Draw],
    peaks: Mapping[str, Draw] | None = None,
    *,
    inputs: InputSide = NOT_METERED,
) -> list[Margin]:
    """Return the excesses that the detector of margins reports."""
    load = MeasuredLoad(steady=draws, peaks=draws if peaks is None else peaks, inputs=inputs)
    found = margins_of(plan_of(wiring), load, LEVELS)
    return [one for one in found if one.excess > 1.0 and one.severity is not None]


def test_with_one_of_two_feeds_lost_the_other_carries_all_and_its_supplies_too() -> None:
    found = over(two_feeds(Redundancy.N_PLUS_N), even(8000.0))
    assert {(one.link.kind, one.basis) for one in found} == {
        (LinkKind.SUPPLY, Basis.LOSS),
        (LinkKind.FEED, Basis.LOSS),
    }
    feed = next(one for one in found if one.link.kind is LinkKind.FEED)
    assert feed.loss is not None
    assert {feed.loss.feed, feed.link.name} == {"A", "B"}
    assert feed.link.load == pytest.approx(8000.0 / EFFICIENCY / MAINS_V)
    assert feed.mend_w == pytest.approx(8000.0 * (1.0 - 1.0 / feed.excess))
    assert {one.severity for one in found} == {Severity.WARNING}


def test_one_spare_supply_is_no_spare_feed() -> None:
    assert over(two_feeds(Redundancy.N_PLUS_1), even(8000.0)) == []


def test_a_loss_that_the_rest_bears_is_no_excess() -> None:
    assert over(two_feeds(Redundancy.N_PLUS_N), even(5000.0)) == []


def test_tied_buses_are_judged_as_they_are_and_not_after_a_loss() -> None:
    wiring = two_feeds(Redundancy.N_PLUS_1, rated_w=1000.0)
    wiring = replace(wiring, buses=(replace(wiring.buses[0], joins=("other",)),))
    assert over(wiring, even(3800.0)) == []


def test_a_converter_behind_a_bus_is_judged_on_its_own() -> None:
    converters = tuple(
        WiredSupply(name=f"psu{number}", sensors=(f"psu{number}",), rated_w=500.0, from_bus="hgx") for number in (4, 5)
    )
    wiring = two_feeds(Redundancy.N_PLUS_N)
    aux = Bus(name="aux", nominal_v=12.0, supplies=("psu4", "psu5"), redundancy=Redundancy.N_PLUS_1)
    wiring = replace(wiring, supplies=(*wiring.supplies, *converters), buses=(*wiring.buses, aux))
    draws = even(5000.0) | {name: Draw(voltage_v=12.0, current_a=30.0) for name in ("psu4", "psu5")}
    assert {one.link.supply for one in over(wiring, draws)} == {"psu5"}


def test_a_supply_that_two_sensors_show_is_counted_once_by_the_first_that_reads() -> None:
    wiring = two_feeds(Redundancy.N_PLUS_N)
    twice = replace(wiring.supplies[0], sensors=("psu0", "psu4"))
    plan = plan_of(replace(wiring, supplies=(twice, *wiring.supplies[1:])), tuple(supply(one) for one in range(5)))
    volts = np.array([np.nan, 54.0, 54.0, 54.0, 54.1])
    draws = draws_of(plan, volts, np.full(5, 20.0))
    assert {name: one.voltage_v for name, one in draws.items()} == {
        "psu0": 54.1,
        "psu1": 54.0,
        "psu2": 54.0,
        "psu3": 54.0,
    }


@given(
    power_w=st.floats(100.0, 20_000.0),
    rated_w=st.floats(100.0, 10_000.0),
    times=st.sampled_from([1.0, 4.0, 4.5]),
    redundancy=st.sampled_from([None, *Redundancy]),
)
def test_the_verdict_depends_on_power_and_not_on_the_voltage_of_the_rail(
    power_w: float, rated_w: float, times: float, redundancy: Redundancy | None
) -> None:
    wiring = two_feeds(redundancy, rated_w=rated_w)
    low, high = (over(wiring, even(power_w, voltage_v=voltage_v)) for voltage_v in (12.0, 12.0 * times))
    assert [(one.place, one.basis, one.severity) for one in low] == [
        (one.place, one.basis, one.severity) for one in high
    ]
    assert [one.excess for one in low] == pytest.approx([one.excess for one in high])


@given(current_a=st.floats(15.1, 100.0))
def test_the_watts_that_mend_an_excess_mend_it(current_a: float) -> None:
    plug = Plugs(name="banana", rating_a=15.0)
    wiring = two_feeds(Redundancy.N)
    wiring = replace(wiring, supplies=tuple(replace(one, plugs=(plug,)) for one in wiring.supplies))
    draws = {name: replace(one, current_a=current_a) for name, one in even(1.0).items()}
    worst = max((one for one in over(wiring, draws) if one.link.kind is LinkKind.PLUGS), key=lambda one: one.excess)
    total_w = sum(one.power_w for one in draws.values())
    left = {name: replace(one, current_a=current_a * (1.0 - worst.mend_w / total_w)) for name, one in draws.items()}
    assert (
        max(
            one.excess
            for one in margins_of(plan_of(wiring), MeasuredLoad(steady=left, peaks=left, inputs=NOT_METERED), LEVELS)
        )
        <= 1.0 + 1e-9
    )


def test_load_over_the_rating_of_a_breaker_of_230_v_is_a_warning_and_up_to_it_nothing() -> None:
    wiring = two_feeds(Redundancy.N, rated_w=9000.0)
    full_w = 2.0 * BREAKER_A * MAINS_V * EFFICIENCY
    assert over(wiring, even(0.99 * full_w)) == []
    found = over(wiring, even(1.1 * full_w))
    assert {(one.link.kind, one.severity) for one in found} == {(LinkKind.FEED, Severity.WARNING)}


@pytest.mark.parametrize("feed", [{"nominal_v": 208.0}, {"curve": BreakerCurve.UL489}])
def test_a_feed_of_north_america_may_carry_four_fifths_of_its_breaker_for_hours(feed: dict[str, Any]) -> None:
    wiring = two_feeds(Redundancy.N, rated_w=9000.0)
    wiring = replace(wiring, feeds=tuple(replace(one, **feed) for one in wiring.feeds))
    full_w = 2.0 * BREAKER_A * wiring.feeds[0].nominal_v * EFFICIENCY if wiring.feeds[0].nominal_v else 0.0
    assert over(wiring, even(0.79 * full_w)) == []
    assert {one.link.kind for one in over(wiring, even(0.85 * full_w))} == {LinkKind.FEED}


def test_the_meters_of_the_supplies_and_of_the_feed_go_before_the_efficiency_of_a_class() -> None:
    wiring, draws = two_feeds(Redundancy.N, rated_w=9000.0), even(12_000.0)
    inputs_w = {name: one.power_w / 0.96 for name, one in draws.items()}
    measured = input_side(wiring, draws, inputs_w=inputs_w, feeds_a={"B": 40.0})
    feeds = {one.name: one for one in link_loads(wiring, draws, inputs=measured) if one.kind is LinkKind.FEED}
    assert feeds["A"].load == pytest.approx(6000.0 / 0.96 / MAINS_V)
    assert feeds["B"].load == pytest.approx(40.0)
    assert over(wiring, draws, inputs=replace(measured, extra_a={})) == []
    (found,) = over(wiring, draws, inputs=measured)
    # 8 A of 27.2 A that its supplies draw: the other 12.8 A of the circuit stay.
    assert found.mend_w == pytest.approx(12_000.0 * 8.0 / (6000.0 / 0.96 / MAINS_V))


@pytest.mark.parametrize("share", [0.1, 2.0])
def test_an_input_that_does_not_fit_its_output_is_that_of_something_else(share: float) -> None:
    wiring, draws = two_feeds(Redundancy.N), even(4000.0)
    known = input_side(wiring, draws, inputs_w={"psu0": draws["psu0"].power_w / share}, feeds_a={})
    assert known.efficiency == {}


def two_buses_on_one_feed() -> Wiring:
    supplies = tuple(
        WiredSupply(name=f"psu{number}", sensors=(f"psu{number}",), rated_w=9000.0, feed="A") for number in range(4)
    )
    buses = tuple(
        Bus(name=name, nominal_v=54.0, supplies=(f"psu{2 * number}", f"psu{2 * number + 1}"), redundancy=Redundancy.N)
        for number, name in enumerate(("left", "right"))
    )
    feed = MainsFeed(name="A", nominal_v=MAINS_V, breaker_a=BREAKER_A, curve=BreakerCurve.C)
    return Wiring(origin=Origin.CONFIGURED, supplies=supplies, buses=buses, feeds=(feed,))


def test_a_feed_of_two_buses_is_over_its_rating_on_both_and_each_sheds_its_part() -> None:
    draws = even(8000.0)
    draws = {
        name: replace(one, current_a=one.current_a * (1.5 if name < "psu2" else 0.5)) for name, one in draws.items()
    }
    left, right = over(two_buses_on_one_feed(), draws)
    assert [(one.bus, one.place) for one in (left, right)] == [("left", 0), ("right", 2)]
    assert left.mend_w == pytest.approx(3.0 * right.mend_w)
    assert left.total_w == right.total_w == pytest.approx(left.mend_w + right.mend_w)
    assert left.total_w == pytest.approx(8000.0 * (1.0 - 1.0 / left.excess))


def test_a_shelf_over_its_rating_is_reported_with_the_watts_of_its_bus() -> None:
    wiring = two_feeds(Redundancy.N)
    held = tuple(replace(one, shelf="shelf0", feed="") for one in wiring.supplies)
    wiring = replace(wiring, supplies=held, feeds=(), shelves=(Shelf(name="shelf0", rated_w=8000.0),))
    (found,) = over(wiring, even(10_000.0))
    assert (found.link.kind, found.severity) == (LinkKind.SHELF, Severity.WARNING)
    assert found.link.load == pytest.approx(10_000.0)
    assert found.mend_w == pytest.approx(2000.0)


def test_two_plugs_of_one_label_are_judged_each_by_its_own_short_time_rating() -> None:
    plugs = (Plugs(name="other", rating_a=50.0), Plugs(name="other", rating_a=20.0, peak_a=30.0))
    wiring = two_feeds(Redundancy.N)
    wiring = replace(wiring, supplies=(replace(wiring.supplies[0], plugs=plugs), *wiring.supplies[1:]), feeds=())
    steady = {name: Draw(voltage_v=54.0, current_a=15.0) for name in even(1.0)}
    (found,) = over(wiring, steady, {name: replace(one, current_a=40.0) for name, one in steady.items()})
    assert (found.basis, found.link.rating, found.severity) == (Basis.PEAKS, 30.0, Severity.WARNING)
