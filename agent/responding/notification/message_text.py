"""Text of messages: what, where, numbers, what railwatch did, what to check next."""

from collections.abc import Sequence

from agent.responding.notification.notice import Notice, NoticeKind
from analytics.classification.answers import FAULT_CLASS_GUIDES, SYMPTOM_GUIDES
from telemetry.clock import NS_PER_S, iso_utc
from telemetry.durations import format_duration
from telemetry.entities import label_of_id
from telemetry.records import FaultClass, Incident, Severity

# heuristic: lengths that are readable on a telephone.
_MOST_NUMBERS = 8
_MOST_ACTIVITY = 6
# heuristic: most incidents of a message with full text, and most that are listed.
_AT_LENGTH, _MOST_LISTED = 3, 20
_MINUTE_S = 60


def notice_of(
    incident: Incident,
    kind: NoticeKind,
    *,
    node: str,
    now_ns: int,
    previous: Severity | None = None,
    activity: Sequence[str] = (),
    link: str = "",
    simulated: bool = False,
) -> Notice:
    """Return the message about an incident."""
    return Notice(
        token=f"{incident.id}:{kind.value}:{incident.severity.value}",
        kind=kind,
        time_ns=now_ns,
        node=node,
        incident_id=incident.id,
        cause=incident.cause.value,
        entity_id=incident.entity_id,
        severity=incident.severity,
        previous=previous,
        opened_ns=incident.opened_ns,
        title=_title(incident, kind, node=node, simulated=simulated),
        summary=incident.summary,
        text="\n".join(_lines(incident, kind, node=node, previous=previous, activity=activity, link=link)),
        link=link,
        simulated=simulated,
        numbers=_numbers(incident),
    )


def trial_notice(*, node: str, now_ns: int, link: str) -> Notice:
    """Return a test message."""
    text = "This is a test: nothing is wrong. Sent by railwatch notify test."
    return Notice(
        token=f"test:{now_ns}",
        kind=NoticeKind.TEST,
        time_ns=now_ns,
        node=node,
        incident_id="test",
        cause="test",
        entity_id=f"node:{node}",
        severity=Severity.INFO,
        previous=None,
        opened_ns=now_ns,
        title=f"railwatch: test from {node}",
        summary="a test",
        text=text,
        link=link,
        simulated=False,
        numbers=(),
    )


def message_of(notices: Sequence[Notice]) -> tuple[str, str]:
    """Return title and text of one message for all notices."""
    if len(notices) == 1:
        return notices[0].title, notices[0].text
    over = sum(notice.over for notice in notices)
    worst = max((notice.severity for notice in notices if not notice.over), key=lambda one: one.rank, default=None)
    parts = [] if worst is None else [f"{len(notices) - over} incidents, worst {worst.value}"]
    parts += [f"{over} recovered"] if over else []
    nodes = sorted({notice.node for notice in notices})
    title = f"railwatch: {', '.join(parts)}, on {', '.join(nodes[:3])}" + (" and more" if len(nodes) > 3 else "")
    at_length = len(notices) <= _AT_LENGTH
    shown = [
        f"{notice.title}\n{notice.text}" if at_length else f"- {notice.title}: {notice.summary}"
        for notice in notices[:_MOST_LISTED]
    ]
    left = len(notices) - _MOST_LISTED
    if left > 0:
        shown.append(f"and {left} more: railwatch incidents list --open")
    elif not at_length:
        shown.append("Next: railwatch incidents list --open")
    return title, ("\n\n" if at_length else "\n").join(shown)


def _title(incident: Incident, kind: NoticeKind, *, node: str, simulated: bool) -> str:
    what = {NoticeKind.WORSE: "now ", NoticeKind.RECOVERED: "recovered, was "}.get(kind, "")
    where = node if incident.entity_id == f"node:{node}" else f"{node}, {label_of_id(incident.entity_id)}"
    note = " (simulated)" if simulated else ""
    return f"railwatch: {what}{incident.severity.value}: {incident.cause.value} on {where}{note}"


def _lines(
    incident: Incident, kind: NoticeKind, *, node: str, previous: Severity | None, activity: Sequence[str], link: str
) -> list[str]:
    lines = [f"What: {incident.text}"]
    symptom = SYMPTOM_GUIDES.get(incident.cause)
    if symptom is not None and kind is not NoticeKind.RECOVERED:
        lines.append(f"Means: {symptom.means}")
    others = len(set(incident.affected) - {incident.entity_id})
    lines.append(f"Where: {node}, {label_of_id(incident.entity_id)}" + (f" and {others} more" if others else ""))
    lines.append(_when(incident, kind))
    if previous is not None and kind is NoticeKind.WORSE:
        lines.append(f"Severity: {incident.severity.value}, was {previous.value}")
    numbers = ", ".join(f"{name} {value:g} {unit}".rstrip() for name, value, unit in _numbers(incident))
    lines += [f"Numbers: {numbers}"] if numbers else []
    lines += [f"railwatch: {line}" for line in activity[:_MOST_ACTIVITY]] or ["railwatch: no action"]
    if kind is not NoticeKind.RECOVERED:
        lines += _what_to_check(incident)
    lines.append(f"Next: railwatch explain incident {incident.id}")
    return [*lines, f"Page: {link}"] if link else lines


def _when(incident: Incident, kind: NoticeKind) -> str:
    since = f"Since: {iso_utc(incident.opened_ns)[:19]}Z"
    if kind is not NoticeKind.RECOVERED:
        return since
    seconds = max(0, ((incident.closed_ns or incident.time_ns) - incident.opened_ns) // NS_PER_S)
    lasted = format_duration(float(seconds if seconds < _MINUTE_S else seconds // _MINUTE_S * _MINUTE_S))
    return f"{since}, closed after {lasted}"


def _what_to_check(incident: Incident) -> list[str]:
    best = next((one for one in incident.hypotheses if one.cause is not FaultClass.UNKNOWN), None)
    if best is not None and best.cause in FAULT_CLASS_GUIDES:
        answer = FAULT_CLASS_GUIDES[best.cause]
        return [f"Likely: {answer.means} ({best.probability:.0%})", f"Check: {answer.check}"]
    symptom = SYMPTOM_GUIDES.get(incident.cause)
    return [] if symptom is None else [f"Check: {symptom.check}"]


def _numbers(incident: Incident) -> tuple[tuple[str, float, str], ...]:
    """Return the newest value of each piece of evidence, in the order of the findings."""
    newest: dict[str, tuple[float, str]] = {}
    for finding in sorted(incident.findings, key=lambda item: item.time_ns):
        newest.update({item.name: (item.value, item.unit) for item in finding.evidence})
    return tuple((name, _short(value), unit) for name, (value, unit) in newest.items())[:_MOST_NUMBERS]


def _short(value: float) -> float:
    """Return a measured value with four significant digits, as no sensor has more; a count keeps all of its own."""
    return value if value == round(value, 0) else float(f"{value:.4g}")
