"""Margins after the loss of a feed, over tied buses and converters, and of supplies that several sensors show."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analytics.supply.supply_margins import Basis, Margin, MarginLevels, MarginPlan, draws_of, margins_of
from physics.breakers import BreakerCurve
from physics.next_failure import Draw, LinkKind
from physics.wiring import Bus, MainsFeed, Origin, Plugs, Redundancy, WiredSupply, Wiring
from telemetry.entities import Entity
from telemetry.records import Severity
from tests.analytics.scenes import node_of, supply

LEVELS = MarginLevels(continuous_ratio=0.8, over_current_ratio=1.3, critical_ratio=1.5)
BREAKER_A, MAINS_V, EFFICIENCY = 32.0, 230.0, 0.9


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


def over(wiring: Wiring, draws: Mapping[str, Draw], peaks: Mapping[str, Draw] | None = None) -> list[Margin]:
    found = margins_of(plan_of(wiring), draws, draws if peaks is None else peaks, LEVELS)
    return [one for one in found if one.excess > 1.0]


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
    assert feed.mend_w == pytest.approx(0.5 * 8000.0 * (1.0 - 1.0 / feed.excess))
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
    assert max(one.excess for one in margins_of(plan_of(wiring), left, left, LEVELS)) <= 1.0 + 1e-9
