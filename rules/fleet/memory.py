"""What the fleet's engine keeps between steps, and its form on disk."""

from dataclasses import dataclass, field, replace
from enum import StrEnum

from pydantic import TypeAdapter

from rules.limits.fleet import FleetLedger
from rules.policy.model import ActionClass
from telemetry.clock import NS_PER_S
from telemetry.records import Decision, Incident

# Longer than any cooldown that makes sense. heuristic.
KEEP_NS = 86_400 * NS_PER_S
# By policy and incident.
Pair = tuple[str, str]


class ClaimState(StrEnum):
    """Where a claim on a node stands: counted and not answered yet, held, or to be given back."""

    RESERVED = "reserved"
    HELD = "held"
    LEAVING = "leaving"


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetClaim:
    """One incident's action on one node; `due_ns` is when it has to be asked for again."""

    policy_id: str
    incident_id: str
    node: str
    rack: str
    action: ActionClass
    ratio: float | None
    lease_s: float
    decision_id: str
    begun_ns: int
    state: ClaimState
    due_ns: int
    reason: str

    @property
    def key(self) -> tuple[str, str, str]:
        """Return what it is known by."""
        return self.policy_id, self.incident_id, self.node


@dataclass(frozen=True, slots=True, kw_only=True)
class Awaited:
    """The symptom check of an action: what is compared, when, with what it was; `helped` is None until then."""

    decision_id: str
    due_ns: int
    before: float | None
    helped: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """A decision that waits for a person."""

    decision_id: str
    policy_id: str
    incident_id: str
    expires_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UnsentPage:
    """Something to be said to people; it stays until it was said, over restarts too."""

    decision: Decision
    incident: Incident | None
    recovery: bool = False


@dataclass(slots=True, kw_only=True)
class FleetMemory:
    """State of one engine.

    Parameters
    ----------
    ledger, shadow
        What is counted against the budgets: real actions, and those that were only said.
    said
        Refusals and dry runs that were told, by policy, incident and kind.
    paged
        When people were last told, by policy and entity.
    told
        Incidents that people were told of, with the policy that did.
    ended
        When a claim last ended, by policy and node.
    quiet
        Since when an incident that has claims is not open.
    barred
        Policy and incident to which a person said no.
    person
        Up to where the journal of people's words was followed.
    """

    ledger: FleetLedger
    shadow: FleetLedger
    claims: dict[tuple[str, str, str], FleetClaim] = field(default_factory=dict)
    met_since: dict[Pair, int] = field(default_factory=dict)
    said: set[tuple[str, str, str]] = field(default_factory=set)
    paged: dict[Pair, int] = field(default_factory=dict)
    told: dict[str, str] = field(default_factory=dict)
    ended: dict[Pair, int] = field(default_factory=dict)
    quiet: dict[str, int] = field(default_factory=dict)
    released_ns: int = 0
    awaited: dict[Pair, Awaited] = field(default_factory=dict)
    pending: dict[Pair, Pending] = field(default_factory=dict)
    approved: set[Pair] = field(default_factory=set)
    barred: set[Pair] = field(default_factory=set)
    unsent: list[UnsentPage] = field(default_factory=list)
    person: tuple[int, ...] = ()

    @staticmethod
    def begin(now_ns: int) -> "FleetMemory":
        """Return what a service knows that knows nothing: not what was begun before either."""
        return FleetMemory(ledger=FleetLedger(since_ns=now_ns), shadow=FleetLedger(since_ns=0))

    def forget(self, live: frozenset[str], now_ns: int, *, keep_ns: int) -> None:
        """Drop what belongs to incidents that are over and hold nothing, and what is older than any cooldown."""
        held = live | {claim.incident_id for claim in self.claims.values()}
        for table in (self.met_since, self.awaited, self.pending):
            for key in [key for key in table if key[1] not in held]:
                del table[key]
        self.said = {one for one in self.said if one[1] in held}
        self.approved = {pair for pair in self.approved if pair[1] in held}
        self.barred = {pair for pair in self.barred if pair[1] in held}
        self.quiet = {name: since_ns for name, since_ns in self.quiet.items() if name in held}
        self.paged = {key: at_ns for key, at_ns in self.paged.items() if now_ns - at_ns < keep_ns}
        self.ended = {key: at_ns for key, at_ns in self.ended.items() if now_ns - at_ns < keep_ns}

    def set_back(self, now_ns: int) -> None:
        """Where the clock was set back, what lies ahead of it is now: nothing waits for the old hour to come again.

        The ledger stays as it is: what it counts for too long costs a budget, and never more than one.
        """
        for table in (self.met_since, self.paged, self.ended):
            table.update({key: now_ns for key, at_ns in table.items() if at_ns > now_ns})
        self.quiet.update({name: now_ns for name, since_ns in self.quiet.items() if since_ns > now_ns})
        self.released_ns = min(self.released_ns, now_ns)
        for key, claim in self.claims.items():
            # What is in order is due within a quarter of its lease.
            if claim.due_ns - now_ns > claim.lease_s / 2 * NS_PER_S:
                self.claims[key] = replace(claim, due_ns=now_ns)

    def resume(self) -> None:
        """Go on after a restart: nobody waits for an answer any more, so what had none is asked at once."""
        for key, claim in self.claims.items():
            if claim.state is not ClaimState.HELD:
                self.claims[key] = replace(claim, due_ns=0)

    def to_json(self) -> bytes:
        """Return it as JSON."""
        stored = _Stored(
            ledger=self.ledger,
            shadow=self.shadow,
            claims=tuple(self.claims.values()),
            met_since=tuple((*key, at_ns) for key, at_ns in self.met_since.items()),
            said=tuple(sorted(self.said)),
            paged=tuple((*key, at_ns) for key, at_ns in self.paged.items()),
            told=tuple(self.told.items()),
            ended=tuple((*key, at_ns) for key, at_ns in self.ended.items()),
            quiet=tuple(self.quiet.items()),
            released_ns=self.released_ns,
            awaited=tuple((*key, one) for key, one in self.awaited.items()),
            pending=tuple(self.pending.values()),
            approved=tuple(sorted(self.approved)),
            barred=tuple(sorted(self.barred)),
            unsent=tuple(self.unsent),
            person=self.person,
        )
        return _STORED.dump_json(stored)

    @staticmethod
    def from_json(body: bytes) -> "FleetMemory":
        """Read what `to_json` gave; ValueError where it is none."""
        stored = _STORED.validate_json(body)
        return FleetMemory(
            ledger=stored.ledger,
            shadow=stored.shadow,
            claims={claim.key: claim for claim in stored.claims},
            met_since={(policy, name): at_ns for policy, name, at_ns in stored.met_since},
            said=set(stored.said),
            paged={(policy, name): at_ns for policy, name, at_ns in stored.paged},
            told=dict(stored.told),
            ended={(policy, name): at_ns for policy, name, at_ns in stored.ended},
            quiet=dict(stored.quiet),
            released_ns=stored.released_ns,
            awaited={(policy, name): one for policy, name, one in stored.awaited},
            pending={(one.policy_id, one.incident_id): one for one in stored.pending},
            approved=set(stored.approved),
            barred=set(stored.barred),
            unsent=list(stored.unsent),
            person=stored.person,
        )


_Stamps = tuple[tuple[str, str, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stored:
    ledger: FleetLedger
    shadow: FleetLedger
    claims: tuple[FleetClaim, ...]
    met_since: _Stamps
    said: tuple[tuple[str, str, str], ...]
    paged: _Stamps
    told: tuple[tuple[str, str], ...]
    ended: _Stamps
    quiet: tuple[tuple[str, int], ...]
    released_ns: int
    awaited: tuple[tuple[str, str, Awaited], ...]
    pending: tuple[Pending, ...]
    approved: tuple[Pair, ...]
    barred: tuple[Pair, ...]
    unsent: tuple[UnsentPage, ...]
    person: tuple[int, ...]


_STORED: TypeAdapter[_Stored] = TypeAdapter(_Stored)
