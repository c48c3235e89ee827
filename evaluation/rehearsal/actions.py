"""Actions of railwatch in a run, and whether the node gave a reason for them."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from evaluation.judgement.table import JudgementTable
from evaluation.rehearsal.outcome import TruthRecorder
from simulator.files.scenario import ScenarioFile
from simulator.runs.description import START_NS
from telemetry.clock import NS_PER_S
from telemetry.records import (
    IN_FORCE,
    Action,
    ActionState,
    Cause,
    Decision,
    Incident,
    Mode,
    Outcome,
    Record,
    Verdict,
)

# Causes that a cap responds to when the rail is too low; the true rail voltage shows whether it was.
_ELECTRICAL = frozenset(
    {
        Cause.SUPPLY_SAG,
        Cause.SUPPLY_OVERLOAD,
        Cause.SYNCHRONOUS_OVERLOAD,
        Cause.POWER_BRAKE,
        Cause.SUPPLY_LOST,
        Cause.JOINT_AGEING,
        Cause.INPUT_SAG,
    }
)
# The rail dips once a step, and a step lasts about a second: a minute covers any that railwatch can have seen, and the
# quiet time after which an incident closes. Heuristic.
_LOOK_BACK_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionSummary:
    """Actions of one run.

    Attributes
    ----------
    caps
        Decisions that lowered a clock and were carried out; `false_caps` of them without a reason in the truth.
    capped_share
        Share of the time in which any GPU was under a cap of ours.
    lowest_cap_mhz
        The lowest clock that was set; None where none was.
    to_first_cap_s
        From the first millisecond at which the rail was below the limit to the first write; where the rail never
        was, from the opening of the incident.
    failed
        Changes that the driver did not take, or that were refused on the way.
    reported
        Decisions of other kinds by their action; a rehearsal does not carry them out.
    refused
        Decisions that a limit refused.
    helped, not_helped
        Outcomes of caps, as the guard's own check saw them.
    """

    caps: int = 0
    false_caps: int = 0
    capped_share: float = 0.0
    lowest_cap_mhz: float | None = None
    to_first_cap_s: float | None = None
    failed: int = 0
    reported: dict[str, int] = field(default_factory=dict)
    refused: int = 0
    helped: int = 0
    not_helped: int = 0


def summarise_actions(
    records: Sequence[Record],
    actions: Sequence[Action],
    *,
    scenario: ScenarioFile,
    witness: TruthRecorder,
    table: JudgementTable,
    duration_s: float,
) -> ActionSummary:
    """Read what was done out of the records of a guard and the actions of its actuator."""
    enforced = [action for action in actions if action.mode is Mode.ENFORCE]
    first_of: dict[str, Action] = {}
    for action in enforced:
        if action.state is ActionState.APPLIED:
            first_of.setdefault(action.decision_id, action)
    incidents = [record for record in records if isinstance(record, Incident)]
    about = {key: _incident_at(incidents, action) for key, action in first_of.items()}
    false = [
        action
        for key, action in first_of.items()
        if not _has_reason(about[key], _seconds(action.time_ns), scenario, witness, table)
    ]
    decisions = [record for record in records if isinstance(record, Decision)]
    outcomes = [record for record in records if isinstance(record, Outcome)]
    others = (
        one.action for one in decisions if not one.action.startswith("clock_") and one.verdict is not Verdict.REFUSE
    )
    first = min(first_of.values(), key=lambda action: action.time_ns, default=None)
    wanted = [action.wanted for action in first_of.values() if action.wanted is not None]
    return ActionSummary(
        caps=len(first_of),
        false_caps=len(false),
        capped_share=_capped_s(enforced, duration_s) / duration_s,
        lowest_cap_mhz=min(wanted, default=None),
        to_first_cap_s=None if first is None else _since_symptom_s(first, about[first.decision_id], witness),
        failed=sum(action.state in (ActionState.FAILED, ActionState.REFUSED) for action in enforced),
        reported=dict(sorted(Counter(others).items())),
        refused=sum(one.verdict is Verdict.REFUSE for one in decisions),
        helped=sum(one.helped is True for one in outcomes),
        not_helped=sum(one.helped is False for one in outcomes),
    )


def _incident_at(incidents: Sequence[Incident], action: Action) -> Incident | None:
    known = [one for one in incidents if one.id == action.incident_id and one.time_ns <= action.time_ns]
    return known[-1] if known else None


def _has_reason(
    incident: Incident | None, time_s: float, scenario: ScenarioFile, witness: TruthRecorder, table: JudgementTable
) -> bool:
    """Return True if the scenario has the cause that the incident names, or the rail itself was too low."""
    if incident is None:
        return False
    if incident.cause in _ELECTRICAL and witness.below_within_s(time_s - _LOOK_BACK_S, time_s):
        return True
    return any(
        label.onset - table.early <= time_s <= (time_s if label.end is None else label.end + table.after_end)
        and str(incident.cause) in table.answers[label.cause].accepted
        for label in scenario.truth
    )


def _since_symptom_s(action: Action, incident: Incident | None, witness: TruthRecorder) -> float | None:
    done_s = _seconds(action.time_ns)
    below_s = witness.first_below_s
    if below_s is not None and below_s <= done_s:
        return round(done_s - below_s, 3)
    return None if incident is None else round((action.time_ns - incident.opened_ns) / NS_PER_S, 3)


def _capped_s(actions: Sequence[Action], duration_s: float) -> float:
    """Return the time during which at least one GPU was under a cap."""
    held: set[tuple[str, str]] = set()
    since_s, total_s = 0.0, 0.0
    for action in actions:
        key, now_s = (action.incident_id, action.entity_id), _seconds(action.time_ns)
        if held:
            total_s += now_s - since_s
        since_s = now_s
        if action.state in IN_FORCE:
            held.add(key)
        elif action.state is ActionState.RELEASED:
            held.discard(key)
    return total_s + (duration_s - since_s if held else 0.0)


def _seconds(time_ns: int) -> float:
    return (time_ns - START_NS) / NS_PER_S
