"""Agreement of operators with decisions that were not enforced: the basis of a promotion.

Railwatch promotes nothing itself; a person raises the mode in the configuration.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from rules.policy.model import ActionClass
from telemetry.clock import NS_PER_S
from telemetry.commands import Command, CommandVerb
from telemetry.records import Decision, Verdict

# heuristic: two weeks hold ten working days and two weekends of load, and one wrong decision in twenty is acceptable.
DAYS_MIN, AGREED_MIN = 14.0, 0.95
_DAY_NS = 86_400 * NS_PER_S
_REPORTED = frozenset({Verdict.OBSERVE, Verdict.RECOMMEND, Verdict.PENDING})
_YES, _NO = frozenset({CommandVerb.AGREE, CommandVerb.APPROVE}), frozenset({CommandVerb.DISAGREE, CommandVerb.REJECT})


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """Agreement on one action class: days since its first unenforced decision, decisions, judged, agreed."""

    action: str
    days: float
    reported: int
    judged: int
    agreed: int
    ready: bool
    lacks: str


def agreements_of(decisions: Sequence[Decision], commands: Sequence[Command], *, now_ns: int) -> tuple[Agreement, ...]:
    """Return the agreement of each class with decisions; the last judgement of a decision counts."""
    last: dict[str, CommandVerb] = {}
    for command in sorted(commands, key=lambda item: item.time_ns):
        if command.verb in _YES | _NO:
            last[command.subject] = command.verb
    found = []
    for action in ActionClass:
        own = [one for one in decisions if one.action == action.value and (one.verdict in _REPORTED or one.id in last)]
        if not own:
            continue
        since_ns = min(one.time_ns for one in own)
        verdicts = [last[one.id] for one in own if one.id in last]
        agreed = sum(verdict in _YES for verdict in verdicts)
        days = (now_ns - since_ns) / _DAY_NS
        lacks = _lacks(days, agreed, len(verdicts))
        found.append(
            Agreement(
                action=action.value,
                days=days,
                reported=len(own),
                judged=len(verdicts),
                agreed=agreed,
                ready=not lacks,
                lacks=lacks,
            )
        )
    return tuple(found)


def _lacks(days: float, agreed: int, judged: int) -> str:
    if days < DAYS_MIN:
        return f"{DAYS_MIN - days:.1f} more days"
    if not judged:
        return "an operator's judgement of any decision: railwatch actions judge"
    if agreed < AGREED_MIN * judged:
        return f"agreement of {AGREED_MIN:.0%}, it is {agreed / judged:.0%}"
    return ""
