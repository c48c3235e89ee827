"""Two fleet services act on one fleet, know nothing of each other, lose requests and answers, and die: budgets hold.

`tests.rules.limits.test_fleet` shows the same for the ledger alone, this module for whole engines: with claims that end
and begin again, and requests without an answer that are sent again.
"""

from collections import Counter
from dataclasses import dataclass, field, replace
from enum import Enum

from hypothesis import given, settings
from hypothesis import strategies as st

from rules.fleet.engine import FleetEngine
from rules.fleet.loading import load_fleet_policies
from rules.fleet.memory import FleetMemory
from rules.fleet.orders import FleetIncident, FleetOrder, FleetView, OrderKind, OrderResult
from rules.fleet.policy import FleetPolicy
from rules.limits.fleet import Begun, FleetLedger, FleetLimits
from rules.policy.model import ActionClass
from telemetry.clock import NS_PER_S
from telemetry.records import IncidentState, Mode
from tests.rules.fleet.test_engine import T0_NS, sag
from tests.rules.limits.test_fleet import busiest_window, by

RACKS = {f"n{number:02d}": f"r{number % 4}" if number < 12 else "" for number in range(16)}
BUDGET = 4


class Way(Enum):
    """Fate of a request and its answer."""

    LOST = "lost"
    UNANSWERED = "unanswered"
    REFUSED = "refused"
    DONE = "done"


@dataclass(frozen=True)
class Turn:
    after_s: int
    late_s: int
    service: int
    sees: frozenset[str]
    ways: tuple[Way, ...]
    is_open: bool
    dies_after: int | None


@dataclass
class Nodes:
    """Claims that the agents hold, by service; an action is new on a node without a claim of this service."""

    held: set[tuple[int, str]] = field(default_factory=set)
    begun: list[Begun] = field(default_factory=list)
    counts: Counter[OrderKind] = field(default_factory=Counter)

    def take(self, service: int, order: FleetOrder, *, at_ns: int) -> OrderResult:
        node, key = order.claim.node, (service, order.claim.node)
        self.counts[order.order_kind] += 1
        if order.order_kind is OrderKind.END:
            self.held.discard(key)
        elif order.order_kind is OrderKind.BEGIN and key not in self.held:
            self.held.add(key)
            self.begun.append(Begun(node=node, rack=RACKS[node], time_ns=at_ns))
        return OrderResult.DONE if order.order_kind is not OrderKind.RENEW or key in self.held else OrderResult.LOST


turns = st.builds(
    Turn,
    after_s=st.integers(0, 250),
    late_s=st.integers(0, 20),
    service=st.integers(0, 1),
    sees=st.one_of(st.just(frozenset(RACKS)), st.frozensets(st.sampled_from(sorted(RACKS)))),
    ways=st.lists(st.sampled_from(Way), min_size=1, max_size=5).map(tuple),
    is_open=st.booleans(),
    dies_after=st.one_of(st.none(), st.integers(0, 6)),
)


def eager() -> FleetPolicy:
    """The built-in policy, which gives back at once and begins anew at once."""
    (cap,) = [one for one in load_fleet_policies() if one.then.action is ActionClass.CLOCK_CAP]
    return replace(cap, then=replace(cap.then, cooldown_s=0.0, release_after_s=1.0, release_every_s=1.0))


POLICY = eager()


def engine_of(service: int, share: float, disk: bytes) -> FleetEngine:
    shares = {"fleet-a": share, "fleet-b": 1 - share}
    limits = FleetLimits(
        me=sorted(shares)[service],
        shares=shares,
        modes=dict.fromkeys(ActionClass, Mode.ENFORCE),
        nodes_max=BUDGET,
        breaker_ratio=1.0,
    )
    memory = FleetMemory.from_json(disk)
    memory.resume()
    return FleetEngine((POLICY,), limits, memory)


def carried_out(engine: FleetEngine, turn: Turn, nodes: Nodes, now_ns: int) -> bytes:
    """Run one step of a service; returns what its disk has afterwards."""
    incident = sag(IncidentState.OPEN if turn.is_open else IncidentState.MITIGATED)
    fleet = FleetView(racks={node: RACKS[node] for node in sorted(turn.sees)}, reporting=turn.sees)
    step = engine.step([FleetIncident(incident=incident, nodes=tuple(sorted(RACKS)))], fleet, now_ns)
    written = engine.memory.to_json()  # before anything is asked
    for number, order in enumerate(step.orders):
        way = turn.ways[number % len(turn.ways)]
        if number == turn.dies_after:
            return written
        refused = (
            OrderResult.REFUSED if order.order_kind is OrderKind.BEGIN else OrderResult.SILENT
        )  # as the asker has it
        answer = {Way.LOST: OrderResult.SILENT, Way.REFUSED: refused}.get(way)
        if answer is None:
            done = nodes.take(turn.service, order, at_ns=now_ns + turn.late_s * NS_PER_S)
            answer = OrderResult.SILENT if way is Way.UNANSWERED else done
        engine.note(order.claim, order.order_kind, answer, now_ns)
    return written if turn.dies_after is not None else engine.memory.to_json()


@settings(max_examples=60)
@given(st.lists(turns, max_size=25), st.integers(1, 9))
def test_two_services_stay_within_every_budget_whatever_is_lost_and_whichever_dies(
    story: list[Turn], tenths: int
) -> None:
    disks = [FleetMemory(ledger=FleetLedger(since_ns=0), shadow=FleetLedger(since_ns=0)).to_json()] * 2
    nodes, now_ns = Nodes(), T0_NS
    for turn in story:
        now_ns += turn.after_s * NS_PER_S
        engine = engine_of(turn.service, tenths / 10, disks[turn.service])
        disks[turn.service] = carried_out(engine, turn, nodes, now_ns)
        known = {claim.node for claim in engine.memory.claims.values()}
        assert {node for service, node in nodes.held if service == turn.service} <= known
    assert busiest_window(nodes.begun) <= BUDGET
    for name in ("node", "rack"):
        groups = [group for group in by(nodes.begun, name) if getattr(group[0], name)]
        assert all(busiest_window(group) <= 1 for group in groups)
