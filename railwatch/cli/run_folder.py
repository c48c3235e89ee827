"""Where a command finds a run: its data folder, its run folder, its records."""

import os
from pathlib import Path
from typing import Annotated

import typer

from config.loading import load_config
from railwatch.session import FILE_NAME, JOURNALS, SERVICE_STATUS, Session, run_dir_of, said_in
from telemetry.errors import EnvironmentLacksError
from telemetry.store.records import RecordFile

DataDir = Annotated[Path | None, typer.Option("--data-dir", help="Data folder of the run, as given to railwatch up.")]
ConfigFile = Annotated[Path | None, typer.Option("--config", help="Configuration file of the run.")]
JsonFlag = Annotated[bool, typer.Option("--json", help="One JSON object per line.")]


def data_dir_of(config_file: Path | None, data_dir: Path | None) -> Path:
    """Return the data folder: the one named, or the configuration's."""
    return data_dir.absolute() if data_dir is not None else load_config(config_file, os.environ).data_dir


def check_data_dir(data_dir: Path) -> None:
    """Refuse a folder that no run ever used with an EnvironmentLacksError."""
    if not (data_dir / "records").is_dir():
        raise EnvironmentLacksError(f"{data_dir}: no records there; expected the data folder of a run")


def open_records(data_dir: Path) -> RecordFile:
    """Open the records of a data folder for reading; EnvironmentLacksError where none were ever kept.

    On a full disk the run that goes on there holds some in memory; they are among them.
    """
    check_data_dir(data_dir)
    records = RecordFile(data_dir / "records", read_only=True)
    run_dir = run_dir_of(data_dir)
    if said_in(run_dir / SERVICE_STATUS).get("records_waiting"):
        session = live_session(data_dir)
        readers = (session.journal_reader(name, session.stored_position(name)) for name in JOURNALS)
        waiting = sorted((record for reader in readers for record in reader.read()), key=lambda record: record.time_ns)
        records.show_more(waiting, simulated=session.simulated)
    return records


def live_session(data_dir: Path) -> Session:
    """Return the run that uses a data folder now; EnvironmentLacksError where none does."""
    run_dir = run_dir_of(data_dir)
    if not (run_dir / FILE_NAME).exists():
        raise EnvironmentLacksError(f"{data_dir}: no railwatch runs on this data folder; start one with railwatch up")
    if run_dir.stat().st_uid != os.geteuid():
        raise EnvironmentLacksError(f"{run_dir}: belongs to another user; expected a run of your own")
    return Session.load(run_dir)
