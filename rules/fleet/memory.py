"""State of the fleet's engine between steps, and its form on disk."""

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Annotated

from pydantic import Field, TypeAdapter

from rules.limits.fleet import FleetLedger
from rules.policy.model import ActionClass
from telemetry.clock import NS_PER_S
from telemetry.records import Decision, Incident

# heuristic: longer than any useful cooldown.
KEEP_NS = 86_400 * NS_PER_S
# By policy and incident.
Pair = tuple[str, str]


class ClaimState(StrEnum):
    """State of a claim on a node: counted but not yet answered, held, or to be released."""

    RESERVED = "reserved"
    HELD = "held"
    LEAVING = "leaving"


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetClaim:
    """Action of one incident on one node; `due_ns` is the time of its next request."""

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
        """Return its key in memory."""
        return self.policy_id, self.incident_id, self.node


@dataclass(frozen=True, slots=True, kw_only=True)
class Awaited:
    """Symptom check of an action: when it is due and the value before; `helped` is None until then."""

    decision_id: str
    due_ns: int
    before: float | None
    helped: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """A decision that waits for approval."""

    decision_id: str
    policy_id: str
    incident_id: str
    expires_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UnsentPage:
    """Notification to send; kept until it was sent, also over restarts."""

    decision: Decision
    incident: Incident | None
    recovery: bool = False


@dataclass(slots=True, kw_only=True)
class FleetMemory:
    """State of one engine.

    Parameters
    ----------
    ledger, shadow
        Actions counted against the budgets: enforced ones, and those of a dry run.
    reported
        Refusals and dry runs that were reported, by policy, incident and kind.
    paged
        When operators were last notified, by policy and entity.
    notified
        Incidents that operators were notified of, with the policy.
    ended
        When a claim last ended, by policy and node.
    quiet
        Since when an incident that has claims is not open.
    barred
        Policies and incidents whose action an operator rejected.
    person
        Position in the journal of operator commands.
    """

    ledger: FleetLedger
    shadow: FleetLedger
    claims: dict[tuple[str, str, str], FleetClaim] = field(default_factory=dict)
    met_since: dict[Pair, int] = field(default_factory=dict)
    reported: set[tuple[str, str, str]] = field(default_factory=set)
    paged: dict[Pair, int] = field(default_factory=dict)
    notified: dict[str, str] = field(default_factory=dict)
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
        """Return the memory of a new service, which knows of no earlier action."""
        return FleetMemory(ledger=FleetLedger(since_ns=now_ns), shadow=FleetLedger(since_ns=0))

    def forget(self, live: frozenset[str], now_ns: int, *, keep_ns: int) -> None:
        """Drop entries of ended incidents without claims, and those older than any cooldown."""
        held = live | {claim.incident_id for claim in self.claims.values()}
        for table in (self.met_since, self.awaited, self.pending):
            for key in [key for key in table if key[1] not in held]:
                del table[key]
        self.reported = {one for one in self.reported if one[1] in held}
        self.approved = {pair for pair in self.approved if pair[1] in held}
        self.barred = {pair for pair in self.barred if pair[1] in held}
        self.quiet = {name: since_ns for name, since_ns in self.quiet.items() if name in held}
        self.paged = {key: at_ns for key, at_ns in self.paged.items() if now_ns - at_ns < keep_ns}
        self.ended = {key: at_ns for key, at_ns in self.ended.items() if now_ns - at_ns < keep_ns}

    def set_back(self, now_ns: int) -> None:
        """If the clock was set back, set later times to now, so that no wait is extended.

        The ledger stays as it is: counting an action for too long costs a budget, and never exceeds one.
        """
        for table in (self.met_since, self.paged, self.ended):
            table.update({key: now_ns for key, at_ns in table.items() if at_ns > now_ns})
        self.quiet.update({name: now_ns for name, since_ns in self.quiet.items() if since_ns > now_ns})
        self.released_ns = min(self.released_ns, now_ns)
        for key, claim in self.claims.items():
            # A regular claim is due within a quarter of its lease.
            if claim.due_ns - now_ns > claim.lease_s / 2 * NS_PER_S:
                self.claims[key] = replace(claim, due_ns=now_ns)

    def resume(self) -> None:
        """Continue after a restart: requests without an answer are sent again at once."""
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
            reported=tuple(sorted(self.reported)),
            paged=tuple((*key, at_ns) for key, at_ns in self.paged.items()),
            notified=tuple(self.notified.items()),
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
        return _STORED.dump_json(stored, by_alias=True)

    @staticmethod
    def from_json(body: bytes) -> "FleetMemory":
        """Read the result of `to_json`; ValueError if it is not one."""
        stored = _STORED.validate_json(body)
        return FleetMemory(
            ledger=stored.ledger,
            shadow=stored.shadow,
            claims={claim.key: claim for claim in stored.claims},
            met_since={(policy, name): at_ns for policy, name, at_ns in stored.met_since},
            reported=set(stored.reported),
            paged={(policy, name): at_ns for policy, name, at_ns in stored.paged},
            notified=dict(stored.notified),
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
    # The file keeps the keys of earlier versions.
    reported: Annotated[tuple[tuple[str, str, str], ...], Field(alias="said")]
    paged: _Stamps
    notified: Annotated[tuple[tuple[str, str], ...], Field(alias="told")]
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
