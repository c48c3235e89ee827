"""Input and output of the fleet's engine: incidents and members in, orders for nodes out, and their results."""

from dataclasses import dataclass
from enum import StrEnum

from rules.fleet.memory import FleetClaim, FleetMemory
from rules.limits.fleet import FleetLimits
from telemetry.records import Decision, Incident, Outcome


class OrderKind(StrEnum):
    """Kind of an order."""

    BEGIN = "begin"
    RENEW = "renew"
    END = "end"


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetIncident:
    """Incident that is not closed, and the nodes under its entity."""

    incident: Incident
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetView:
    """The members of the fleet with their racks, empty where unknown, and which of them have values now."""

    racks: dict[str, str]
    reporting: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetOrder:
    """Order to a node for a claim."""

    order_kind: OrderKind
    claim: FleetClaim


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetStep:
    """Result of one step."""

    decisions: tuple[Decision, ...] = ()
    orders: tuple[FleetOrder, ...] = ()
    outcomes: tuple[Outcome, ...] = ()


class OrderResult(StrEnum):
    """Result of an order: done, refused, the claim was lost on the node, or no answer."""

    DONE = "done"
    REFUSED = "refused"
    LOST = "lost"
    SILENT = "silent"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepContext:
    """Memory, limits, members and time of one step of the engine."""

    memory: FleetMemory
    limits: FleetLimits
    fleet: FleetView
    now_ns: int
