"""How a decision is written down: its id follows from rule, incident and time, so a replay gives the same ones."""

from collections.abc import Sequence

from rules.policy import Policy, Verb
from telemetry.records import Decision, Incident, Mode, Verdict

_VERDICTS = {Mode.ENFORCE: Verdict.EXECUTE, Mode.RECOMMEND: Verdict.RECOMMEND, Mode.OBSERVE: Verdict.OBSERVE}


def decision_id(policy_id: str, incident_id: str, now_ns: int) -> str:
    """Give the id of the one decision that a policy takes on an incident at a moment."""
    return f"{policy_id}:{incident_id}:{now_ns}"


def policy_of(id_of_decision: str) -> str:
    """Give the policy that took a decision."""
    return id_of_decision.partition(":")[0]


def decide(
    policy: Policy,
    incident: Incident,
    verb: Verb,
    targets: Sequence[str],
    *,
    mode: Mode,
    reason: str,
    now_ns: int,
    clock_mhz: float | None = None,
) -> Decision:
    """Write down what is to be done; the verdict follows from the mode."""
    return Decision(
        id=decision_id(policy.id, incident.id, now_ns),
        time_ns=now_ns,
        rule=policy.id,
        incident_id=incident.id,
        action=verb.value,
        targets=tuple(targets),
        clock_mhz=clock_mhz,
        lease_s=None if clock_mhz is None else policy.then.lease_s,
        mode=mode,
        verdict=_VERDICTS[mode],
        reason=reason,
    )


def refuse(policy: Policy, incident: Incident, *, mode: Mode, reason: str, now_ns: int) -> Decision:
    """Write down that nothing is done, and why."""
    return Decision(
        id=decision_id(policy.id, incident.id, now_ns),
        time_ns=now_ns,
        rule=policy.id,
        incident_id=incident.id,
        action=policy.then.action.value,
        targets=(incident.entity_id,),
        clock_mhz=None,
        lease_s=None,
        mode=mode,
        verdict=Verdict.REFUSE,
        reason=reason,
    )
