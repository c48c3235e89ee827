"""Actions and log lines about changes of knobs; the actions in force, and the newest ones for clients."""

import logging
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from agent.actuation.claims import KnobClaim
from agent.actuation.held_knob import HeldKnob
from telemetry.gpu import ReleasedBy
from telemetry.records import Action, ActionState

logger = logging.getLogger(__name__)

# heuristic: 64 GPUs that are capped, relaxed in steps and released within the seconds between two queries.
KEPT = 1024
# heuristic: actions in one reply, so that it stays below the server's limit for a client that reads slowly.
BATCH_MAX = 256


def action_id(claim: KnobClaim, hold: HeldKnob) -> str:
    """Return the id of an incident's action on one GPU: the same from the first write to the release."""
    return f"{claim.kind}:{claim.incident_id}:{hold.target.uuid}"


def action_of(
    hold: HeldKnob,
    claim: KnobClaim,
    state: ActionState,
    *,
    reason: str,
    read_back: float | None,
    time_ns: int,
    by: ReleasedBy | None = None,
) -> Action:
    """Return the action with the present state of a claim; `by` is set for a release."""
    return Action(
        id=action_id(claim, hold),
        time_ns=time_ns,
        decision_id=claim.decision_id,
        incident_id=claim.incident_id,
        knob=hold.knob,
        knob_kind=hold.kind,
        entity_id=hold.target.entity_id,
        unit=hold.kind.unit,
        found=hold.found,
        wanted=hold.setting,
        read_back=read_back,
        state=state,
        mode=claim.mode,
        lease_until_ns=claim.lease_until_ns,
        owner=claim.owner,
        reason=reason,
        released_by=by,
    )


def log_action(action: Action) -> None:
    """Log the state of an action."""
    level = logging.WARNING if action.state in (ActionState.FAILED, ActionState.REFUSED) else logging.INFO
    extra = {"state": action.state, "entity": action.entity_id, "wanted": action.wanted}
    logger.log(level, "%s of %s %s: %s", action.knob, action.entity_id, action.state, action.reason, extra=extra)


class ActionsInForce:
    """Newest action of every claim that is in force."""

    def __init__(self) -> None:
        self._newest: dict[str, Action] = {}

    def note(self, action: Action, *, held: bool) -> None:
        """Keep an action; `held` is False if its knob is no longer held."""
        if action.state is ActionState.RELEASED or not held:
            self._newest.pop(action.id, None)
        elif action.state is not ActionState.REFUSED:
            self._newest[action.id] = action

    def forget(self, hold: HeldKnob) -> None:
        """Drop the actions of a hold that is over."""
        for claim in (*hold.claims, hold.subject):
            self._newest.pop(action_id(claim, hold), None)

    def of(self, held: Iterable[tuple[KnobClaim, HeldKnob]]) -> tuple[Action, ...]:
        """Return the newest actions of these claims, in order."""
        ids = [action_id(claim, hold) for claim, hold in held]
        return tuple(self._newest[action_id] for action_id in ids if action_id in self._newest)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentBatch:
    """Actions since a number, and the number for the next query."""

    number: int
    actions: tuple[Action, ...]


class RecentActions:
    """Buffer of the newest actions; every action is passed on to a sink.

    Numbers begin at `first_number`, taken from the clock: they keep rising over a restart of the process, so that a
    client misses nothing.
    """

    def __init__(self, sink: Callable[[Action], None], *, first_number: int) -> None:
        self._sink = sink
        self._number = first_number
        self._recent: deque[tuple[int, Action]] = deque(maxlen=KEPT)

    def append(self, action: Action) -> None:
        """Append one action."""
        self._number += 1
        self._recent.append((self._number, action))
        self._sink(action)

    def since(self, number: int | None) -> RecentBatch:
        """Return the first actions after a number; None queries the number, a number from the future all actions."""
        if number is None:
            return RecentBatch(number=self._number, actions=())
        after = number if number <= self._number else 0
        newer = [pair for pair in self._recent if pair[0] > after][:BATCH_MAX]
        return RecentBatch(number=newer[-1][0] if newer else self._number, actions=tuple(action for _, action in newer))
