"""Work of the responder, the switches that it holds and their next step; plain data that the work queue keeps. Pure."""

from dataclasses import dataclass, replace
from enum import Enum, StrEnum, auto
from hashlib import blake2b
from typing import Annotated

from pydantic import Field

from agent.responding.port import SwitchOwner, SwitchState
from telemetry.records import Action, ActionState, Decision, Incident, Mode

OWNER = "railwatch"


class Task(StrEnum):
    """Kind of work; the last three are for switches. `take_back` is the command of an operator."""

    SEND = "send"
    RECOVER = "recover"
    ENGAGE = "engage"
    RELEASE = "release"
    TAKE_BACK = "take_back"


class WorkPhase(StrEnum):
    """Progress of a piece of work.

    `begun` is written before anything is done: if it is found at a start, the result is unknown.
    """

    WAITING = "waiting"
    BEGUN = "begun"
    OVER = "over"


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Task of one actuator for one decision.

    `token` is the same for every attempt. `tries` counts failed attempts.
    """

    token: str
    actuator: str
    task: Task
    decision: Decision
    incident: Incident | None
    tries: int = 0

    @property
    def is_dry(self) -> bool:
        """True to do everything except the write."""
        return self.decision.mode is not Mode.ENFORCE

    @property
    def entity_id(self) -> str:
        """Entity that the work is for."""
        targets = self.decision.targets
        return targets[0] if targets else "" if self.incident is None else self.incident.entity_id


def work_of(actuator: str, task: Task, decision: Decision, incident: Incident | None) -> Work:
    """Return the work of one actuator for a decision."""
    token = token_of(actuator, task.value, decision.id)
    return Work(token=token, actuator=actuator, task=task, decision=decision, incident=incident)


def token_of(*parts: str) -> str:
    """Return a short hash of the parts; it is the same after the work queue is lost."""
    return blake2b("\0".join(parts).encode(), digest_size=6).hexdigest()


class Stage(StrEnum):
    """Stage of a switch; the two that end in -ing are uncertain until the switch is read back."""

    ENGAGING = "engaging"
    ENGAGED = "engaged"
    RELEASING = "releasing"


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchClaim:
    """Hold of an incident on a switch.

    `reported` is set once its engagement was reported, `failed` once its failure was, `expired` once its lease ran out.
    """

    incident_id: str
    decision_id: str
    entity_id: str
    reason: str
    lease_s: float
    # The key on disk is `told`.
    reported: Annotated[bool, Field(alias="told")] = False
    failed: bool = False
    expired: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldSwitch:
    """Switch that railwatch holds, and the incidents that claim it.

    `leaving` are the claims whose release is under way. `emptied` is set once the eviction has ended.
    """

    actuator: str
    target: str
    token: str
    stage: Stage
    claims: tuple[SwitchClaim, ...]
    leaving: tuple[SwitchClaim, ...] = ()
    tries: int = 0
    emptied: bool = False

    @property
    def is_settled(self) -> bool:
        """True if the switch is on and needs no write."""
        return self.stage is Stage.ENGAGED and bool(self.claims)

    def with_claim(self, claim: SwitchClaim) -> "HeldSwitch":
        """Return the switch with one claim added; it replaces an earlier one of the same incident."""
        others = tuple(one for one in self.claims if one.incident_id != claim.incident_id)
        return replace(self, claims=(*others, claim))

    def without(self, incident_id: str, *, reason: str) -> "HeldSwitch":
        """Return the switch with the claim of that incident leaving, for that reason."""
        gone = tuple(replace(one, reason=reason) for one in self.claims if one.incident_id == incident_id)
        rest = tuple(one for one in self.claims if one.incident_id != incident_id)
        return replace(self, claims=rest, leaving=(*self.leaving, *gone))

    @property
    def is_over(self) -> bool:
        """True if no claim is left."""
        return not self.claims and not self.leaving

    def claim_of(self, incident_id: str) -> SwitchClaim | None:
        """Return the claim of one incident, None if it has none."""
        return next((one for one in self.claims if one.incident_id == incident_id), None)


def action_of(
    *, knob: str, claim: SwitchClaim, state: ActionState, reason: str, time_ns: int, mode: Mode = Mode.ENFORCE
) -> Action:
    """Return the action that reports the result of one claim or one message; it has no setting."""
    return Action(
        id=f"{knob}:{claim.decision_id}",
        time_ns=time_ns,
        decision_id=claim.decision_id,
        incident_id=claim.incident_id,
        knob=knob,
        entity_id=claim.entity_id,
        unit="",
        found=None,
        wanted=None,
        read_back=None,
        state=state,
        mode=mode,
        lease_until_ns=None,
        owner=OWNER,
        reason=reason,
    )


def claim_of(work: Work, *, lease_s: float) -> SwitchClaim:
    """Return the claim of a piece of work."""
    return SwitchClaim(
        incident_id=work.decision.incident_id,
        decision_id=work.decision.id,
        entity_id=work.entity_id,
        reason=work.decision.reason,
        lease_s=lease_s,
    )


@dataclass(slots=True)
class ActuatorCounts:
    """Counts of one actuator; its thread raises them, any thread may read them.

    Attributes
    ----------
    done, refused, failed
        Work that ended in this state.
    unknown
        Work whose result is unknown because a process ended in the middle of it.
    retried
        Failed attempts that are retried.
    engaged, released, given_up
        Switches that were engaged, released, or left alone because someone else had changed them.
    """

    done: int = 0
    refused: int = 0
    failed: int = 0
    unknown: int = 0
    retried: int = 0
    engaged: int = 0
    released: int = 0
    given_up: int = 0

    def count(self, state: ActionState) -> None:
        """Count a reported state."""
        match state:
            case ActionState.DONE:
                self.done += 1
            case ActionState.REFUSED:
                self.refused += 1
            case ActionState.FAILED:
                self.failed += 1
            case _:
                pass


class SwitchStep(Enum):
    """Next step for a switch."""

    KEEP = auto()
    ENGAGE = auto()
    LANDED = auto()
    RELEASE = auto()
    GONE = auto()
    ABANDON = auto()


def plan(hold: HeldSwitch, standing: SwitchState) -> SwitchStep:
    """Return the step that brings a switch to the state that its claims want.

    A switch that we were about to change may have either state. One that we had changed and that has another state was
    changed by someone else.
    """
    ours = is_ours(standing, hold.token)
    if not hold.claims:
        return SwitchStep.RELEASE if ours else SwitchStep.GONE
    if hold.stage is Stage.ENGAGED:
        return SwitchStep.KEEP if ours else SwitchStep.ABANDON
    if ours:
        return SwitchStep.LANDED
    return SwitchStep.ENGAGE if standing.held is SwitchOwner.FREE else SwitchStep.ABANDON


def is_ours(standing: SwitchState, token: str) -> bool:
    """Return True if railwatch switched it on with this token."""
    return standing.held is SwitchOwner.OURS and standing.token in (None, token)
