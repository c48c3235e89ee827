"""Options that name a run, and access to its data folder, records and entity names."""

import os
from pathlib import Path
from typing import Annotated

import typer

from agent.ring.ring import Ring
from config.loading import load_config
from railwatch import __version__
from railwatch.operator.entity_names import EntityNames
from railwatch.run_context import FILE_NAME, JOURNALS, SERVICE_STATUS, RunContext, read_status, run_dir_of
from telemetry.errors import EnvironmentLacksError, RailwatchError
from telemetry.store.embedded import EmbeddedReader
from telemetry.store.records import RecordFile

# An unreadable folder is reported by the command that reads it, not as wrong use.
DataDir = Annotated[
    Path | None, typer.Option("--data-dir", readable=False, help="Data folder of the run (see railwatch up).")
]
ConfigFile = Annotated[Path | None, typer.Option("--config", help="Configuration file of the run (YAML).")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Also print every record, with UUIDs.")]
IncidentId = Annotated[str, typer.Argument(metavar="ID", help="Incident id, or the first characters of it.")]
RulesFolder = Annotated[
    Path | None, typer.Option("--rules", help="Folder of policies; they replace those of the same id.")
]
Who = Annotated[str | None, typer.Option("--who", help="Name of the operator; default: the user who runs the command.")]
JsonFlag = Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")]


def data_dir_of(config_file: Path | None, data_dir: Path | None) -> Path:
    """Return the data folder: the option, else the one of the configuration."""
    return data_dir.absolute() if data_dir is not None else load_config(config_file, os.environ).data_dir


def check_data_dir(data_dir: Path) -> None:
    """Raise EnvironmentLacksError for a folder that no run has used."""
    if not data_dir.exists():
        raise EnvironmentLacksError(f"{data_dir}: no such folder; expected the data folder of a run of railwatch up")
    if not (data_dir / "records").is_dir():
        raise EnvironmentLacksError(f"{data_dir}: no records; expected the data folder of a run of railwatch up")


def open_records(data_dir: Path) -> RecordFile:
    """Open the records of a data folder for reading; EnvironmentLacksError if there are none.

    Records that a live run holds in memory because the disk is full are included.
    """
    check_data_dir(data_dir)
    records = RecordFile(data_dir / "records", read_only=True)
    run_dir = run_dir_of(data_dir)
    if read_status(run_dir / SERVICE_STATUS).get("records_waiting"):
        context = live_session(data_dir)
        readers = (context.journal_reader(name, context.stored_position(name)) for name in JOURNALS)
        waiting = sorted((record for reader in readers for record in reader.read()), key=lambda record: record.time_ns)
        records.show_more(waiting, simulated=context.simulated)
    return records


def live_session(data_dir: Path) -> RunContext:
    """Return the context of the live run on a data folder; EnvironmentLacksError if there is none."""
    run_dir = run_dir_of(data_dir)
    if not (run_dir / FILE_NAME).exists():
        raise EnvironmentLacksError(f"{data_dir}: railwatch is not running here; start it with railwatch up")
    if run_dir.stat().st_uid != os.geteuid():
        raise EnvironmentLacksError(f"{run_dir}: belongs to another user; run this command as that user")
    try:
        context = RunContext.load(run_dir)
        _ = context.config
    except (KeyError, TypeError, ValueError) as err:
        found = f"{run_dir / FILE_NAME}: cannot be read; expected a run of railwatch {__version__}"
        raise EnvironmentLacksError(f"{found}: use the version that runs, or restart railwatch up") from err
    return context


def names_of_run(data_dir: Path) -> EntityNames:
    """Return the names of a running node, or those of its store; no names where neither can be read."""
    try:
        ring = Ring.attach(live_session(data_dir).ring_path)
    except (RailwatchError, OSError):
        return _stored_names(data_dir / "store")
    entities = ring.topology.entities
    ring.close()
    return EntityNames(entities)


def _stored_names(folder: Path) -> EntityNames:
    try:
        reader = EmbeddedReader(folder)
    except (RailwatchError, OSError):
        return EntityNames()
    try:
        return EntityNames(reader.entities())
    except RailwatchError:
        return EntityNames()
    finally:
        reader.close()
