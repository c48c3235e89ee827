"""Incident on one screen: what and how bad, evidence, actions, outcomes, and what to check next."""

from collections.abc import Iterable, Iterator, Sequence

import typer
from rich.console import Console
from rich.markup import escape

from railwatch.cli.printing import REASON_CHARACTERS, SEVERITY_STYLE
from railwatch.operator.action_groups import ActionGroup, change_text, group_actions, setting_text
from railwatch.operator.entity_names import EntityNames
from railwatch.operator.incident_story import checks_of
from rules.policy.model import ActionClass
from telemetry.clock import NS_PER_S, iso_utc
from telemetry.quantities import elapsed, evidence_label, quantity, shortened
from telemetry.records import Action, ActionState, Decision, Evidence, Finding, Incident, Outcome, Record, Verdict

# heuristic: ids that fit in one line.
_MOST_IDS = 6
# heuristic: detectors list the deciding numbers first, and six of them fit in a line.
MOST_NUMBERS = 6
_MOST_HYPOTHESES = 3
# heuristic: with the other parts these fit on one screen of 25 lines.
_MOST_EVIDENCE, _MOST_DECISIONS, _MOST_OUTCOMES = 5, 4, 3
_LABELS = {ActionClass.NOTIFY.value: "notification"}
_VERDICTS = {
    Verdict.EXECUTE: "decided",
    Verdict.RECOMMEND: "recommended, not done (mode recommend)",
    Verdict.OBSERVE: "not done (mode observe)",
    Verdict.REFUSE: "refused",
    Verdict.PENDING: "waiting for approval",
}


def find_incident(records: Iterable[Record], incident_id: str) -> Incident:
    """Return the newest record of an incident; report and exit with status 1 if none or several match."""
    known = {one.id: one for one in records if isinstance(one, Incident)}
    matches = [one for one in known.values() if one.id.startswith(incident_id)]
    if len(matches) != 1:
        found = f"{len(matches)} incidents match" if matches else "no such incident"
        typer.echo(f"railwatch: {incident_id}: {found}; {_known(matches or [*known.values()])}", err=True)
        raise typer.Exit(1)
    return matches[0]


def _known(incidents: Sequence[Incident]) -> str:
    if not incidents:
        return "there are no incidents"
    named = ", ".join(f"{one.id} ({one.cause.value})" for one in incidents[:_MOST_IDS])
    more = f" and {len(incidents) - _MOST_IDS} more" if len(incidents) > _MOST_IDS else ""
    return f"expected {'' if len(incidents) == 1 else 'one of '}{named}{more}"


def evidence_lines(
    findings: Iterable[Finding], names: EntityNames, *, most: int | None = MOST_NUMBERS
) -> Iterator[str]:
    """Yield one line per detector and set of numbers, with the entities first; `most` None prints every number."""
    alike: dict[tuple[str, ...], list[Finding]] = {}
    for finding in findings:
        alike.setdefault((finding.detector, *(item.name for item in finding.evidence)), []).append(finding)
    for (detector, *_), members in alike.items():
        columns = zip(*(finding.evidence for finding in members), strict=True)
        numbers = [f"{evidence_label(column[0].name)} {_span(column)}" for column in columns if not _is_empty(column)]
        where = names.names(finding.entity_id for finding in members)
        text = ", ".join(numbers[:most]) or "no numbers"
        title = detector.replace("_", " ").replace(".", ", ")
        yield f"{where}  {text}" if text.startswith(title) else f"{where}  {title}: {text}"


def _is_empty(column: Sequence[Evidence]) -> bool:
    """Return True for durations of zero: nothing was counted yet."""
    return column[0].unit == "s" and not any(item.value for item in column)


def _span(column: Sequence[Evidence]) -> str:
    """Return the value that several entities share, the range of their values, or all of them if without unit."""
    items = sorted(column, key=lambda item: item.value)
    texts = list(dict.fromkeys(quantity(item.value, item.unit, item.name) for item in items))
    if len(texts) == 1:
        return texts[0]
    if not items[0].unit:
        return ", ".join(texts)
    unit = texts[-1].rpartition(" ")[2]
    return f"{texts[0].removesuffix(f' {unit}')} to {texts[-1]}"


def print_incident(
    console: Console,
    incident: Incident,
    linked: Sequence[Record],
    names: EntityNames,
    *,
    has_routes: bool | None = None,
) -> None:
    """Print an incident with the decisions, actions and outcomes that belong to it.

    `has_routes` is True if notification routes are configured, None if that is not known.
    """
    print_head(console, incident, names)
    evidence = [*evidence_lines(incident.findings, names)]
    print_part(console, "evidence", evidence[:_MOST_EVIDENCE], more=len(evidence) - _MOST_EVIDENCE)
    changes = [one for one in linked if isinstance(one, Action)]
    done = [line for group in group_actions(changes) for line in group_lines(group, names)]
    done += decision_lines(linked, names, has_routes=has_routes)
    print_part(console, "what was done", done or ["nothing"])
    outcomes = [*outcome_lines(linked)]
    unjudged = ["not judged before the end"] if changes and incident.closed_ns else []
    print_part(console, "did it help", outcomes[-_MOST_OUTCOMES:] or unjudged, more=len(outcomes) - _MOST_OUTCOMES)
    print_part(console, "check next", [f"{number}. {text}" for number, text in enumerate(checks_of(incident), 1)])
    console.print(f"[dim]more: railwatch explain incident {incident.id}; UUIDs and every record: --verbose[/]")


def group_lines(group: ActionGroup, names: EntityNames) -> Iterator[str]:
    """Yield the lines of one group of changes: the settings and the state, the reason, and each failure."""
    first = group.steps[0].first
    yield f"{iso_utc(first.time_ns)[11:19]}  {group.label} on {names.names(group.entity_ids)}: {group.summary()}"
    applied = [step.first for step in group.steps if step.first.state is ActionState.APPLIED]
    if applied and applied[-1].unit:
        yield f"          why: {names.in_text(shortened(applied[-1].reason, REASON_CHARACTERS))}"
    if first.unit:
        yield f"          before: {setting_text(first.found, first.unit)}"
    for step in group.steps:
        if step.first.state in (ActionState.FAILED, ActionState.REFUSED) and step.first.unit:
            text = names.in_text(change_text(step.first))
            yield f"{iso_utc(step.first.time_ns)[11:19]}  {names.names(step.entity_ids)}: {text}"


def outcome_lines(records: Iterable[Record]) -> Iterator[str]:
    """Yield one line for each outcome, the newest record of each."""
    newest = {one.id: one for one in records if isinstance(one, Outcome)}
    for one in sorted(newest.values(), key=lambda outcome: outcome.time_ns):
        yield f"{iso_utc(one.time_ns)[11:19]}  {one.summary}"


def print_head(console: Console, incident: Incident, names: EntityNames) -> None:
    """Print what happened where, how bad it is, its state and its likeliest causes."""
    style = SEVERITY_STYLE[incident.severity]
    leading = [one.entity_id for one in incident.findings if one.cause is incident.cause]
    where = names.names(leading or (incident.entity_id,))
    console.print(
        f"[{style}]{incident.severity.value}: {incident.cause.value.replace('_', ' ')}[/] on {escape(where)}  "
        f"[dim]{incident.id}[/]",
        soft_wrap=True,
    )
    console.print(escape(names.in_text(incident.summary)), soft_wrap=True)
    for note in incident.notes:
        console.print(f"  {escape(names.in_text(note))}", soft_wrap=True)
    lasted_s = ((incident.closed_ns or incident.time_ns) - incident.opened_ns) / NS_PER_S
    held = ", held down by an action" if incident.held and incident.closed_ns is None else ""
    console.print(
        f"{incident.state.value}{held}, opened {iso_utc(incident.opened_ns)[:19]}Z, lasted {elapsed(lasted_s)}, "
        f"expected loss {incident.impact_gpu_hours:.1f} GPU-hours",
        soft_wrap=True,
    )
    if incident.silence is not None:
        console.print(f"[yellow]{escape(incident.silence)}[/]", soft_wrap=True)
    likely = [f"{one.cause.value.replace('_', ' ')} {one.probability:.0%}" for one in incident.hypotheses]
    if likely:
        console.print(f"likely cause: {', '.join(likely[:_MOST_HYPOTHESES])}", soft_wrap=True)


def decision_lines(linked: Sequence[Record], names: EntityNames, *, has_routes: bool | None = None) -> list[str]:
    """Return decisions without an action record of their own, each kind once with its count."""
    acted = {one.decision_id for one in linked if isinstance(one, Action)}
    alike: dict[tuple[str, Verdict, str], list[Decision]] = {}
    for one in linked:
        if not isinstance(one, Decision):
            continue
        if one.verdict is not Verdict.EXECUTE or (one.knob is None and one.id not in acted):
            alike.setdefault((one.action, one.verdict, one.rule), []).append(one)
    lines = []
    for (action, verdict, rule), found in alike.items():
        times = f", {len(found)} times" if len(found) > 1 else ""
        why = (
            f": {names.in_text(shortened(found[-1].reason, REASON_CHARACTERS))}"
            if verdict is not Verdict.EXECUTE
            else ""
        )
        label = _LABELS.get(action) or action.replace("_", " ")
        if found[-1].targets and action not in _LABELS:  # a notification has no target, only a subject
            label = f"{label} on {names.names(found[-1].targets)}"
        status = _VERDICTS[verdict]
        if action == ActionClass.NOTIFY and verdict is Verdict.EXECUTE:
            status = "not sent, no route is configured" if has_routes is False else "no delivery recorded"
        lines.append(f"{iso_utc(found[0].time_ns)[11:19]}  {label}: {status}{times} (rule {rule}){why}")
    hidden = len(lines) - _MOST_DECISIONS
    return [*lines[:_MOST_DECISIONS], *([f"... and {hidden} more"] if hidden > 0 else [])]


def print_part(console: Console, title: str, lines: Sequence[str], *, more: int = 0) -> None:
    """Print a heading and its lines, and how many more there are; nothing without lines."""
    if not lines:
        return
    console.print(f"[bold]{title}[/]")
    for line in lines:
        console.print(f"  {escape(line)}", soft_wrap=True)
    if more > 0:
        console.print(f"  ... and {more} more")
