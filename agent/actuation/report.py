"""Actions and log lines about changes of knobs."""

import logging
from collections.abc import Iterable

from agent.actuation.claims import KnobClaim
from agent.actuation.held_knob import HeldKnob
from telemetry.records import Action, ActionState

logger = logging.getLogger(__name__)


def action_id(claim: KnobClaim, hold: HeldKnob) -> str:
    """Return the id of an incident's action on one GPU: the same from the first write to the release."""
    return f"{claim.kind}:{claim.incident_id}:{hold.target.uuid}"


def action_of(
    hold: HeldKnob, claim: KnobClaim, state: ActionState, *, reason: str, read_back: float | None, time_ns: int
) -> Action:
    """Return the action with the present state of a claim."""
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
