"""What passes between the fleet's engine and whoever carries out what it decides: incidents in, orders out, answers."""

from dataclasses import dataclass
from enum import StrEnum

from rules.fleet.memory import FleetClaim, FleetMemory
from rules.limits.fleet import FleetLimits
from telemetry.records import Decision, Incident, Outcome


class OrderKind(StrEnum):
    """What is to be done."""

    BEGIN = "begin"
    RENEW = "renew"
    END = "end"


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetIncident:
    """One incident that is not closed, and the nodes under its entity."""

    incident: Incident
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetView:
    """The members of the fleet with their racks, empty where unknown, and which of them have values now."""

    racks: dict[str, str]
    reporting: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetOrder:
    """One thing to do on a node for a claim."""

    order_kind: OrderKind
    claim: FleetClaim


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetStep:
    """What one step gave."""

    decisions: tuple[Decision, ...] = ()
    orders: tuple[FleetOrder, ...] = ()
    outcomes: tuple[Outcome, ...] = ()


class OrderResult(StrEnum):
    """What came of an order: done, refused for good, lost what stood there, or no answer."""

    DONE = "done"
    REFUSED = "refused"
    LOST = "lost"
    SILENT = "silent"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepContext:
    """One step of the engine: what it keeps, what limits it, who is there, and when it is."""

    memory: FleetMemory
    limits: FleetLimits
    fleet: FleetView
    now_ns: int
