"""Output of a live run: one line for several entities, and one every few seconds for a series of steps."""

import contextlib
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from railwatch.cli.printing import describe, describe_step, print_json
from railwatch.cli.run_folder import names_of_run
from railwatch.operator.action_groups import group_actions, setting_text, transition_text
from railwatch.operator.entity_names import EntityNames
from railwatch.run import NodeRun
from telemetry.clock import Clock, iso_utc
from telemetry.commands import Command
from telemetry.record_json import to_json
from telemetry.records import (
    IN_FORCE,
    Action,
    ActionState,
    Decision,
    Event,
    Finding,
    Incident,
    IncidentState,
    Record,
    Verdict,
)

# heuristic: steps of a cap come about once a second; a line each 5 s can be read while it scrolls.
STEP_LINE_S = 5.0
# heuristic: a stop that takes longer reports what it waits for.
STOPPING_REPORT_S = 3.0
_STEPS = (ActionState.APPLIED, ActionState.RELAXED)


@dataclass(slots=True)
class _Series:
    """Steps of one knob for one incident that are not printed yet, and the time of its last line."""

    printed_s: float
    waiting: list[Action] = field(default_factory=list)


class LiveLines:
    """Converts records to lines of Rich markup, each with the time of its record in front."""

    def __init__(self, names: Callable[[], EntityNames]) -> None:
        self._names = names
        self._incidents: dict[str, tuple[object, ...]] = {}
        self._series: dict[tuple[str, str], _Series] = {}
        # The setting last printed of each knob for each incident, until it is released.
        self._settings: dict[tuple[str, str], float] = {}

    def lines(self, records: Iterable[Record], *, now_s: float) -> Iterator[str]:
        """Yield the lines of new records, and those of steps that have waited long enough."""
        for _, alike in groupby(records, key=_group):
            yield from self._lines_of([*alike], now_s)
        for series in self._series.values():
            if series.waiting and now_s - series.printed_s >= STEP_LINE_S:
                yield self._flushed(series, now_s)

    def last_lines(self, *, now_s: float) -> Iterator[str]:
        """Yield the lines of all steps that were not printed yet."""
        for series in self._series.values():
            if series.waiting:
                yield self._flushed(series, now_s)

    def _lines_of(self, alike: Sequence[Record], now_s: float) -> Iterator[str]:
        match alike[0]:
            case Event() | Command():
                return
            case Finding() as finding:
                yield self._finding(finding, [one for one in alike if isinstance(one, Finding)])
            case Incident():
                yield from (self._line(one) for one in alike if isinstance(one, Incident) and self._is_new(one))
            case Action():
                yield from self._actions([one for one in alike if isinstance(one, Action)], now_s)
            case Decision():
                for one in alike:
                    if not (isinstance(one, Decision) and self._is_step_of_series(one, now_s)):
                        yield self._line(one)
            case _:
                yield from map(self._line, alike)

    def _finding(self, first: Finding, alike: Sequence[Finding]) -> str:
        others = [one.entity_id for one in alike[1:] if one.entity_id != first.entity_id]
        also = f" (also {escape(self._names().names(others))})" if others else ""
        return f"{self._line(first)}{also}"

    def _is_new(self, incident: Incident) -> bool:
        """Return True if an incident changed; its figures are in the lines of its findings."""
        state = (incident.state, incident.severity, incident.cause, incident.held)
        known = self._incidents.get(incident.id) == state
        self._incidents[incident.id] = state
        return not known

    def _is_step_of_series(self, decision: Decision, now_s: float) -> bool:
        """Return True for a decision whose action is a further step of a series; its line has the reason too."""
        if decision.verdict is not Verdict.EXECUTE or decision.knob is None:
            return False
        return any(key[0] == decision.incident_id for key, one in self._series.items() if _is_recent(one, now_s))

    def _actions(self, changes: Sequence[Action], now_s: float) -> Iterator[str]:
        for group in group_actions(changes):
            for step in group.steps:
                first = step.first
                if first.state is ActionState.RENEWED:
                    continue
                series = self._series.get((first.incident_id, first.knob))
                if first.state in _STEPS and first.unit and series is not None and _is_recent(series, now_s):
                    series.waiting += step.changes
                    continue
                if series is not None and series.waiting:
                    yield self._flushed(series, now_s)
                self._series.pop((first.incident_id, first.knob), None)
                if first.state in _STEPS:
                    self._series[first.incident_id, first.knob] = _Series(printed_s=now_s)
                yield self._step_line(step.changes)

    def _flushed(self, series: _Series, now_s: float) -> str:
        waiting, series.waiting, series.printed_s = series.waiting, [], now_s
        (group,) = group_actions(waiting)
        last = group.steps[-1]
        if len(group.steps) == 1:
            return self._step_line(last.changes)
        earlier = self._replaced(last.first)
        wanted, unit = last.first.wanted, last.first.unit
        setting = setting_text(wanted, unit) if earlier is None else transition_text(earlier, wanted, unit)
        since = iso_utc(group.steps[0].first.time_ns)[11:19]
        text = f"{group.label} {self._where(last.changes)}: {setting}, {len(group.steps)} steps since {since}"
        return _stamped(last.first, f"[green]action[/]  {escape(text)}")

    def _step_line(self, changes: Sequence[Action]) -> str:
        return _stamped(changes[0], describe_step(changes, names=self._names(), earlier=self._replaced(changes[0])))

    def _replaced(self, change: Action) -> float | None:
        """Return the setting that a step replaces, as last printed; None for the first step of a knob."""
        key = (change.incident_id, change.knob)
        if change.state is ActionState.RELEASED:
            self._settings.pop(key, None)
        if change.state not in _STEPS or not change.unit or change.wanted is None:
            return None
        earlier, self._settings[key] = self._settings.get(key), change.wanted
        return earlier

    def _where(self, changes: Sequence[Action]) -> str:
        return self._names().names(change.entity_id for change in changes)

    def _line(self, record: Record) -> str:
        return _stamped(record, describe(record, names=self._names(), brief=True))


def _stamped(record: Record, text: str) -> str:
    return f"[dim]{iso_utc(record.time_ns)[11:19]}[/]  {text}"


def _is_recent(series: _Series, now_s: float) -> bool:
    return now_s - series.printed_s < STEP_LINE_S


def _group(record: Record) -> tuple[object, ...]:
    """Return equal keys for records that share a line: one detector's findings, changes by actions."""
    match record:
        case Finding():
            return ("finding", record.detector, record.status, record.severity)
        case Action():
            return ("action",)
    return (type(record).__name__, record.id, record.time_ns)


class Reporter:
    """Prints records, as JSON lines or as lines for people, and counts them for the summary."""

    def __init__(self, clock: Clock, *, simulated: bool, as_json: bool, data_dir: Path) -> None:
        self._clock = clock
        self._simulated = simulated
        self._as_json = as_json
        # In JSON mode standard output carries records and nothing else.
        self._console = Console(stderr=as_json, highlight=False)
        self._counts: Counter[str] = Counter()
        self._incidents: set[str] = set()
        self._in_force: set[tuple[str, str]] = set()
        self._data_dir = data_dir
        self._names = EntityNames()
        self._lines = LiveLines(self._names_now)

    @property
    def caps_left(self) -> tuple[tuple[str, str], ...]:
        """Incident and entity of each cap that the records show in force."""
        return tuple(sorted(self._in_force))

    def line(self, text: str) -> None:
        """Print one line of text."""
        self._console.print(text, soft_wrap=True)

    def report(self, records: Iterable[Record], *, last: bool = False) -> None:
        """Print records; `last` also prints the steps that were held for a common line."""
        shown = [record for record in records if not isinstance(record, Event | Command)]
        for record in shown:
            self._count(record)
            if self._as_json:
                print_json(to_json(record, simulated=self._simulated))
        if self._as_json:
            return
        now_s = self._clock.monotonic_s()
        for text in self._lines.lines(shown, now_s=now_s):
            self.line(text)
        for text in self._lines.last_lines(now_s=now_s) if last else ():
            self.line(text)

    def _names_now(self) -> EntityNames:
        if not self._names.known:
            self._names = names_of_run(self._data_dir)
        return self._names

    def _count(self, record: Record) -> None:
        fields = type(record).__name__.lower()
        self._counts[fields] += 1
        # One that ended before it was confirmed, as part of another, is none of its own.
        if isinstance(record, Incident) and record.state is not IncidentState.CLOSED:
            self._incidents.add(record.id)
        if isinstance(record, Action):
            key = (record.incident_id, record.entity_id)
            if record.state in IN_FORCE:
                self._in_force.add(key)
            elif record.state is ActionState.RELEASED:
                self._in_force.discard(key)

    def summary(self, run: NodeRun, troubles: dict[str, Any]) -> None:
        """Print what the run recorded and what it could not undo; `troubles` are exit statuses of processes by name."""
        fields = {
            "time": iso_utc(self._clock.utc_ns()),
            "type": "summary",
            "source": run.source,
            "simulated": run.simulated,
            "incidents": len(self._incidents),
            "findings": self._counts["finding"],
            "decisions": self._counts["decision"],
            "actions": self._counts["action"],
            "outcomes": self._counts["outcome"],
            "caps_left": len(self.caps_left),
            "records_lost": run.records_lost,
            "restarts": run.restarts,
            "troubles": troubles,
        }
        for incident_id, entity_id in self.caps_left:
            sys.stderr.write(
                f"railwatch: {self._names_now().name(entity_id)}: cap of incident {incident_id} could not be released\n"
            )
        if run.records_lost:
            sys.stderr.write(f"railwatch: {run.records_lost} records of this run were lost: {run.record_trouble}\n")
        if self._as_json:
            print_json(fields)
            return
        left = "no cap left behind" if not self._in_force else f"{len(self._in_force)} caps could not be released"
        count = len(self._incidents)
        self.line(f"ended: {count} incident{'' if count == 1 else 's'}, {left}")
        if run.restarts:
            self.line(f"restarted processes: {run.restarts}")
        for name, status in troubles.items():
            sys.stderr.write(f"railwatch: process {name} exited with status {status}\n")


@contextlib.contextmanager
def slow_stop_reported(run: NodeRun, reporter: Reporter, *, after_s: float = STOPPING_REPORT_S) -> Iterator[None]:
    """Report the process that a stop waits for, once that takes long."""
    over = threading.Event()

    def follow() -> None:
        reported = ""
        while not over.wait(after_s):
            if run.waits_for != reported:
                reported = run.waits_for
                reporter.line(f"still stopping: waiting for {reported}")

    thread = threading.Thread(target=follow, name="report-stopping", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
