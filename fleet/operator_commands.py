"""Commands of operators to a fleet service: a journal in its data folder, followed whether or not the service runs."""

import fcntl
from pathlib import Path

from telemetry.commands import Command
from telemetry.record_journal import Position, RecordJournalReader, RecordJournalWriter

_FILE = Path("journal", "person.jsonl")


def command_writer(data_dir: Path) -> RecordJournalWriter:
    """Open the journal to append commands; EnvironmentLacksError where the folder cannot be written."""
    return RecordJournalWriter(data_dir / _FILE)


def service_runs(data_dir: Path) -> bool:
    """Return True if a fleet service has its spool in this folder open."""
    try:
        with (data_dir / "spool" / "lock").open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


class CommandReader:
    """Follows the commands to one service from the position where it stopped last."""

    def __init__(self, data_dir: Path, position: Position) -> None:
        self._journal = RecordJournalReader(data_dir / _FILE, position or None)

    @property
    def position(self) -> Position:
        """Position behind the last command that was read."""
        return self._journal.position

    def read(self) -> tuple[Command, ...]:
        """Return the commands since the last read."""
        return tuple(record for record in self._journal.read() if isinstance(record, Command))
