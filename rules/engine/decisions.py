"""Ids and verdicts of decisions: an id follows from rule, incident and time, so a replay returns the same ones."""

from telemetry.knobs import KnobKind
from telemetry.records import Decision, Mode, Verdict

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
