"""``railwatch record``: the ring, what comes next, or what the flight recorder has, as one file."""

import errno
import json
import os
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TimeRemainingColumn

from agent.recorder.black_box import BlackBox
from agent.recorder.entries import Entry, EntryKind
from agent.recorder.following import RowFollower
from agent.recorder.moments import Lines, MomentFollower
from agent.recorder.shelf import event_order
from agent.recorder.unpacking import contents_of
from config.sources import SourceUse
from railwatch.cli.printing import print_json
from railwatch.cli.run_folder import ConfigFile, DataDir, JsonFlag, data_dir_of, live_session
from railwatch.cli.up import seconds
from railwatch.recorded_run import box_dir, recordings_dir, run_meta, wishes_dir
from railwatch.run_context import RunContext
from telemetry.atomic_files import replace_file
from telemetry.clock import Clock, SystemClock
from telemetry.errors import EnvironmentLacksError
from telemetry.record_journal import has_room
from telemetry.recording import check_suffix, write_recording
from telemetry.recording_rows import KernelLine
from telemetry.records import Record

LOOK_S = 0.2
# Beyond the end of its window a recording takes a look of the recorder, a flush and the seconds of packing it.
WRITTEN_WITHIN_S = 30.0


def record(
    out: Annotated[
        Path | None,
        typer.Option("--out", help="The file: .parquet or .csv; without it the flight recorder writes one of its own."),
    ] = None,
    duration: Annotated[
        float | None,
        typer.Option(
            parser=seconds, metavar="DURATION", help="Record what comes next for this long; none takes the ring."
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that exists.")] = False,
    data_dir: DataDir = None,
    config_file: ConfigFile = None,
    as_json: JsonFlag = False,
) -> None:
    """Write samples at full rate with topology, configuration, records and kernel log to one file."""
    folder, clock = data_dir_of(config_file, data_dir), SystemClock()
    if duration == 0.0:
        raise typer.BadParameter("--duration 0s records nothing; expected more than that")
    if out is None:
        if duration is not None:
            raise typer.BadParameter("--duration goes with --out FILE")
        answer = _wish(live_session(folder), clock)
    else:
        check_suffix(out)
        if out.exists() and not force:
            raise typer.BadParameter(f"{out} exists; expected a name that is free, or --force")
        answer = _record(out, live_session(folder), duration, clock, replaces=force)
    if as_json:
        print_json(answer)
    else:
        lost = answer.get("lost_ring_rows", 0)
        told = f"{answer['file']}: {answer['rows']} rows, {answer['bytes'] / 1024:.0f} KiB"
        typer.echo(told + (f", {lost} ring rows lost" if lost else ""))


def _wish(context: RunContext, clock: Clock) -> dict[str, Any]:
    """Ask the flight recorder of a run for the window around now, and wait for it."""
    folder, data_dir = wishes_dir(context.run_dir), context.config.data_dir
    if context.config.recorder.use is SourceUse.OFF or not folder.is_dir():
        raise EnvironmentLacksError(f"{data_dir}: no flight recorder runs there; name a file with --out")
    if not has_room(data_dir):
        raise EnvironmentLacksError(
            f"{recordings_dir(data_dir)}: {os.strerror(errno.ENOSPC)}; expected some for a recording"
        )
    time_ns = clock.utc_ns()
    wish, done = folder / f"{time_ns}.wish", folder / f"{time_ns}.done"
    body = json.dumps({"reason": "requested by hand", "time_ns": time_ns}).encode()
    replace_file(wish, body, synced=False)
    end_s = clock.monotonic_s() + context.config.recorder.longest + WRITTEN_WITHIN_S
    said = Console(stderr=True)
    with said.status(f"recording {context.config.recorder.after:g} s more"):
        while clock.monotonic_s() < end_s and folder.is_dir():
            if done.exists():
                answer: dict[str, Any] = json.loads(done.read_text(encoding="utf-8"))
                done.unlink()
                if "failed" in answer:
                    raise EnvironmentLacksError(answer["failed"])
                return answer
            clock.sleep_until(clock.monotonic_s() + LOOK_S)
    raise EnvironmentLacksError(f"{recordings_dir(data_dir)}: the flight recorder has written nothing in time")


def _record(out: Path, context: RunContext, duration_s: float | None, clock: Clock, *, replaces: bool) -> dict[str, Any]:
    rows = RowFollower(context.ring_path, (*context.other_ring_paths, context.steps_ring_path))
    start_ns = clock.utc_ns() if duration_s is not None else 0
    contents = contents_of(_followed(rows, duration_s, clock), {})
    if not contents.tables:
        raise EnvironmentLacksError(f"{context.config.data_dir}: the run has no samples yet; expected some to record")
    first_ns, last_ns = start_ns or min(int(frame.time_ns[0]) for frame in contents.frames()), clock.utc_ns()
    records = _records(context, first_ns, last_ns)
    lost = 0 if duration_s is None else rows.rows_lost  # the oldest rows of a full ring go while it is read
    about = {"first_rows": contents.first_rows, "event_order": event_order(records), "ring_rows_lost": lost}
    n_rows = write_recording(
        out,
        contents.frames(),
        topology=contents.topology,
        meta=run_meta(context).with_about(about),
        records=records,
        kernel_lines=_kernel_lines(context.config.data_dir, first_ns, last_ns),
        replaces=replaces,
    )
    return {"file": str(out), "rows": n_rows, "lost_ring_rows": lost, "bytes": out.stat().st_size}


def _followed(rows: RowFollower, duration_s: float | None, clock: Clock) -> list[Entry]:
    """Return the rows of the ring, or those that come within the duration, whatever ring they come in."""
    if duration_s is None:
        return rows.read(0)
    rows.skip_to_end()
    entries: list[Entry] = []
    said = Console(stderr=True)  # standard output is the result's
    bars = Progress(
        "recording", BarColumn(), TimeRemainingColumn(), console=said, transient=True, disable=not said.is_terminal
    )
    with bars as bar:
        task = bar.add_task("recording", total=duration_s)
        end_s = clock.monotonic_s() + duration_s
        while True:
            done = clock.monotonic_s() >= end_s
            entries += rows.read(0)
            if done:
                return entries
            clock.sleep_until(min(end_s, clock.monotonic_s() + LOOK_S))
            bar.update(task, completed=duration_s - (end_s - clock.monotonic_s()))


def _records(context: RunContext, start_ns: int, stop_ns: int) -> tuple[Record, ...]:
    """Return what this run has told in that time, in the order in which it was told."""
    starts = context.journal_starts()
    journals = {name: context.journal_reader(name, starts.get(name)) for name in ("guard", "actuator", "responder")}
    told = MomentFollower(journals, lines=Lines(), source=None).records()
    return tuple(record for record in told if start_ns <= record.time_ns <= stop_ns)


def _kernel_lines(folder: Path, start_ns: int, stop_ns: int) -> tuple[KernelLine, ...]:
    """Return the lines that the black box has of that time; a line of the last seconds may not stand in it yet."""
    entries = BlackBox(box_dir(folder), 0).left()
    lines = contents_of([entry for entry in entries if entry.kind is EntryKind.MOMENTS], {}).kernel_lines
    return tuple(line for line in lines if start_ns <= line.time_ns <= stop_ns)
