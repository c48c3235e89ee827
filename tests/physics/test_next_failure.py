"""Tests of the loads of links, as they are and with a supply lost, on the boxes of the field report."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from physics.breakers import BreakerCurve
from physics.link_loads import Draw, InputSide, LinkKind, LinkLoad, Trip, link_loads, trip_of
from physics.next_failure import after_loss, allowed_losses
from physics.wiring import Bus, MainsFeed, Origin, Plugs, Redundancy, WiredSupply, Wiring

# blbadger.github.io/gpu-server: supplies of 1100 W, banana plugs of 15 A, 1600 W at full load, a site of 120 V.
FULL_LOAD_W, RATED_W, BANANA_A, SITE_V = 1600.0, 1100.0, 15.0, 120.0


def box(n_supplies: int, *, rated_w: float | None = RATED_W, breaker_a: float | None = 20.0) -> Wiring:
    supplies = tuple(
        WiredSupply(
            name=f"psu{number}",
            sensors=(f"psu{number}",),
            rated_w=rated_w,
            feed="A",
            inlet=Plugs(name="C13", rating_a=10.0),
            plugs=(Plugs(name="banana", rating_a=BANANA_A),),
        )
        for number in range(n_supplies)
    )
    return Wiring(
        origin=Origin.CONFIGURED,
        supplies=supplies,
        buses=(Bus(name="main", nominal_v=12.0, supplies=tuple(one.name for one in supplies)),),
        feeds=(MainsFeed(name="A", nominal_v=SITE_V, breaker_a=breaker_a, curve=BreakerCurve.C),),
    )


def shared(n_supplies: int, voltage_v: float) -> dict[str, Draw]:
    current_a = FULL_LOAD_W / voltage_v / n_supplies
    return {f"psu{number}": Draw(voltage_v=voltage_v, current_a=current_a) for number in range(n_supplies)}


def of_kind(links: list[LinkLoad], kind: LinkKind) -> list[LinkLoad]:
    return [one for one in links if one.kind is kind]


def test_the_banana_plugs_of_three_supplies_carry_three_times_their_rating() -> None:
    plugs = of_kind([*link_loads(box(3), shared(3, 12.06))], LinkKind.PLUGS)
    assert [round(one.load) for one in plugs] == [44, 44, 44]
    assert plugs[0].ratio == pytest.approx(2.95, abs=0.01)
    assert plugs[0].shed_w == pytest.approx(FULL_LOAD_W / 3 - BANANA_A * 12.06)


def test_two_supplies_within_their_rating_cannot_lose_one() -> None:
    wiring, draws = box(2), shared(2, 12.0)
    assert [one.shed_w for one in of_kind([*link_loads(wiring, draws)], LinkKind.SUPPLY)] == [0.0, 0.0]
    left = after_loss(wiring, draws, frozenset({"psu1"}))
    assert left is not None
    (supply,) = of_kind([*link_loads(wiring, left)], LinkKind.SUPPLY)
    assert supply.load == pytest.approx(1600.0)
    assert supply.shed_w == pytest.approx(500.0)


def test_three_supplies_can_lose_one() -> None:
    left = after_loss(box(3), shared(3, 12.0), frozenset({"psu2"}))
    assert left is not None
    assert all(one.ratio < 1.0 for one in of_kind([*link_loads(box(3), left)], LinkKind.SUPPLY))


def test_the_losses_of_the_supplies_flow_through_the_feed() -> None:
    (feed,) = of_kind(
        [*link_loads(box(2, breaker_a=10.0), shared(2, 12.0), inputs=InputSide(efficiency={"psu0": 0.9, "psu1": 0.9}))],
        LinkKind.FEED,
    )
    assert feed.load == pytest.approx(1600.0 / 0.9 / 120.0)
    assert feed.trip is Trip.TRIPS
    assert feed.shed_w == pytest.approx(1600.0 - 10.0 * 120.0 * 0.9)


def test_what_has_no_rating_or_is_not_measured_is_not_judged() -> None:
    wiring = box(2, rated_w=None, breaker_a=None)
    kinds = {one.kind for one in link_loads(wiring, shared(2, 12.0))}
    assert kinds == {LinkKind.PLUGS, LinkKind.INLET}
    assert of_kind([*link_loads(box(2), {"psu0": Draw(voltage_v=12.0, current_a=10.0)})], LinkKind.FEED) == []


def test_a_bus_that_loses_all_its_supplies_has_no_loads() -> None:
    assert after_loss(box(2), shared(2, 12.0), frozenset({"psu0", "psu1"})) is None


@pytest.mark.parametrize(
    ("ratio", "expected"),
    [(1.0, Trip.HOLDS), (1.13, Trip.HOLDS), (1.3, Trip.MAY), (1.45, Trip.TRIPS), (5.0, Trip.INSTANT)],
)
def test_a_breaker_of_curve_c_trips_as_its_standard_states(ratio: float, expected: Trip) -> None:
    assert trip_of(ratio, BreakerCurve.C) is expected


@given(currents=st.lists(st.floats(0.1, 200.0), min_size=2, max_size=6), rated=st.booleans())
def test_the_current_of_a_lost_supply_is_carried_by_the_others(currents: list[float], *, rated: bool) -> None:
    draws = {f"psu{number}": Draw(voltage_v=12.0, current_a=one) for number, one in enumerate(currents)}
    left = after_loss(box(len(currents), rated_w=RATED_W if rated else None), draws, frozenset({"psu0"}))
    assert left is not None
    assert sum(one.current_a for one in left.values()) == pytest.approx(sum(currents))


def redundant(redundancy: Redundancy | None, n_supplies: int = 4, *, feeds: str = "AABB", joins: str = "") -> Wiring:
    wiring = box(n_supplies)
    supplies = tuple(replace(one, feed=feed) for one, feed in zip(wiring.supplies, feeds, strict=True))
    bus = replace(wiring.buses[0], redundancy=redundancy, joins=(joins,) if joins else ())
    return replace(wiring, supplies=supplies, buses=(bus,))


@pytest.mark.parametrize(
    ("redundancy", "expected"),
    [
        (Redundancy.N, []),
        (Redundancy.N_PLUS_1, ["psu0", "psu1", "psu2", "psu3"]),
        (Redundancy.N_PLUS_2, ["psu2 psu3"]),
        (Redundancy.N_PLUS_N, ["psu0 psu1", "psu2 psu3", "psu2 psu3"]),
        (None, ["psu0", "psu1", "psu2", "psu3", "psu0 psu1", "psu2 psu3"]),
    ],
)
def test_a_bus_must_bear_what_its_redundancy_allows_to_be_lost(redundancy: Redundancy, expected: list[str]) -> None:
    wiring = redundant(redundancy)
    found = allowed_losses(wiring, wiring.buses[0], shared(4, 12.0))
    assert [" ".join(sorted(one.supplies)) for one in found] == expected


def test_tied_buses_and_lone_supplies_have_no_loss_to_bear() -> None:
    tied, lone = redundant(None, joins="other"), box(1)
    assert [*allowed_losses(tied, tied.buses[0], shared(4, 12.0))] == []
    assert [*allowed_losses(lone, lone.buses[0], shared(1, 12.0))] == []
