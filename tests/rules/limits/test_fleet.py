"""Budgets of a fleet hold, also when two services act, the network splits and processes die."""

from collections.abc import Iterable
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rules.fleet.memory import FleetMemory
from rules.limits.fleet import Begun, FleetLedger, FleetLimits
from telemetry.clock import NS_PER_S

WINDOW_S = 600
NODES, RACKS = 30, 5
SERVICES = ("fleet-a", "fleet-b")


def rack_of(node: int) -> str:
    return f"r{node % RACKS}" if node < 25 else ""  # the last ones stand nowhere


def test_the_first_action_of_a_window_is_allowed_and_the_second_is_not() -> None:
    ledger, limits = FleetLedger(since_ns=0), FleetLimits(per_rack=5, life_s=0.0)
    now_ns = 1_000 * NS_PER_S
    assert ledger.refusal("n1", "r1", limits, fleet_nodes=5, now_ns=now_ns) == ("", "")
    ledger.note_begun("n1", "r1", now_ns)
    kind, texts = ledger.refusal("n2", "r2", limits, fleet_nodes=5, now_ns=now_ns + 599 * NS_PER_S)
    assert (kind, texts) == ("fleet", "the budget of 1 of 5 nodes in 10 min is used up")
    assert ledger.refusal("n2", "r2", limits, fleet_nodes=5, now_ns=now_ns + 600 * NS_PER_S) == ("", "")


def test_a_tenth_of_the_fleet_one_a_rack_and_one_a_node() -> None:
    ledger, limits, now_ns = FleetLedger(since_ns=0), FleetLimits(), 1_000 * NS_PER_S
    ledger.note_begun("n1", "r1", now_ns)
    assert ledger.refusal("n2", "r1", limits, fleet_nodes=100, now_ns=now_ns)[0] == "rack"
    assert ledger.refusal("n1", "", limits, fleet_nodes=100, now_ns=now_ns)[0] == "node"
    for number in range(9):
        ledger.note_begun(f"m{number}", "", now_ns)
    assert ledger.refusal("n3", "r3", limits, fleet_nodes=100, now_ns=now_ns)[0] == "fleet"


def test_a_service_that_remembers_nothing_waits_for_a_window() -> None:
    ledger = FleetLedger(since_ns=1_000 * NS_PER_S)
    assert ledger.refusal("n", "", FleetLimits(), fleet_nodes=9, now_ns=1_619 * NS_PER_S)[0] == "memory"
    assert ledger.refusal("n", "", FleetLimits(), fleet_nodes=9, now_ns=1_620 * NS_PER_S)[0] == ""


def test_the_breaker_trips_on_the_share_that_is_wanted_latches_and_is_reset_by_hand_alone() -> None:
    ledger, limits = FleetLedger(since_ns=0), FleetLimits(nodes_ratio=1.0, per_rack=100)
    now_ns = 1_000 * NS_PER_S
    reported = [ledger.want(f"n{number}", limits, fleet_nodes=20, now_ns=now_ns) for number in range(6)]
    assert [bool(texts) for texts in reported] == [False] * 4 + [True, False]
    assert "5 of 20 nodes" in reported[4]
    much_later_ns = now_ns + 86_400 * NS_PER_S
    ledger.forget(limits, much_later_ns)
    assert ledger.refusal("n9", "", limits, fleet_nodes=20, now_ns=much_later_ns)[0] == "breaker"
    ledger.reset()
    assert ledger.refusal("n9", "", limits, fleet_nodes=20, now_ns=much_later_ns)[0] == ""


def test_two_of_four_nodes_trip_no_breaker() -> None:
    ledger = FleetLedger(since_ns=0)
    assert not any(ledger.want(f"n{number}", FleetLimits(), fleet_nodes=4, now_ns=1) for number in range(2))


@pytest.mark.parametrize("shares", [{"a": 0.6, "b": 0.5}, {"b": 1.0}, {"a": 1.2, "b": -0.2}])
def test_shares_that_give_more_than_there_is_or_nothing_to_this_one_are_refused(shares: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="share"):
        FleetLimits(me="a", shares=shares)


@given(
    st.lists(st.integers(0, 100), min_size=1, max_size=5).filter(lambda parts: sum(parts) > 0),
    st.lists(st.integers(0, 200), min_size=5, max_size=5),
    st.text(max_size=5),
)
def test_parts_add_up_to_no_more_than_the_largest_total_that_anybody_sees(
    parts: list[int], totals: list[int], key: str
) -> None:
    shares = {f"s{place}": part / sum(parts) for place, part in enumerate(parts)}
    seen = dict(zip(shares, totals, strict=False))
    used = sum(FleetLimits(me=name, shares=shares).part_of(seen[name], key) for name in shares)
    assert used <= max(seen.values())


@dataclass(frozen=True)
class Turn:
    """Next event: time passes, then a service requests to act on some nodes, or dies."""

    after_s: int
    late_s: int
    service: int
    wants: tuple[int, ...]
    sees: frozenset[int]
    dies: bool
    forgets: bool


nodes_of = st.integers(0, NODES - 1)
turns = st.builds(
    Turn,
    after_s=st.integers(0, 400),
    # A request may be carried out as long as it lives.
    late_s=st.integers(0, 20),
    service=st.integers(0, 1),
    wants=st.lists(nodes_of, max_size=12).map(tuple),
    # A split of the network: each turn a service sees another part of the fleet, or all of it.
    sees=st.one_of(st.just(frozenset(range(NODES))), st.frozensets(nodes_of, min_size=1)),
    dies=st.booleans(),
    forgets=st.booleans(),
)


@settings(max_examples=150)
@given(st.lists(turns, max_size=40), st.integers(1, 9), st.sampled_from([(1, 0.1), (3, 0.0), (1, 0.4), (5, 0.5)]))
def test_two_services_that_know_nothing_of_each_other_stay_within_every_budget_in_any_window(
    story: list[Turn], tenths: int, budget: tuple[int, float]
) -> None:
    share = tenths / 10
    shares = {"fleet-a": share, "fleet-b": 1 - share}
    limits = [
        FleetLimits(me=me, shares=shares, nodes_max=budget[0], nodes_ratio=budget[1], breaker_ratio=1.0)
        for me in SERVICES
    ]
    now_ns = 10 * WINDOW_S * NS_PER_S
    # Written down before anything is asked: this is what a disk has.
    disks = [FleetMemory(ledger=FleetLedger(since_ns=0), shadow=FleetLedger(since_ns=0)).to_json()] * 2
    done: list[Begun] = []
    for turn in story:
        now_ns += turn.after_s * NS_PER_S
        if turn.forgets and turn.dies:
            disks[turn.service] = FleetMemory.begin(now_ns).to_json()
        memory, own = FleetMemory.from_json(disks[turn.service]), limits[turn.service]
        asked = []
        for number in turn.wants:
            node, rack = f"n{number}", rack_of(number)
            refused, _ = memory.ledger.refusal(node, rack, own, fleet_nodes=len(turn.sees), now_ns=now_ns)
            if number in turn.sees and not refused:
                memory.ledger.note_begun(node, rack, now_ns)
                asked.append(Begun(node=node, rack=rack, time_ns=now_ns + turn.late_s * NS_PER_S))
        memory.ledger.forget(own, now_ns)
        disks[turn.service] = memory.to_json()
        # A service that dies now has written down what it wanted to ask, and asked some of it.
        done += asked[: len(asked) // 2] if turn.dies else asked
    for group in (done, *by(done, "node"), *(one for one in by(done, "rack") if one[0].rack)):
        most = max(budget[0], int(budget[1] * NODES + 1e-9)) if group is done else 1
        assert busiest_window(group) <= most


def by(begun: list[Begun], name: str) -> Iterable[list[Begun]]:
    keys = {getattr(one, name) for one in begun}
    return [[one for one in begun if getattr(one, name) == key] for key in sorted(keys)]


def busiest_window(begun: list[Begun]) -> int:
    """The naive answer: from each action on, how many began within a window."""
    window_ns = WINDOW_S * NS_PER_S
    return max(
        (sum(0 <= other.time_ns - one.time_ns < window_ns for other in begun) for one in begun),
        default=0,
    )
