"""Branches that carry nothing: lost ones, and cold-redundant ones that sleep."""

from collections.abc import Sequence

import numpy as np
import pytest

from analytics.connectivity import GroupArray
from analytics.supply.branches import MIN_ROWS, Branches, gone, usual_after_block, watch_row
from telemetry.clock import NS_PER_MS, NS_PER_S
from telemetry.frames import FloatArray, filled

BUS: GroupArray = np.zeros(3, dtype=np.intp)
EVERY_NS = 100 * NS_PER_MS
USED = np.ones(3, dtype=np.bool_)
BUS_V = np.full(3, 11.9)


def loaded(amps: float = 40.0) -> Branches:
    """Return three supplies that have carried this much each."""
    branches = filled(Branches, 3)
    for _ in range(20):
        branches = usual_after_block(branches, np.full(3, amps), BUS_V, BUS, buses=BUS)
    return branches


def relearnt(branches: Branches, amps: float) -> Branches:
    """Return supplies whose load has changed for long."""
    for _ in range(40):
        branches = usual_after_block(branches, np.full(3, amps), BUS_V, BUS, buses=BUS)
    return branches


def watched(
    branches: Branches,
    totals_a: FloatArray,
    *,
    own_v: float = 11.9,
    others_v: float = 11.9,
    idle: Sequence[bool] = (),
    rated_w: float = np.nan,
    start_ns: int = NS_PER_S,
) -> bool:
    """Return True if supply 0 is off after rows in which it carries nothing and the others these currents together."""
    rng, found = np.random.default_rng(1), False
    volts = np.array([own_v, others_v, others_v])
    for row, total_a in enumerate(totals_a.tolist()):
        now_ns = start_ns + row * EVERY_NS
        amps = np.array([rng.normal(0.0, 0.1), total_a / 2, total_a / 2])
        gpus_light = np.full(3, bool(idle) and idle[row])
        branches = watch_row(
            branches,
            now_ns,
            current_a=amps,
            voltage_v=volts,
            used=USED,
            groups=BUS,
            nodes=BUS,
            buses=BUS,
            gpus_light=gpus_light,
            rated_w=np.full(3, rated_w),
        )
        off = gone(branches, now_ns, voltage_v=volts, open_v=np.full(3, np.nan), first_v=BUS_V)
        found = bool(off[0])
    return found


def one_row(branches: Branches, now_ns: int, current_a: FloatArray) -> Branches:
    return watch_row(
        branches,
        now_ns,
        current_a=current_a,
        voltage_v=BUS_V,
        used=USED,
        groups=BUS,
        nodes=BUS,
        buses=BUS,
        gpus_light=np.zeros(3, dtype=np.bool_),
        rated_w=np.full(3, np.nan),
    )


@pytest.mark.parametrize("amps", [25.0, 40.0])
def test_a_branch_that_carries_nothing_at_a_load_that_none_sleeps_at_is_off_at_once(amps: float) -> None:
    assert watched(relearnt(loaded(), amps), np.full(MIN_ROWS, 3 * amps))


def test_a_branch_that_carries_nothing_at_a_light_load_may_be_asleep() -> None:
    assert not watched(relearnt(loaded(), 12.0), np.full(100, 36.0))


@pytest.mark.parametrize(("rated_w", "is_off"), [(400.0, True), (600.0, False)])
def test_a_branch_with_known_ratings_may_be_asleep_while_the_others_carry_less_than_half_of_theirs(
    rated_w: float, *, is_off: bool
) -> None:
    """The other two carry 428 W at 36 A, and the GPUs draw little all the time."""
    assert watched(loaded(12.0), np.full(100, 36.0), idle=[True] * 100, rated_w=rated_w) is is_off


def test_a_branch_may_be_asleep_while_the_gpus_light_although_no_other_load_was_seen() -> None:
    assert watched(loaded(12.0), np.full(100, 36.0))
    assert not watched(loaded(12.0), np.full(100, 36.0), idle=[True] * 100)


def test_a_branch_that_does_not_wake_when_the_gpus_work_is_off() -> None:
    assert watched(loaded(12.0), np.full(30, 36.0), idle=[True] * 20 + [False] * 10)


def test_a_branch_that_does_not_wake_when_the_load_grows_is_off() -> None:
    light, heavy = np.full(20, 36.0), np.full(4, 110.0)
    assert not watched(relearnt(loaded(), 12.0), np.concatenate((light, heavy[:2], light)))
    assert watched(relearnt(loaded(), 12.0), np.concatenate((light, heavy)))


def test_a_branch_that_fell_asleep_need_not_wake_while_the_others_bear_what_they_did_of_the_most() -> None:
    light = np.full(20, 36.0)
    assert not watched(relearnt(loaded(), 12.0), np.concatenate((light, np.full(30, 78.0))))
    assert watched(relearnt(loaded(), 12.0), np.concatenate((light, np.full(30, 84.0))))


def test_a_branch_whose_load_often_leaves_it_nothing_is_off_only_after_three_such_times() -> None:
    often = loaded()
    for start_ns in range(10 * NS_PER_S, 40 * NS_PER_S, 10 * NS_PER_S):
        for passed_s in (0, 2, 4):
            own_a = 0.0 if passed_s < 4 else 40.0
            often = one_row(often, start_ns + passed_s * NS_PER_S, np.array([own_a, 60.0, 60.0]))
    assert not watched(often, np.full(115, 120.0), start_ns=50 * NS_PER_S)
    assert watched(often, np.full(125, 120.0), start_ns=50 * NS_PER_S)
    assert watched(loaded(), np.full(MIN_ROWS, 120.0))


def test_a_branch_whose_own_output_is_gone_does_not_sleep() -> None:
    assert watched(relearnt(loaded(), 12.0), np.full(MIN_ROWS, 36.0), own_v=0.05)


def test_a_branch_that_lowered_its_output_as_it_fell_asleep_is_alive_at_any_load() -> None:
    light_to_heavy = np.concatenate((np.full(20, 36.0), np.full(30, 110.0)))
    assert not watched(relearnt(loaded(), 12.0), light_to_heavy, own_v=11.5)
    assert not watched(loaded(12.0), np.full(30, 36.0), own_v=11.5, idle=[True] * 20 + [False] * 10)


def test_a_branch_that_is_lower_with_all_of_its_bus_or_under_load_did_not_fall_asleep() -> None:
    light_to_heavy = np.concatenate((np.full(20, 36.0), np.full(30, 110.0)))
    assert watched(relearnt(loaded(), 12.0), light_to_heavy, own_v=11.5, others_v=11.5)
    assert watched(loaded(), np.full(30, 120.0), own_v=11.5)


def test_a_branch_that_is_off_stays_off_at_a_light_load() -> None:
    assert watched(relearnt(loaded(), 40.0), np.concatenate((np.full(10, 120.0), np.full(10, 100.0))))


def test_a_supply_of_54_v_is_watched_from_the_power_on_at_which_one_of_12_v_is() -> None:
    high, low = (filled(Branches, 3) for _ in range(2))
    for _ in range(20):
        high = usual_after_block(high, np.full(3, 2.0), np.full(3, 54.0), BUS, buses=BUS)
        low = usual_after_block(low, np.full(3, 2.0), np.full(3, 12.0), BUS, buses=BUS)
    assert watched(high, np.full(MIN_ROWS, 6.0))
    assert not watched(low, np.full(MIN_ROWS, 6.0))
