"""Rehearsal of a PDU that sags under many nodes at once: the incidents, actions and pages that follow.

Loop, detectors, policies, limits, signatures and admission of the agents are the real ones. Simulated are the windows,
the clocks of the GPUs, and time, which passes as fast as it can.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from agent.responding.port import MessageRequest, Receipt
from analytics.fleet.judge import FleetSettings
from fleet.acting import FleetActing, FleetActuators
from fleet.agent_client import AgentClient
from fleet.certificates.tokens import Token, act, issue_token
from fleet.ledger_file import CommandReader, LedgerFile
from fleet.loop import FleetLoop, LoopSettings
from fleet.outbox import Outbox
from fleet.rehearsal.simulated_agents import SimulatedAgents
from fleet.rehearsal.simulated_fleet import SAGGING, SimulatedFleet, SimulatedReader
from rules.fleet.engine import FleetEngine
from rules.fleet.loading import load_fleet_policies
from rules.fleet.memory import FleetMemory
from rules.fleet.policy import FleetPolicy
from rules.limits.fleet import FleetLedger, FleetLimits
from rules.policy.model import ActionClass
from telemetry.clock import NS_PER_S
from telemetry.records import Incident, Mode
from telemetry.rollup import Resolution
from telemetry.uplink.port import WriteReply, WriteStatus

# Any time in the past.
START_NS = 1_700_000_000 * NS_PER_S
EVERY_S, LATENESS_S = 5, 15
# The nodes are healthy for some time before the sag.
SAG_FROM_S, SAG_UNTIL_S, WATCHED_S = 30, 120, 180
_FLEET = "rehearsal"
_DAY_NS = 86_400 * NS_PER_S


@dataclass(slots=True)
class SimulatedClock:
    """Clock that the rehearsal advances."""

    now_s: float = 0.0

    def monotonic_s(self) -> float:
        """Return seconds since the start."""
        return self.now_s

    def utc_ns(self) -> int:
        """Return nanoseconds since 1970."""
        return START_NS + round(self.now_s * NS_PER_S)

    def sleep_until(self, monotonic_s: float) -> None:
        """Advance to a time at once."""
        self.now_s = max(self.now_s, monotonic_s)


@dataclass(slots=True)
class PageCollector:
    """Collects the pages to operators."""

    name: str = "pages"
    orders: list[MessageRequest] = field(default_factory=list)

    def send(self, order: MessageRequest) -> Receipt:
        """Collect one page."""
        self.orders.append(order)
        return Receipt(summary="collected")


@dataclass(slots=True)
class DiscardingStore:
    """Store that accepts everything and keeps nothing."""

    name: str = "nowhere"

    def prepare(self) -> WriteReply:
        """Accept."""
        return WriteReply(status=WriteStatus.STORED)

    def write(self, resolution: Resolution, body: bytes) -> WriteReply:  # noqa: ARG002 -- the port's signature
        """Accept a body."""
        return WriteReply(status=WriteStatus.STORED)

    def close(self) -> None:
        """Do nothing: nothing is open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RehearsalResult:
    """Result of a rehearsal."""

    nodes: int
    fleet_nodes: int
    incidents: tuple[Incident, ...]
    acted_on: tuple[str, ...]
    racks_acted_on: int
    budget_nodes: int
    refused: int
    pages: tuple[str, ...]
    recoveries: int
    breaker: str

    @property
    def at_the_pdu(self) -> tuple[Incident, ...]:
        """Incidents on the PDU itself."""
        return tuple(one for one in self.incidents if one.entity_id == f"supply:feed/{SAGGING}")

    @property
    def holds(self) -> bool:
        """True if there is one incident, at the PDU, one page, and actions within budget."""
        one = len(self.incidents) == len(self.at_the_pdu) == 1 == len(self.pages)
        return one and len(self.acted_on) <= self.budget_nodes and len(set(self.acted_on)) == self.racks_acted_on


class PduSag:
    """Parts of one rehearsal, over a folder of its own."""

    def __init__(
        self, folder: Path, *, nodes: int, others: int, policies: tuple[FleetPolicy, ...] | None = None
    ) -> None:
        self.clock, self.pages = SimulatedClock(), PageCollector()
        self.fleet = SimulatedFleet(
            nodes=nodes, others=others, start_ns=START_NS, sag_from_s=SAG_FROM_S, sag_until_s=SAG_UNTIL_S
        )
        authority, key = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
        self.agents = SimulatedAgents(
            folder / "agents", self.fleet.gpus, _FLEET, key.public_key(), authority.public_key(), self.clock
        )
        self.outbox = Outbox(folder, DiscardingStore(), self.clock, name=_FLEET, spool_max_bytes=64 << 20)
        self.loop = FleetLoop(
            SimulatedReader(self.fleet),
            self.outbox,
            FleetSettings(above=self.fleet.above),
            LoopSettings(every_s=EVERY_S, lateness_s=LATENESS_S, deadline_s=1e9, catch_up_s=3600, since_ns=START_NS),
            self.clock,
            state_path=folder / "fleet.state",
            on_published=self._note,
        )
        scopes = (act(ActionClass.CLOCK_CAP),)
        token = Token(id="t-rehearsal", fleet=_FLEET, scopes=scopes, not_before_ns=1, expires_ns=START_NS + _DAY_NS)
        client = AgentClient(
            fleet=_FLEET,
            key=key,
            token=issue_token(token, authority),
            wire=self.agents,
            clock=self.clock,
            term=1,
            instance="rehearsal",
        )
        self.limits = FleetLimits(me=_FLEET, modes=dict.fromkeys(ActionClass, Mode.ENFORCE))
        memory = FleetMemory(ledger=FleetLedger(since_ns=0), shadow=FleetLedger(since_ns=0))
        self.engine = FleetEngine(load_fleet_policies() if policies is None else policies, self.limits, memory)
        self.acting = FleetActing(
            self.engine,
            FleetActuators(client=client, messages=(self.pages,)),
            LedgerFile(folder, self.clock),
            self.outbox,
            self.clock,
            commands=CommandReader(folder, ()),
            simulated=True,
        )
        self._opened: dict[str, Incident] = {}

    def _note(self, records: tuple[object, ...]) -> None:
        self._opened |= {one.id: one for one in records if isinstance(one, Incident)}

    def run(self, *, reached: Callable[[int], None] = lambda _: None) -> RehearsalResult:
        """Run to the end; `reached` is called with each step in seconds."""
        try:
            for second in range(EVERY_S, WATCHED_S + LATENESS_S, EVERY_S):
                self.clock.now_s = float(second)
                self.loop.step()
                current = self.loop.current()
                if current is not None:
                    self.acting.step(*current)
                    self.loop.note_claims(self.acting.claimed)
                self.agents.tick()
                reached(second)
        finally:
            self.outbox.close()
        return self._result()

    def _result(self) -> RehearsalResult:
        racks = {node: rack for rack, members in self.fleet.above.racks.items() for node in members}
        breaker = self.engine.memory.ledger.breaker
        acted_on = self.agents.acted_on
        return RehearsalResult(
            nodes=self.fleet.nodes,
            fleet_nodes=len(self.fleet.names),
            incidents=tuple(self._opened.values()),
            acted_on=acted_on,
            racks_acted_on=len({racks[node] for node in acted_on}),
            budget_nodes=self.limits.nodes_of(len(self.fleet.names)),
            refused=int(self.acting.metrics["fleet_refused"]),
            pages=tuple(one.decision.reason for one in self.pages.orders if not one.recovery),
            recoveries=sum(one.recovery for one in self.pages.orders),
            breaker="" if breaker is None else breaker.reason,
        )
