"""Decisions of policies on recordings, compared with the recorded ones, for ``railwatch rules test``."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.markup import escape

from config.guard_pipeline import pipeline_settings
from config.models import Config
from evaluation.policy_trial import DecisionPair, Trial, TrialDecision, decisions_of, try_out
from railwatch.cli.printing import pluralize, print_json, print_problems, print_table
from railwatch.cli.run_folder import open_records
from railwatch.run_context import recordings_dir
from telemetry.clock import NS_PER_S, SystemClock, iso_utc
from telemetry.durations import parse_duration_s
from telemetry.errors import ConfigError
from telemetry.recording import Recording, read_recording
from telemetry.records import Action, Record, Verdict


def try_recording(path: Path, config: Config, *, since: str | None, until: str | None, as_json: bool) -> None:
    """Try the policies in force on one recording, and show the differences in a time span."""
    read = read_recording(path)
    first_ns, last_ns = read.span_ns or (0, 0)
    span = _span(since, until, end_ns=last_ns, first_ns=first_ns)
    _show_trial(path, _tried(config, read, None, span), as_json=as_json)


def try_store(data_dir: Path, config: Config, *, since: str | None, until: str | None, as_json: bool) -> None:
    """Try every recording of a data folder; decisions outside of recordings cannot be judged."""
    span = _span(since, until, end_ns=SystemClock().utc_ns(), first_ns=0)
    with closing(open_records(data_dir)) as records:
        done = records.between(*span)
    covered: list[tuple[int, int]] = []
    for path, read in _recordings(recordings_dir(data_dir), span, as_json=as_json):
        first_ns, last_ns = read.span_ns or (0, 0)
        covered.append((first_ns, last_ns))
        # The result of a decision may be recorded after the recording has ended.
        inside = tuple(r for r in done if isinstance(r, Action) or first_ns <= r.time_ns <= last_ns)
        _show_trial(path, _tried(config, read, inside, span), as_json=as_json)
    bare = [item for item in decisions_of(done) if not any(a <= item.time_ns <= b for a, b in covered)]
    if as_json:
        for item in bare:
            print_json(
                {
                    "file": None,
                    **_fields(DecisionPair(time_ns=item.time_ns, would=None, was=item)),
                    "difference": "not judged",
                }
            )
        return
    first, last = (iso_utc(time_ns)[:19] for time_ns in span)
    many = f"{pluralize(len(covered), 'recording')}, {pluralize(len(bare), 'decision')}"
    typer.echo(f"{data_dir}: {many} outside of recordings, {first} to {last}")
    for item in bare:
        typer.echo(f"  {iso_utc(item.time_ns)[:19]}  {_described(item)}")


def _recordings(folder: Path, span: tuple[int, int], *, as_json: bool) -> Iterator[tuple[Path, Recording]]:
    """Yield every recording that overlaps a time span; one that a crash truncated is reported and skipped."""
    for path in sorted(folder.glob("*.parquet")):
        try:
            read = read_recording(path)
        except ConfigError as err:
            print_problems(err.problems, as_json=as_json)
            continue
        if read.span_ns is not None and read.span_ns[0] <= span[1] and read.span_ns[1] >= span[0]:
            yield path, read


def _tried(config: Config, read: Recording, done: Sequence[Record] | None, span: tuple[int, int]) -> Trial:
    trial = try_out(read, pipeline_settings(config, simulated=bool(read.meta.simulated)), done=done)
    return replace(trial, rows=tuple(row for row in trial.rows if span[0] <= row.time_ns <= span[1]))


def _show_trial(path: Path, trial: Trial, *, as_json: bool) -> None:
    if as_json:
        for row in trial.rows:
            print_json({"file": str(path), **_fields(row), "difference": row.difference})
        for reason in trial.unjudged:
            print_json({"file": str(path), "unjudged": reason})
        return
    rows = [
        (
            iso_utc(row.time_ns)[:23].replace("T", " "),
            "-" if row.would is None else _described(row.would),
            "-" if row.was is None else _described(row.was),
            row.difference or "same",
        )
        for row in trial.rows
    ]
    print_table(
        str(path), ("time", "would be done", "was done", "difference"), rows or [("", "nothing", "nothing", "")]
    )
    console = Console(highlight=False)
    for reason in trial.unjudged:
        console.print(f"[yellow]not judged[/]: {escape(reason)}", soft_wrap=True)
    differ = sum(bool(row.difference) for row in trial.rows)
    differs = f"{differ} {'differs' if differ == 1 else 'differ'}"
    console.print(f"{pluralize(len(trial.rows), 'decision')}, {differs}", highlight=False)


def _described(answer: TrialDecision) -> str:
    setting = "" if answer.setting is None else f" {answer.setting:g}"
    outcome = f" ({answer.outcome})" if answer.outcome else ""
    verdict = "" if answer.verdict is Verdict.EXECUTE else f" [{answer.verdict.value}]"
    why = f": {answer.reason}" if answer.verdict is Verdict.REFUSE else ""
    return f"{answer.policy_id}: {answer.action}{setting} on {len(answer.targets)}{verdict}{outcome}{why}"


def _fields(row: DecisionPair) -> dict[str, Any]:
    def fields(answer: TrialDecision | None) -> dict[str, Any] | None:
        if answer is None:
            return None
        return {
            "time": iso_utc(answer.time_ns),
            "policy": answer.policy_id,
            "action": answer.action,
            "targets": list(answer.targets),
            "setting": answer.setting,
            "verdict": answer.verdict.value,
            "came": answer.outcome,
            "reason": answer.reason,
        }

    return {"time": iso_utc(row.time_ns), "would": fields(row.would), "was": fields(row.was)}


def _span(since: str | None, until: str | None, *, end_ns: int, first_ns: int) -> tuple[int, int]:
    start_ns = first_ns if since is None else _time_ns(since, "--since", end_ns)
    stop_ns = end_ns if until is None else _time_ns(until, "--until", end_ns)
    if start_ns > stop_ns:
        found = f"{iso_utc(start_ns)[:19]} lies after {iso_utc(stop_ns)[:19]}"
        raise ConfigError.at("--since", found, "a time before --until")
    return start_ns, stop_ns


def _time_ns(text: str, option: str, end_ns: int) -> int:
    """Read a UTC time, or a duration before the end."""
    try:
        return end_ns - round(parse_duration_s(text) * NS_PER_S)
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as err:
        expected = "a UTC time such as 2026-03-01T12:00:00, or a duration before the end such as 7d"
        raise ConfigError.at(option, f"got {text!r}", expected) from err
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * NS_PER_S)
