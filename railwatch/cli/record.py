"""``railwatch record``: the ring, or what comes next, as one file."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TimeRemainingColumn

from agent.rings import Rings
from railwatch.cli.output import print_json
from railwatch.cli.place import ConfigFile, DataDir, JsonFlag, data_dir_of, live_session
from railwatch.cli.up import seconds
from railwatch.processes.sampler import CLOCKS_FILE
from railwatch.session import Session
from telemetry.clock import SystemClock
from telemetry.errors import EnvironmentLacksError
from telemetry.frames import Frame
from telemetry.recording import RecordingMeta, check_suffix, write_recording
from telemetry.records import Record
from telemetry.store.records import RecordFile

LOOK_S = 0.2


def record(
    out: Annotated[Path, typer.Option("--out", help="The file: .parquet or .csv.")],
    duration: Annotated[
        float | None,
        typer.Option(
            parser=seconds, metavar="DURATION", help="Record what comes next for this long; none takes the ring."
        ),
    ] = None,
    data_dir: DataDir = None,
    config_file: ConfigFile = None,
    as_json: JsonFlag = False,
) -> None:
    """Write samples at full rate with topology, configuration and records to one file."""
    check_suffix(out)
    folder = data_dir_of(config_file, data_dir)
    session = live_session(folder)
    rings = Rings.attach(session.ring_path, (session.slow_ring_path,))
    clock = SystemClock()
    start_ns = clock.utc_ns() if duration is not None else 0
    frames: list[Frame] = []
    following = {name: table.count if duration is not None else 0 for name, table in rings.tables.items()}
    lost = 0
    said = Console(stderr=True)  # standard output is the result's
    quiet = duration is None or not said.is_terminal
    with Progress("recording", BarColumn(), TimeRemainingColumn(), console=said, transient=True, disable=quiet) as bar:
        task = bar.add_task("recording", total=duration or 0)
        end_s = clock.monotonic_s() + (duration or 0)
        while True:
            done = clock.monotonic_s() >= end_s
            for frame, gone in _new_rows(rings, following):
                lost += gone if duration is not None else 0
                frames.append(frame)
            if done:
                break
            clock.sleep_until(min(end_s, clock.monotonic_s() + LOOK_S))
            bar.update(task, completed=(duration or 0) - (end_s - clock.monotonic_s()))
    if not frames:
        raise EnvironmentLacksError(f"{folder}: the run has no samples yet; expected some to record")
    first_ns = start_ns or min(int(frame.time_ns[0]) for frame in frames)
    rows = write_recording(
        out, frames, topology=rings.topology, meta=_meta(session), records=_records(folder, first_ns, clock.utc_ns())
    )
    size_bytes = out.stat().st_size
    if as_json:
        print_json({"file": str(out), "rows": rows, "lost_ring_rows": lost, "bytes": size_bytes})
    else:
        typer.echo(f"{out}: {rows} rows, {size_bytes / 1024:.0f} KiB" + (f", {lost} ring rows lost" if lost else ""))


def _new_rows(rings: Rings, following: dict[str, int]) -> Iterator[tuple[Frame, int]]:
    for name, table in rings.tables.items():
        while True:
            read = table.read(following[name])
            following[name] = read.next
            if not len(read.frame):
                break
            yield read.frame, read.lost


def _meta(session: Session) -> RecordingMeta:
    config: dict[str, Any] = session.config.model_dump(mode="json")
    for section in ("store", "page"):  # addresses and secrets are nobody's business who gets the file
        del config[section]
    clocks = json.loads((session.run_dir / CLOCKS_FILE).read_text(encoding="utf-8"))
    extra = {"supported_mhz": clocks, "source": session.source, "scenario": session.scenario}
    return RecordingMeta(node=session.node.key, simulated=session.simulated, config=config | extra)


def _records(folder: Path, start_ns: int, stop_ns: int) -> tuple[Record, ...]:
    if not os.path.isdir(folder / "records"):  # noqa: PTH112 -- nothing was ever recorded there
        return ()
    records = RecordFile(folder / "records", read_only=True)
    found = records.between(start_ns, stop_ns)
    records.close()
    return found
