"""The fleet's engine: begins within budget, holds, requests again, releases one by one, notifies one person once."""

from dataclasses import replace

from rules.fleet.engine import FleetEngine
from rules.fleet.loading import load_fleet_policies
from rules.fleet.memory import ClaimState, FleetMemory
from rules.fleet.orders import FleetIncident, FleetStep, FleetView, OrderKind, OrderResult
from rules.fleet.policy import FleetPolicy
from rules.limits.fleet import FleetLedger, FleetLimits
from rules.limits.node import Maintenance
from rules.policy.model import ActionClass
from telemetry.clock import NS_PER_S
from telemetry.records import (
    Cause,
    Evidence,
    Finding,
    FindingStatus,
    Incident,
    IncidentState,
    Mode,
    Severity,
    Verdict,
)

T0_NS = 1_700_000_000 * NS_PER_S
ALL = dict.fromkeys(ActionClass, Mode.ENFORCE)
FEED = "supply:feed/pdu-a"


def sag(state: IncidentState = IncidentState.OPEN, *, name: str = "i-1", nodes: float = 30.0) -> Incident:
    finding = Finding(
        id="f-1",
        time_ns=T0_NS,
        since_ns=T0_NS,
        detector="common_mode",
        cause=Cause.INPUT_SAG,
        entity_id=FEED,
        status=FindingStatus.RAISED,
        severity=Severity.WARNING,
        score=1.0,
        summary="30 nodes sag",
        evidence=(Evidence(name="nodes", value=nodes, unit=""),),
    )
    return Incident(
        id=name,
        time_ns=T0_NS,
        opened_ns=T0_NS,
        closed_ns=None,
        cause=Cause.INPUT_SAG,
        entity_id=FEED,
        affected=(FEED,),
        state=state,
        severity=Severity.WARNING,
        impact_gpu_hours=1.0,
        summary="30 nodes on pdu-a sag",
        findings=(finding,),
    )


class Fleet:
    """30 nodes of 200 hang on the feed, in racks of ten."""

    def __init__(self, policies: tuple[FleetPolicy, ...] | None = None, **changed: object) -> None:
        names = [f"n{number:03d}" for number in range(200)]
        self.view = FleetView(racks={name: f"r{name[:3]}" for name in names}, reporting=frozenset(names))
        self.nodes = tuple(names[:30])
        memory = FleetMemory(ledger=FleetLedger(since_ns=0), shadow=FleetLedger(since_ns=0))
        limits = FleetLimits(modes=ALL, life_s=0.0, **changed)  # type: ignore[arg-type]
        self.engine = FleetEngine(load_fleet_policies() if policies is None else policies, limits, memory)
        self.now_s = 0.0

    def step(self, *incidents: Incident, at_s: float, answer: OrderResult | None = OrderResult.DONE) -> FleetStep:
        now_ns = T0_NS + round(at_s * NS_PER_S)
        cases = [FleetIncident(incident=one, nodes=self.nodes) for one in incidents]
        step = self.engine.step(cases, self.view, now_ns)
        for order in step.orders:
            if answer is not None:
                self.engine.note(order.claim, order.order_kind, answer, now_ns)
        return step

    @property
    def held(self) -> list[str]:
        return [claim.node for claim in self.engine.memory.claims.values()]


def requested(step: FleetStep) -> list[tuple[OrderKind, str]]:
    return [(order.order_kind, order.claim.node) for order in step.orders]


def test_one_node_a_rack_is_capped_and_the_rest_is_refused_once_with_its_reason() -> None:
    fleet = Fleet()
    step = fleet.step(sag(), at_s=0)
    assert requested(step) == [(OrderKind.BEGIN, node) for node in ("n000", "n010", "n020")]
    assert [one.verdict for one in step.decisions] == [Verdict.EXECUTE, Verdict.REFUSE, Verdict.EXECUTE]
    assert "one rack in 10 min is used up; 27 nodes left as they are" in step.decisions[1].reason
    again = fleet.step(sag(), at_s=5)
    assert (again.decisions, again.orders) == ((), ())
    later = fleet.step(sag(), at_s=600)
    assert [node for order_kind, node in requested(later) if order_kind is OrderKind.BEGIN] == ["n001", "n011", "n021"]


def test_leases_are_renewed_four_times_and_an_unanswered_request_is_repeated_on_the_same_budget() -> None:
    fleet = Fleet()
    fleet.step(sag(), at_s=0, answer=OrderResult.SILENT)
    assert {claim.state for claim in fleet.engine.memory.claims.values()} == {ClaimState.RESERVED}
    assert [order_kind for order_kind, _ in requested(fleet.step(sag(), at_s=11))] == [OrderKind.BEGIN] * 3
    assert requested(fleet.step(sag(), at_s=20)) == []
    assert [order_kind for order_kind, _ in requested(fleet.step(sag(), at_s=42))] == [OrderKind.RENEW] * 3
    assert len(fleet.engine.memory.ledger.begun) == 3


def test_what_an_agent_refuses_is_given_back_and_left_alone_for_the_cooldown() -> None:
    fleet = Fleet()
    fleet.step(sag(), at_s=0, answer=OrderResult.REFUSED)
    # An attempt before it, which was not answered, may have been carried out.
    assert [order_kind for order_kind, _ in requested(fleet.step(sag(), at_s=5))] == [OrderKind.END] * 3
    assert fleet.held == []
    assert [node for _, node in requested(fleet.step(sag(), at_s=604))] == ["n001", "n011", "n021"]


def test_what_an_agent_does_not_renew_is_given_back_since_its_cap_may_still_stand() -> None:
    fleet = Fleet()
    fleet.step(sag(), at_s=0)
    assert [order_kind for order_kind, _ in requested(fleet.step(sag(), at_s=31, answer=OrderResult.LOST))] == [
        OrderKind.RENEW
    ] * 3
    assert [order_kind for order_kind, _ in requested(fleet.step(sag(), at_s=32))] == [OrderKind.END] * 3
    assert fleet.held == []


def test_caps_are_released_one_by_one_after_a_quiet_while_and_kept_while_the_incident_is_open() -> None:
    fleet = Fleet()
    fleet.step(sag(), at_s=0)
    quiet = sag(IncidentState.MITIGATED)
    for at_s in range(10, 1800, 10):
        assert all(order_kind is OrderKind.RENEW for order_kind, _ in requested(fleet.step(quiet, at_s=at_s)))
    ended = [
        (at_s, node)
        for at_s in range(1800, 1900, 5)
        for order_kind, node in requested(fleet.step(quiet, at_s=at_s))
        if order_kind is OrderKind.END
    ]
    assert ended == [(1810, "n000"), (1820, "n010"), (1830, "n020")]
    assert fleet.held == []


def test_a_tripped_breaker_holds_everything_until_a_person_resets_it() -> None:
    fleet = Fleet(breaker_ratio=0.10)
    step = fleet.step(sag(), at_s=0)
    assert fleet.engine.memory.ledger.breaker is not None
    began = [node for order_kind, node in requested(step) if order_kind is OrderKind.BEGIN]
    assert began == ["n000", "n010", "n020"][: len(began)]
    for at_s in range(700, 4000, 300):
        assert all(
            order_kind is OrderKind.RENEW
            for order_kind, _ in requested(fleet.step(sag(IncidentState.MITIGATED), at_s=at_s))
        )
    fleet.engine.memory.ledger.reset()
    assert (OrderKind.END, "n000") in requested(fleet.step(sag(IncidentState.MITIGATED), at_s=4000))


def test_people_are_reported_once_of_the_incident_and_of_the_breaker_in_the_same_breath() -> None:
    fleet = Fleet(breaker_ratio=0.10)
    for at_s in range(0, 600, 5):
        fleet.step(sag(), at_s=at_s)
    (page,) = fleet.engine.memory.unsent
    assert "breaker tripped" in page.decision.reason
    fleet.engine.note_sent(page.decision.id)
    fleet.step(at_s=600)
    assert [one.recovery for one in fleet.engine.memory.unsent] == [True]


def test_without_enforce_it_states_what_it_would_do_and_sends_no_request() -> None:
    fleet = Fleet(policies=load_fleet_policies())
    fleet.engine.limits = replace(fleet.engine.limits, modes=dict.fromkeys(ActionClass, Mode.OBSERVE))
    step = fleet.step(sag(), at_s=0)
    assert step.orders == ()
    assert fleet.engine.memory.unsent == []
    assert [one.verdict for one in step.decisions] == [Verdict.OBSERVE, Verdict.REFUSE, Verdict.OBSERVE]
    assert fleet.step(sag(), at_s=5).decisions == ()


def test_what_needs_approval_waits_expires_and_is_carried_out_once_approved() -> None:
    fleet = Fleet(approval=frozenset({ActionClass.CLOCK_CAP}))
    step = fleet.step(sag(), at_s=0)
    (pending,) = [one for one in step.decisions if one.verdict is Verdict.PENDING]
    assert step.orders == ()
    assert fleet.engine.answer_person("another", approved=True, now_ns=T0_NS) is False
    assert fleet.engine.answer_person(pending.id, approved=True, now_ns=T0_NS + NS_PER_S)
    assert len(fleet.step(sag(), at_s=5).orders) == 3

    late = Fleet(approval=frozenset({ActionClass.CLOCK_CAP}))
    late.step(sag(), at_s=0)
    late.step(sag(), at_s=3601)
    assert late.step(sag(), at_s=3700).orders == ()
    assert late.held == []


def test_an_outcome_states_whether_fewer_nodes_deviate_and_a_rung_above_waits_for_it() -> None:
    (cap,) = [policy for policy in load_fleet_policies() if policy.then.action is ActionClass.CLOCK_CAP]
    then = replace(cap.then, action=ActionClass.DRAIN, ratio=None)
    drain = replace(cap, id="feed-sag-drain", after=cap.id, then=then)
    fleet = Fleet(policies=(cap, drain), per_node=2, per_rack=2)
    fleet.step(sag(), at_s=0)
    (outcome,) = fleet.step(sag(nodes=30.0), at_s=61).outcomes
    assert (outcome.before, outcome.after, outcome.helped) == (30.0, 30.0, False)
    step = fleet.step(sag(nodes=30.0), at_s=700)
    assert ActionClass.DRAIN in {order.claim.action for order in step.orders}

    helped = Fleet(policies=(cap, drain), per_node=2, per_rack=2)
    helped.step(sag(), at_s=0)
    assert helped.step(sag(nodes=12.0), at_s=61).outcomes[0].helped is True
    step = helped.step(sag(nodes=12.0), at_s=700)
    assert ActionClass.DRAIN not in {order.claim.action for order in step.orders}


def test_the_memory_goes_over_a_restart_whole() -> None:
    fleet = Fleet(breaker_ratio=0.10, approval=frozenset({ActionClass.DRAIN}))
    fleet.step(sag(), at_s=0)
    memory = fleet.engine.memory
    assert FleetMemory.from_json(memory.to_json()) == memory


def test_a_silent_node_is_not_asked() -> None:
    fleet = Fleet()
    fleet.view = replace(fleet.view, reporting=fleet.view.reporting - {"n000"})
    assert [node for _, node in requested(fleet.step(sag(), at_s=0))] == ["n001", "n010", "n020"]


def test_a_silence_and_maintenance_hold_back_what_they_name_and_are_reported_once() -> None:
    cap = frozenset({ActionClass.CLOCK_CAP})
    silenced = replace(sag(), silence="silenced by ann")
    fleet = Fleet(silence_stops=cap)
    step = fleet.step(silenced, at_s=0)
    refused = [one.reason for one in step.decisions if one.verdict is Verdict.REFUSE]
    assert (refused, fleet.held) == (["silenced by ann; 30 nodes left as they are"], [])
    assert fleet.engine.memory.ledger.wanted == {}  # nothing is wanted of it, so no breaker trips
    assert fleet.step(silenced, at_s=5).decisions == ()
    work = Maintenance(start_ns=T0_NS, until_ns=T0_NS + 60 * NS_PER_S, why="new PDU", stops=frozenset(ActionClass))
    fleet = Fleet(maintenance=(work,))
    step = fleet.step(sag(), at_s=0)
    assert (fleet.held, fleet.engine.memory.unsent) == ([], [])
    assert "new PDU" in step.decisions[0].reason
    fleet.step(sag(), at_s=61)
    assert len(fleet.held) == 3
    assert len(fleet.engine.memory.unsent) == 1  # and people are notified when it is over


def test_a_clock_that_is_set_back_ends_no_lease_and_delays_no_command_and_no_release() -> None:
    fleet = Fleet()
    fleet.step(sag(), at_s=7200)
    fleet.step(sag(), at_s=7231)
    back = fleet.step(sag(), at_s=31)
    assert [order_kind for order_kind, _ in requested(back)] == [OrderKind.RENEW] * 3
    assert requested(fleet.step(sag(), at_s=36)) == []
    fleet.step(sag(IncidentState.CLOSED), at_s=7300)
    fleet.step(sag(IncidentState.CLOSED), at_s=100)  # quiet began ahead of this clock, and now counts from here
    left = fleet.step(sag(IncidentState.CLOSED), at_s=100 + 1801)
    assert sum(order_kind is OrderKind.END for order_kind, _ in requested(left)) == 1
    assert len(fleet.engine.memory.ledger.begun) <= 3
