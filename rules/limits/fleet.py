"""Limits of a fleet: how many nodes may be acted on in which time, and when its breaker trips.

Pure: time comes in as an argument. A figure without a source is marked heuristic.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from types import MappingProxyType

from rules.limits.node import MAY_WAIT, Breaker, Maintenance, stopped_by
from rules.policy.model import ActionClass
from telemetry.clock import NS_PER_S
from telemetry.records import Mode

_NOTHING_ENFORCED: Mapping[ActionClass, Mode] = MappingProxyType(dict.fromkeys(ActionClass, Mode.OBSERVE))
# Sums of shares such as 0.1 + 0.2 miss the whole number by this much at most.
_ROUNDING = 1e-9
# heuristic: a request that arrives so long after it was counted is not wanted any more, and no agent carries it out;
# one that it has taken it carries out within the rest, its journals and its actuator's time limit of a second included.
REQUEST_LIFE_S = 15.0
CARRIED_OUT_S = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetLimits:
    """Limits of one fleet service.

    Parameters
    ----------
    me, shares
        Its name, and the share of each budget that every service may use; empty if it is the only one. Budgets hold
        under any partition of the network, since no service uses the share of another.
    silence_stops, maintenance
        As on a node: classes of which a silenced incident gets no new action, and windows in which none begins.
    nodes_max, nodes_ratio
        Nodes on which an action may begin in any stretch of `window_s`: the larger of a number and a share of the
        fleet. Heuristic: a tenth in ten minutes, where the breaker of NVIDIA's NVSentinel lets pass half in five.
    per_rack, per_node
        The same for one rack, which shares its feed and its air, and for one node. Heuristic: one.
    life_s
        How long after its request an action may still begin: budgets count it for so much longer.
    breaker_ratio, breaker_window_s, breaker_nodes_min
        The breaker trips if actions are requested on more than this share of the fleet, allowed or not, and on at least
        this many nodes. NVSentinel (charts/fault-quarantine/values.yaml) trips at half of the nodes in five
        minutes and names a fifth in ten as its stricter example, which is taken here. Heuristic: three nodes, so that
        one of four is no reason.
    """

    me: str = "fleet"
    shares: Mapping[str, float] = field(default_factory=dict)
    modes: Mapping[ActionClass, Mode] = field(default_factory=lambda: _NOTHING_ENFORCED)
    approval: frozenset[ActionClass] = frozenset()
    silence_stops: frozenset[ActionClass] = frozenset(MAY_WAIT)
    maintenance: tuple[Maintenance, ...] = ()
    nodes_max: int = 1
    nodes_ratio: float = 0.10
    per_rack: int = 1
    per_node: int = 1
    window_s: float = 600.0
    life_s: float = CARRIED_OUT_S
    breaker_ratio: float = 0.20
    breaker_window_s: float = 600.0
    breaker_nodes_min: int = 3

    def __post_init__(self) -> None:
        """Refuse shares that add up to more than 1."""
        if self.shares and (self.me not in self.shares or min(self.shares.values()) < 0):
            raise ValueError(f"a share that is not negative for each service, {self.me} among them")
        if sum(self.shares.values()) > 1 + _ROUNDING:
            raise ValueError("shares that add up to at most 1")

    @property
    def counted_ns(self) -> int:
        """Return how long a budget counts a request, so that it holds for the time at which actions begin."""
        return round((self.window_s + self.life_s) * NS_PER_S)

    def mode(self, action: ActionClass, wanted: Mode) -> Mode:
        """Return the lower of the modes of the class and of the policy."""
        return min(self.modes.get(action, Mode.OBSERVE), wanted, key=list(Mode).index)

    def quiet(self, action: ActionClass, silence: str | None, now_ns: int) -> tuple[str, str]:
        """Return kind and reason of a silence or maintenance window that stops an action; empty texts for none."""
        if silence is not None and action in self.silence_stops:
            return "silence", silence
        window = stopped_by(self.maintenance, action, now_ns)
        return ("", "") if window is None else ("maintenance", window.summary)

    def nodes_of(self, fleet_nodes: int) -> int:
        """Return on how many nodes this service may begin to act in a window, by the size of the fleet."""
        return self.part_of(max(self.nodes_max, math.floor(self.nodes_ratio * fleet_nodes + _ROUNDING)), "fleet")

    def part_of(self, total: int, key: str) -> int:
        """Return this service's part of a budget; the parts of all add up to no more, even if each sees another total.

        Each gets its share, rounded down. If all shares round down to zero, as in a rack with a budget of one, one
        service that the key selects gets 1. The sum still holds: that service gets 1 only if its share of its total is
        below 1, and then the shares of the others of a total T, rounded down, are less than T.
        """
        if not self.shares:
            return total
        parts = {name: math.floor(share * total + _ROUNDING) for name, share in self.shares.items()}
        if any(parts.values()):
            return parts[self.me]
        holders = [name for name, share in self.shares.items() if share > 0]
        return 1 if total >= 1 and holders and self.me == _pointed_to(key, holders) else 0


def _pointed_to(key: str, names: Iterable[str]) -> str:
    """Return the name that a key selects (rendezvous hashing, Thaler and Ravishankar 1998): the same everywhere."""
    return max(names, key=lambda name: (blake2b(f"{key}\0{name}".encode(), digest_size=8).digest(), name))


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """Action that began, or was about to, on a node; `rack` is empty if it is not known."""

    node: str
    rack: str
    time_ns: int


@dataclass(slots=True, kw_only=True)
class FleetLedger:
    """Actions that a service has begun and requested; written to disk before any request is sent.

    Parameters
    ----------
    since_ns
        From when on it is complete. A service without a record of the last window begins nothing in it.
    """

    since_ns: int
    begun: list[Begun] = field(default_factory=list)
    wanted: dict[str, int] = field(default_factory=dict)
    breaker: Breaker | None = None

    def refusal(self, node: str, rack: str, limits: FleetLimits, *, fleet_nodes: int, now_ns: int) -> tuple[str, str]:
        """Return kind and reason of the limit that refuses an action on a node now; empty texts if none does."""
        window_ns = limits.counted_ns
        minutes = f"{limits.window_s / 60:g} min"
        if self.breaker is not None:
            return "breaker", f"the fleet's breaker tripped ({self.breaker.reason}); an operator must reset it"
        if now_ns - self.since_ns < window_ns:
            return "memory", f"what was begun in the last {minutes} is not known yet"
        recent = [one for one in self.begun if now_ns - one.time_ns < window_ns]
        part = limits.part_of(limits.per_node, f"node/{node}")
        if sum(one.node == node for one in recent) >= part:
            return "node", f"the budget of {part} actions on one node in {minutes} is used up"
        part = limits.part_of(limits.per_rack, f"rack/{rack}")
        if rack and sum(one.rack == rack for one in recent) >= part:
            return "rack", f"the budget of {part} of the nodes of one rack in {minutes} is used up"
        part = limits.nodes_of(fleet_nodes)
        if len(recent) >= part:
            return "fleet", f"the budget of {part} of {fleet_nodes} nodes in {minutes} is used up"
        return "", ""

    def note_begun(self, node: str, rack: str, now_ns: int) -> None:
        """Count an action as begun."""
        self.begun.append(Begun(node=node, rack=rack, time_ns=now_ns))

    def take_back(self, node: str, begun_ns: int) -> None:
        """Count an action no more that is to be asked for again, and so counted anew."""
        self.begun = [one for one in self.begun if (one.node, one.time_ns) != (node, begun_ns)]

    def want(self, node: str, limits: FleetLimits, *, fleet_nodes: int, now_ns: int) -> str:
        """Count that an action on a node is wanted; return why the breaker tripped, where that made it trip.

        `forget` has dropped what is older than the breaker's window.
        """
        if node in self.wanted:
            return ""
        self.wanted[node] = now_ns
        count = len(self.wanted)
        few = count < limits.breaker_nodes_min or count <= limits.breaker_ratio * fleet_nodes
        if self.breaker or few:
            return ""
        reason = (
            f"actions were wanted on {count} of {fleet_nodes} nodes within {limits.breaker_window_s / 60:g} min, "
            f"more than {limits.breaker_ratio:.0%}"
        )
        self.breaker = Breaker(tripped_ns=now_ns, reason=reason)
        return reason

    def reset(self) -> None:
        """Close the breaker on a person's word; what was wanted so far counts no more."""
        self.breaker = None
        self.wanted.clear()

    def forget(self, limits: FleetLimits, now_ns: int) -> None:
        """Drop what no budget asks for any more."""
        window_ns = limits.counted_ns
        breaker_ns = round(limits.breaker_window_s * NS_PER_S)
        self.begun = [one for one in self.begun if now_ns - one.time_ns < window_ns]
        self.wanted = {node: at_ns for node, at_ns in self.wanted.items() if now_ns - at_ns < breaker_ns}
