"""Pair of a policy and an incident in one step of the engine, and the decisions on it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from physics.node_state import MeasuredNode
from rules.caps.knobs import Scale, scale_of
from rules.engine.claims import PolicyProgress
from rules.engine.memory import Approval, Key, Memory
from rules.limits.node import NodeLimits
from rules.policy.model import Policy, Verb
from telemetry.entities import Topology
from telemetry.gpu import KnobKind
from telemetry.records import Decision, Incident, IncidentState, Mode, Verdict

VERDICTS = {Mode.ENFORCE: Verdict.EXECUTE, Mode.RECOMMEND: Verdict.RECOMMEND, Mode.OBSERVE: Verdict.OBSERVE}


def decision_id(policy_id: str, incident_id: str, now_ns: int) -> str:
    """Return the id of the decision of a policy on an incident at a time."""
    return f"{policy_id}:{incident_id}:{now_ns}"


def setting_of(decision: Decision) -> tuple[KnobKind, float] | None:
    """Return the knob that a decision sets, and its setting; None if it sets none."""
    return None if decision.knob is None or decision.setting is None else (decision.knob, decision.setting)


def policy_of(id_of_decision: str) -> str:
    """Return the policy of a decision."""
    return id_of_decision.partition(":")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyIncident:
    """Pair of a policy and an incident in a step. `memory` is that of the engine, the only part that changes."""

    policy: Policy
    incident: Incident
    node: MeasuredNode
    limits: NodeLimits
    topology: Topology
    memory: Memory
    now_ns: int

    @property
    def key(self) -> Key:
        """Key of its entries in memory."""
        return (self.policy.id, self.incident.id)

    @property
    def mode(self) -> Mode:
        """The mode in force."""
        return self.limits.mode(self.policy.then.action, self.policy.then.mode)

    @property
    def is_open(self) -> bool:
        """True if the symptom is present."""
        return self.incident.state is IncidentState.OPEN

    @property
    def new_id(self) -> str:
        """The id of a decision in this step."""
        return decision_id(*self.key, self.now_ns)

    @property
    def watch(self) -> PolicyProgress:
        """Progress of the policy on the incident."""
        return self.memory.watches.get(self.key, PolicyProgress())

    def scale(self, knob: KnobKind, names: Sequence[str]) -> Scale | None:
        """Return the settings that these GPUs share, as far as they answer; None if none does or none has the knob."""
        gpus = [gpu for name in names if (gpu := self.node.gpu(name)) is not None]
        return scale_of(knob, gpus, min_clock_ratio=self.limits.min_clock_ratio)

    def decide(
        self,
        verb: Verb,
        targets: Sequence[str],
        *,
        reason: str,
        setting: float | None = None,
        knob: KnobKind | None = None,
        mode: Mode | None = None,
        approval: Approval | None = None,
    ) -> Decision:
        """Return a decision; the verdict follows from the mode.

        An approved one keeps the id of its request and names who approved it.
        """
        mode = self.mode if mode is None else mode
        then = self.policy.then
        approver = () if approval is None else (("approved_by", approval.who),)
        return Decision(
            id=self.new_id if approval is None else approval.decision_id,
            time_ns=self.now_ns,
            rule=self.policy.id,
            incident_id=self.incident.id,
            action=verb.value,
            targets=tuple(targets),
            knob=knob,
            setting=setting,
            lease_s=then.lease_s if setting is not None or verb is Verb.DRAIN else None,
            mode=mode,
            verdict=VERDICTS[mode],
            reason=reason if approval is None else f"{reason}; {approval.summary}",
            parameters=(*then.parameters, *approver),
        )

    def refuse(self, kind: str, reason: str) -> Decision | None:
        """Return a refusal with its reason; None if the last refusal was of the same kind."""
        if self.watch.refused == kind:
            return None
        self.memory.watches[self.key] = replace(self.watch, refused=kind)
        return Decision(
            id=self.new_id,
            time_ns=self.now_ns,
            rule=self.policy.id,
            incident_id=self.incident.id,
            action=self.policy.then.action.value,
            targets=(self.incident.entity_id,),
            lease_s=None,
            mode=self.mode,
            verdict=Verdict.REFUSE,
            reason=reason,
        )

    def note_acted(self) -> None:
        """Count a new action against the budgets."""
        self.memory.note_acted(self.policy, self.now_ns)
        self.memory.watches[self.key] = replace(self.watch, refused=None)
