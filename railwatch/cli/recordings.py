"""``railwatch recordings``: list and show the recordings of the flight recorder."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from railwatch.cli.printing import print_json, print_table
from railwatch.cli.run_folder import ConfigFile, DataDir, JsonFlag, check_data_dir, data_dir_of
from railwatch.run_context import recordings_dir
from telemetry.clock import NS_PER_S, iso_utc
from telemetry.errors import ConfigError
from telemetry.recording import Recording, meta_of, read_recording
from telemetry.recording_files import read_header
from telemetry.records import Incident

app = typer.Typer(
    no_args_is_help=True,
    help="List and show the recordings of the flight recorder.",
    epilog="Example: railwatch recordings list --json",
)


@app.command(name="list", epilog="Example: railwatch recordings list --json")
def list_command(data_dir: DataDir = None, config_file: ConfigFile = None, as_json: JsonFlag = False) -> None:
    """List the recordings of a data folder, oldest first, with size and reason."""
    used = data_dir_of(config_file, data_dir)
    check_data_dir(used)
    folder = recordings_dir(used)
    rows = [_listed(path) for path in sorted(folder.glob("*.parquet"), key=lambda path: path.stat().st_mtime_ns)]
    if as_json:
        for row in rows:
            print_json(row)
        return
    if not rows:
        typer.echo(f"{folder}: no recordings")
        return
    cells = [(row["file"], f"{row['bytes'] / 1024:.0f} KiB", _marks(row), row["reason"]) for row in rows]
    print_table(str(folder), ("file", "size", "", "reason"), cells)


@app.command(epilog="Example: railwatch recordings show 20261121T161452Z-gpu_lost.parquet")
def show(
    file: Annotated[Path, typer.Argument(help="Recording; a name without folder is looked up in the data folder.")],
    data_dir: DataDir = None,
    config_file: ConfigFile = None,
    as_json: JsonFlag = False,
) -> None:
    """Show one recording: time span, tables, triggers, records and kernel log."""
    path = file
    if not file.exists() and file.parent == Path():
        path = recordings_dir(data_dir_of(config_file, data_dir)) / file
    read = read_recording(path)
    fields = _shown(read)
    if as_json:
        print_json(fields)
        return
    typer.echo(f"{path}: {fields['reason'] or 'recorded by hand'}{_marks(fields)}")
    if fields["first"] is not None:
        typer.echo(f"{fields['first']} to {fields['last']}, {fields['seconds']:.1f} s, {fields['rows']} rows")
    if fields["ring_rows_lost"]:
        typer.echo(f"{fields['ring_rows_lost']} rows lost: overwritten in the ring before the recorder read them")
    if fields["cut_s"]:
        typer.echo(f"first {fields['cut_s']:.1f} s missing: recorder.memory_max reached")
    for trigger in fields["triggers"]:
        typer.echo(f"  {iso_utc(trigger['time_ns'])[11:19]}  {trigger['what']}: {trigger['reason']}")
    tables = [(t["table"], t["kind"], str(t["entities"]), str(t["signals"])) for t in fields["tables"]]
    print_table("tables", ("table", "kind", "entities", "signals"), tables)
    kinds = ", ".join(f"{count} {name}" for name, count in fields["records"].items()) or "none"
    typer.echo(f"records: {kinds}; kernel log: {fields['kernel_lines']} lines")


def _listed(path: Path) -> dict[str, Any]:
    row: dict[str, Any] = {"file": path.name, "bytes": path.stat().st_size}
    try:
        about: Mapping[str, Any] = meta_of(read_header(path)).about
    except (ConfigError, KeyError, TypeError) as err:
        return row | {"reason": f"cannot be read: {err}", "recovered": False, "triggers": []}
    return row | {
        "reason": about.get("reason", ""),
        "recovered": bool(about.get("recovered")),
        "triggers": about.get("triggers", []),
    }


def _shown(read: Recording) -> dict[str, Any]:
    span_ns, about = read.span_ns, read.meta.about
    incidents = {record.id: record for record in read.records if isinstance(record, Incident)}
    return {
        "file": str(read.path),
        "bytes": read.path.stat().st_size,
        "node": read.meta.node,
        "simulated": read.meta.simulated,
        "recovered": bool(about.get("recovered")),
        "reason": about.get("reason", ""),
        "triggers": about.get("triggers", []),
        "ring_rows_lost": about.get("ring_rows_lost"),
        "cut_s": about.get("cut_s"),
        "first": None if span_ns is None else iso_utc(span_ns[0]),
        "last": None if span_ns is None else iso_utc(span_ns[1]),
        "seconds": 0.0 if span_ns is None else (span_ns[1] - span_ns[0]) / NS_PER_S,
        "rows": len(read.samples.time_ns),
        "tables": [
            {
                "table": spec.name,
                "kind": str(spec.kind),
                "entities": len(spec.entities),
                "signals": len(spec.signals),
            }
            for spec in read.tables
        ],
        "records": dict(Counter(type(record).__name__.lower() for record in read.records)),
        "incidents": [record.summary for record in incidents.values()],
        "kernel_lines": len(read.kernel_lines),
    }


def _marks(fields: Mapping[str, Any]) -> str:
    return " (recovered)" if fields["recovered"] else ""
