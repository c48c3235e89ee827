"""How a decision is written down: its id follows from rule, incident and time, so a replay gives the same ones."""

from telemetry.records import Mode, Verdict

VERDICTS = {Mode.ENFORCE: Verdict.EXECUTE, Mode.RECOMMEND: Verdict.RECOMMEND, Mode.OBSERVE: Verdict.OBSERVE}


def decision_id(policy_id: str, incident_id: str, now_ns: int) -> str:
    """Give the id of the one decision that a policy takes on an incident at a moment."""
    return f"{policy_id}:{incident_id}:{now_ns}"


def policy_of(id_of_decision: str) -> str:
    """Give the policy that took a decision."""
    return id_of_decision.partition(":")[0]
