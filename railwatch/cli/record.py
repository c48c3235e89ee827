"""``railwatch record``: the ring, the next samples, or the window of the flight recorder as one file."""

import errno
import json
import os
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import TimeRemainingColumn

from agent.recorder.black_box import BlackBox
from agent.recorder.entries import BoxEntry, EntryKind
from agent.recorder.record_follower import RawLineParser, RecordFollower
from agent.recorder.recording_folder import event_order
from agent.recorder.row_follower import RowFollower
from agent.recorder.unpacking import contents_of
from config.sources import SourceUse
from railwatch.cli.durations import duration_option
from railwatch.cli.printing import print_json, progress_bar
from railwatch.cli.run_folder import ConfigFile, DataDir, JsonFlag, data_dir_of, live_session
from railwatch.recorded_run import run_meta
from railwatch.run_context import RunContext, box_dir, recordings_dir, wishes_dir
from telemetry.atomic_files import replace_file
from telemetry.clock import Clock, SystemClock
from telemetry.errors import EnvironmentLacksError
from telemetry.json_text import json_bytes
from telemetry.record_journal import has_room
from telemetry.recording import check_suffix, write_recording
from telemetry.recording_rows import KernelLogRow
from telemetry.records import Record

LOOK_S = 0.2
# After the end of its window a recording needs a cycle of the recorder, a flush and some seconds of packing.
WRITTEN_WITHIN_S = 30.0


def record(
    out: Annotated[
        Path | None,
        typer.Option("--out", help="File, .parquet or .csv; default: the flight recorder names it."),
    ] = None,
    duration: Annotated[
        float | None, duration_option("Record this long, e.g. 60s; default: the past minutes in memory.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    data_dir: DataDir = None,
    config_file: ConfigFile = None,
    as_json: JsonFlag = False,
) -> None:
    """Record samples of a running node at full rate into one file, with records and kernel log."""
    folder, clock = data_dir_of(config_file, data_dir), SystemClock()
    if duration == 0.0:
        raise typer.BadParameter("got 0s; expected a duration above 0s", param_hint="--duration")
    if out is None:
        if duration is not None:
            raise typer.BadParameter("it requires --out FILE", param_hint="--duration")
        written = _requested(live_session(folder), clock)
    else:
        check_suffix(out)
        if out.exists() and not force:
            raise typer.BadParameter(f"{out} exists; expected a new file name, or --force", param_hint="--out")
        written = _record(out, live_session(folder), duration, clock, replaces=force)
    if as_json:
        print_json(written)
    else:
        lost = written.get("lost_ring_rows", 0)
        text = f"{written['file']}: {written['rows']} rows, {written['bytes'] / 1024:.0f} KiB"
        typer.echo(text + (f", {lost} ring rows lost" if lost else ""))


def _requested(context: RunContext, clock: Clock) -> dict[str, Any]:
    """Request the window around now from the flight recorder of a run, and wait for it."""
    folder, data_dir = wishes_dir(context.run_dir), context.config.data_dir
    if context.config.recorder.use is SourceUse.OFF or not folder.is_dir():
        raise EnvironmentLacksError(f"{data_dir}: no flight recorder is running; name a file with --out")
    if not has_room(data_dir):
        raise EnvironmentLacksError(
            f"{recordings_dir(data_dir)}: {os.strerror(errno.ENOSPC)}; expected free space for a recording"
        )
    time_ns = clock.utc_ns()
    wish, done = folder / f"{time_ns}.wish", folder / f"{time_ns}.done"
    body = json_bytes({"reason": "requested by hand", "time_ns": time_ns})
    replace_file(wish, body, synced=False)
    end_s = clock.monotonic_s() + context.config.recorder.longest + WRITTEN_WITHIN_S
    progress = Console(stderr=True)
    with progress.status(f"recording {context.config.recorder.after:g} s more"):
        while clock.monotonic_s() < end_s and folder.is_dir():
            if done.exists():
                written: dict[str, Any] = json.loads(done.read_text(encoding="utf-8"))
                done.unlink()
                if "failed" in written:
                    raise EnvironmentLacksError(written["failed"])
                return written
            clock.sleep_until(clock.monotonic_s() + LOOK_S)
    raise EnvironmentLacksError(f"{recordings_dir(data_dir)}: the flight recorder wrote no recording in time")


def _record(
    out: Path, context: RunContext, duration_s: float | None, clock: Clock, *, replaces: bool
) -> dict[str, Any]:
    rows = RowFollower(context.ring_path, (*context.other_ring_paths, context.steps_ring_path))
    start_ns = clock.utc_ns() if duration_s is not None else 0
    contents = contents_of(_followed(rows, duration_s, clock), {})
    if not contents.tables:
        raise EnvironmentLacksError(f"{context.config.data_dir}: the run has no samples yet; try again in a second")
    first_ns, last_ns = start_ns or min(int(frame.time_ns[0]) for frame in contents.frames()), clock.utc_ns()
    records = _records(context, first_ns, last_ns)
    lost = 0 if duration_s is None else rows.rows_lost  # a full ring overwrites its oldest rows
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


def _followed(rows: RowFollower, duration_s: float | None, clock: Clock) -> list[BoxEntry]:
    """Return the rows of all rings: those in memory, or those of the next `duration_s`."""
    if duration_s is None:
        return rows.read(0)
    rows.skip_to_end()
    entries: list[BoxEntry] = []
    with progress_bar("recording", duration_s, TimeRemainingColumn()) as progress:
        end_s = clock.monotonic_s() + duration_s
        while True:
            done = clock.monotonic_s() >= end_s
            entries += rows.read(0)
            if done:
                return entries
            clock.sleep_until(min(end_s, clock.monotonic_s() + LOOK_S))
            progress(duration_s - (end_s - clock.monotonic_s()))


def _records(context: RunContext, start_ns: int, stop_ns: int) -> tuple[Record, ...]:
    """Return the records of this run in that time, in the order in which they were reported."""
    starts = context.journal_starts()
    journals = {name: context.journal_reader(name, starts.get(name)) for name in ("guard", "actuator", "responder")}
    reported = RecordFollower(journals, lines=RawLineParser(), source=None).records()
    return tuple(record for record in reported if start_ns <= record.time_ns <= stop_ns)


def _kernel_lines(folder: Path, start_ns: int, stop_ns: int) -> tuple[KernelLogRow, ...]:
    """Return the kernel lines of that time in the black box; those of the last seconds may be missing."""
    entries = BlackBox(box_dir(folder), 0).leftovers()
    lines = contents_of([entry for entry in entries if entry.kind is EntryKind.RECORDS], {}).kernel_lines
    return tuple(line for line in lines if start_ns <= line.time_ns <= stop_ns)
