"""What the responder has to do and what it holds: plain data that its journal keeps."""

from dataclasses import dataclass, replace
from enum import StrEnum
from hashlib import blake2b

from telemetry.records import Action, ActionState, Decision, Incident, Mode

OWNER = "railwatch"


class Task(StrEnum):
    """What a piece of work asks for; the last three are for switches. `take_back` is a person's word."""

    SEND = "send"
    RECOVER = "recover"
    ENGAGE = "engage"
    RELEASE = "release"
    TAKE_BACK = "take_back"


class Phase(StrEnum):
    """Where a piece of work stands.

    `begun` stands in the journal before anything is done: found there at a start, nobody knows whether it was.
    """

    WAITING = "waiting"
    BEGUN = "begun"
    OVER = "over"


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One thing that one actuator has to do for one decision.

    `token` is the same however often it is tried. `tries` counts those that failed.
    """

    token: str
    actuator: str
    task: Task
    decision: Decision
    incident: Incident | None
    tries: int = 0

    @property
    def is_dry(self) -> bool:
        """Whether everything but the write is to be done."""
        return self.decision.mode is not Mode.ENFORCE

    @property
    def entity_id(self) -> str:
        """What it is about."""
        targets = self.decision.targets
        return targets[0] if targets else "" if self.incident is None else self.incident.entity_id


def work_of(actuator: str, task: Task, decision: Decision, incident: Incident | None) -> Work:
    """Return the work that a decision means for one actuator."""
    token = token_of(actuator, task.value, decision.id)
    return Work(token=token, actuator=actuator, task=task, decision=decision, incident=incident)


def token_of(*parts: str) -> str:
    """Return a short mark that follows from its parts alone, so that a lost journal does not lose it."""
    return blake2b("\0".join(parts).encode(), digest_size=6).hexdigest()


class Stage(StrEnum):
    """How far a switch has been brought; the two that end in -ing are in doubt until it is read back."""

    ENGAGING = "engaging"
    ENGAGED = "engaged"
    RELEASING = "releasing"


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchClaim:
    """One incident's hold on a switch.

    `told` is set once its engagement was reported, `failed` once its failure was, `expired` once its lease ran out.
    """

    incident_id: str
    decision_id: str
    entity_id: str
    reason: str
    lease_s: float
    told: bool = False
    failed: bool = False
    expired: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldSwitch:
    """What railwatch holds of one switch, and for whom.

    `leaving` are the claims whose release is under way. `emptied` is set once what ran there had its time to end.
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
        """Whether nothing has to be written."""
        return self.stage is Stage.ENGAGED and bool(self.claims)

    def with_claim(self, claim: SwitchClaim) -> "HeldSwitch":
        """Return it with one claim added; it takes the place of an earlier one of the same incident."""
        others = tuple(one for one in self.claims if one.incident_id != claim.incident_id)
        return replace(self, claims=(*others, claim))

    def without(self, incident_id: str, *, reason: str) -> "HeldSwitch":
        """Return it less the claim of that incident, which is leaving for that reason."""
        gone = tuple(replace(one, reason=reason) for one in self.claims if one.incident_id == incident_id)
        rest = tuple(one for one in self.claims if one.incident_id != incident_id)
        return replace(self, claims=rest, leaving=(*self.leaving, *gone))

    @property
    def is_over(self) -> bool:
        """Whether nothing rests on it any more."""
        return not self.claims and not self.leaving

    def claim_of(self, incident_id: str) -> SwitchClaim | None:
        """Return the claim of one incident, None where it has none."""
        return next((one for one in self.claims if one.incident_id == incident_id), None)


def action_of(
    *, knob: str, claim: SwitchClaim, state: ActionState, reason: str, time_ns: int, mode: Mode = Mode.ENFORCE
) -> Action:
    """Write down what became of one claim or one message; nothing outside the GPU has a number to tell."""
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
    """Return the claim that a piece of work makes."""
    return SwitchClaim(
        incident_id=work.decision.incident_id,
        decision_id=work.decision.id,
        entity_id=work.entity_id,
        reason=work.decision.reason,
        lease_s=lease_s,
    )
