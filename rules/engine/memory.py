"""State of the engine between steps, and its form on disk."""

from copy import copy
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar

from pydantic import TypeAdapter

from rules.engine.claims import CapClaim, Engagement, PolicyProgress, SteadyResistance
from rules.limits.node import DAY_NS, HOUR_NS, Breaker
from rules.policy.model import ActionClass, Policy
from telemetry.earlier_records import present_decision
from telemetry.records import Decision, Incident, IncidentState

# heuristic: resets of the breaker that are kept, with who and why.
RESETS_KEPT = 10

# The longest stretch over which a policy's budget may count (`per` in rules/policy/then_document.py).
ACTED_KEPT_NS = 31 * DAY_NS

Key = tuple[str, str]
# Tables of the memory by policy and incident or entity, stored as rows; and what is stored as it is.
_KEYED = ("watches", "ended", "returns", "latched", "rungs", "approved")
_UNCHANGED = ("failed", "worsened", "breaker", "resets", "path_measured")


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionTaken:
    """A new action as the budgets count it."""

    action: ActionClass
    policy_id: str
    time_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """Approval of one pending decision; `setting` is the one that was requested."""

    decision_id: str
    who: str
    why: str
    setting: float | None = None

    @property
    def summary(self) -> str:
        """Operator who approved, and the reason."""
        return f"approved by {self.who}" + (f": {self.why}" if self.why else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reset:
    """Reset of the breaker: operator, time and reason."""

    who: str
    why: str
    time_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Worsened:
    """An action after which its symptom got worse, and its GPUs."""

    gpus: tuple[str, ...]
    time_ns: int


_Timed = TypeVar("_Timed", ActionTaken, Worsened, PolicyProgress, Engagement, CapClaim, SteadyResistance)


@dataclass(slots=True, kw_only=True)
class Memory:
    """State of one engine. Keys are ``(policy id, incident id)`` or, if marked "by entity", ``(policy id, entity id)``.

    Parameters
    ----------
    engagements
        Switches outside the GPU that are held on.
    ended
        By entity: when the last action ended, for a day.
    acted
        When new actions were taken, for as long as a budget counts.
    returns
        By entity: when the symptom came back after its cap was relaxed, for a day.
    latched
        By entity: why its cap is no longer relaxed.
    rungs
        Result of the symptom check of a policy's last action on an incident.
    pending
        Decisions that wait for approval, or are approved and still to be executed, by their id.
    approved
        Approvals of those.
    failed
        Decisions in a row that could not be carried out.
    worsened
        Actions of the last hour after which things got worse.
    resets
        The last resets of the breaker.
    path_measured
        True once the supply path was measured under load.
    paths_read
        Supplies that had a voltage reading during that wait.
    waiting_since_ns
        Start of that wait in this run.
    now_ns
        When the last step was, None before the first one of this run.
    """

    incidents: dict[str, Incident] = field(default_factory=dict)
    claims: dict[Key, CapClaim] = field(default_factory=dict)
    engagements: dict[Key, Engagement] = field(default_factory=dict)
    watches: dict[Key, PolicyProgress] = field(default_factory=dict)
    ended: dict[Key, int] = field(default_factory=dict)
    acted: list[ActionTaken] = field(default_factory=list)
    returns: dict[Key, tuple[int, ...]] = field(default_factory=dict)
    latched: dict[Key, str] = field(default_factory=dict)
    rungs: dict[Key, bool] = field(default_factory=dict)
    pending: dict[str, Decision] = field(default_factory=dict)
    approved: dict[Key, Approval] = field(default_factory=dict)
    failed: tuple[str, ...] = ()
    worsened: tuple[Worsened, ...] = ()
    breaker: Breaker | None = None
    resets: tuple[Reset, ...] = ()
    path_measured: bool = False
    paths_read: frozenset[str] = frozenset()
    waiting_since_ns: int | None = None
    now_ns: int | None = None

    def copy(self) -> "Memory":
        """Return a copy; entries are frozen, so only the tables are copied."""
        return replace(self, **{field.name: copy(getattr(self, field.name)) for field in fields(self)})

    def note_time(self, now_ns: int) -> None:
        """Record the time. If the clock was set back, later times become now, so that no wait is extended."""
        if self.now_ns is not None and now_ns >= self.now_ns:
            self.now_ns = now_ns
            return
        self.now_ns = now_ns
        self.ended = {key: min(time_ns, now_ns) for key, time_ns in self.ended.items()}
        self.returns = {key: tuple(min(one, now_ns) for one in times) for key, times in self.returns.items()}
        self.acted = [_not_after(item, now_ns) for item in self.acted]
        self.worsened = tuple(_not_after(item, now_ns) for item in self.worsened)
        self.watches = {key: _not_after(watch, now_ns, kept="judged_ns") for key, watch in self.watches.items()}
        self.engagements = {key: _not_after(held, now_ns) for key, held in self.engagements.items()}
        self.claims = {
            key: replace(_not_after(claim, now_ns), steady=tuple(_not_after(item, now_ns) for item in claim.steady))
            for key, claim in self.claims.items()
        }
        self.pending = {name: _asked_by(decision, now_ns) for name, decision in self.pending.items()}

    def keep(self, key: Key, claim: CapClaim, now_ns: int) -> None:
        """Keep a cap while it holds a GPU; its end starts the cooldown."""
        if claim.settings:
            self.claims[key] = claim
        else:
            self.end(key, claim.entity_id, now_ns)

    def end(self, key: Key, entity_id: str, now_ns: int) -> None:
        """Drop a cap or an engagement; the cooldown starts now."""
        self.claims.pop(key, None)
        self.engagements.pop(key, None)
        self.ended[key[0], entity_id] = now_ns

    def note_acted(self, policy: Policy, now_ns: int) -> None:
        """Count a new action; kept for as long as a budget may count it."""
        self.acted.append(ActionTaken(action=policy.then.action, policy_id=policy.id, time_ns=now_ns))

    def note_return(self, policy_id: str, entity_id: str, now_ns: int, *, most: int) -> None:
        """Count a return of the symptom after a cap was relaxed; more than `most` in a day latch the cap."""
        key = (policy_id, entity_id)
        times = (*(time_ns for time_ns in self.returns.get(key, ()) if now_ns - time_ns < DAY_NS), now_ns)
        self.returns[key] = times
        if len(times) > most:
            self.latched[key] = f"the symptom came back {len(times)} times in a day; an operator must reset it"

    def reset(self, reset: Reset) -> None:
        """Reset the breaker, unlatch caps, and keep who did so."""
        self.resets = (*self.resets, reset)[-RESETS_KEPT:]
        self.breaker, self.failed, self.worsened = None, (), ()
        self.returns, self.latched = {}, {}

    def forget(self, now_ns: int) -> None:
        """Drop what has ended: memory is bounded by live incidents, a day of ends and a month of budgets."""
        held = {incident_id for _, incident_id in (*self.claims, *self.engagements)}
        over = [
            name
            for name, incident in self.incidents.items()
            if incident.state is IncidentState.CLOSED and name not in held
        ]
        for name in over:
            del self.incidents[name]
        live = self.incidents
        self.watches = {key: watch for key, watch in self.watches.items() if key[1] in live}
        self.rungs = {key: helped for key, helped in self.rungs.items() if key[1] in live}
        self.approved = {key: one for key, one in self.approved.items() if one.decision_id in self.pending}
        self.ended = {key: time_ns for key, time_ns in self.ended.items() if now_ns - time_ns < DAY_NS}
        self.acted = [item for item in self.acted if now_ns - item.time_ns < ACTED_KEPT_NS]
        self.worsened = tuple(item for item in self.worsened if now_ns - item.time_ns < HOUR_NS)

    def snapshot(self) -> dict[str, Any]:
        """Return it as JSON types."""
        tables: dict[str, Any] = {name: getattr(self, name) for name in _UNCHANGED}
        tables |= {name: tuple((*key, value) for key, value in getattr(self, name).items()) for name in _KEYED}
        stored = _Stored(
            incidents=tuple(self.incidents.values()),
            claims=tuple(self.claims.values()),
            engagements=tuple(self.engagements.values()),
            acted=tuple(self.acted),
            pending=tuple(self.pending.values()),
            paths_read=tuple(sorted(self.paths_read)),
            **tables,
        )
        state: dict[str, Any] = _STORED.dump_python(stored, mode="json")
        return state


def _with_present_decisions(state: dict[str, Any]) -> dict[str, Any]:
    """Return a snapshot with pending decisions of earlier versions in the present form, which has knob and setting."""
    pending = state.get("pending")
    if not isinstance(pending, list | tuple):
        return state
    return {**state, "pending": [present_decision(one) if isinstance(one, dict) else one for one in pending]}


def restore_memory(state: dict[str, Any], *, policies: frozenset[str]) -> Memory:
    """Restore a snapshot of `Memory`, without policies that no longer exist; ValueError if it is not one."""
    stored = _STORED.validate_python(_with_present_decisions(state))
    tables: dict[str, Any] = {name: getattr(stored, name) for name in _UNCHANGED}
    for table in _KEYED:
        rows = getattr(stored, table)
        tables[table] = {(policy, name): value for policy, name, value in rows if policy in policies}
    return Memory(
        incidents={incident.id: incident for incident in stored.incidents},
        claims={(item.policy_id, item.incident_id): item for item in stored.claims if item.policy_id in policies},
        engagements={
            (item.policy_id, item.incident_id): item for item in stored.engagements if item.policy_id in policies
        },
        acted=list(stored.acted),
        pending={item.id: item for item in stored.pending if item.rule in policies},
        paths_read=frozenset(stored.paths_read),
        **tables,
    )


def _not_after(item: _Timed, now_ns: int, *, kept: str = "") -> _Timed:
    """Return it with every later time set to now."""
    names = [one.name for one in fields(item) if one.name.endswith("_ns") and one.name != kept]
    late: dict[str, Any] = {name: now_ns for name in names if (getattr(item, name) or now_ns) > now_ns}
    return replace(item, **late)


def _asked_by(decision: Decision, now_ns: int) -> Decision:
    """Return a waiting decision requested now at the latest, so that its wait is not extended."""
    late_ns = max(decision.time_ns - now_ns, 0)
    expires_ns = None if decision.expires_ns is None else decision.expires_ns - late_ns
    return replace(decision, time_ns=decision.time_ns - late_ns, expires_ns=expires_ns)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stored:
    incidents: tuple[Incident, ...]
    claims: tuple[CapClaim, ...]
    engagements: tuple[Engagement, ...]
    watches: tuple[tuple[str, str, PolicyProgress], ...]
    ended: tuple[tuple[str, str, int], ...]
    acted: tuple[ActionTaken, ...]
    returns: tuple[tuple[str, str, tuple[int, ...]], ...]
    latched: tuple[tuple[str, str, str], ...]
    rungs: tuple[tuple[str, str, bool], ...]
    pending: tuple[Decision, ...]
    approved: tuple[tuple[str, str, Approval], ...]
    failed: tuple[str, ...]
    worsened: tuple[Worsened, ...]
    breaker: Breaker | None
    resets: tuple[Reset, ...]
    path_measured: bool = False  # absent in earlier snapshots
    paths_read: tuple[str, ...] = ()


_STORED: TypeAdapter[_Stored] = TypeAdapter(_Stored)
