"""Files of a fleet service: its memory, saved before each request, the term of its start, commands of operators."""

import fcntl
import json
import logging
from pathlib import Path

from rules.fleet.memory import FleetMemory
from rules.limits.node import Breaker
from telemetry.atomic_files import replace_file
from telemetry.clock import NS_PER_S, Clock
from telemetry.commands import Command
from telemetry.errors import EnvironmentLacksError
from telemetry.json_text import json_bytes
from telemetry.record_journal import Position, RecordJournalReader, RecordJournalWriter

logger = logging.getLogger(__name__)

LEDGER = "fleet.actions.json"
TERM = "fleet.term.json"
_FILE = Path("journal", "person.jsonl")


class LedgerFile:
    """Files of memory and term; one process uses them, since the data folder is locked."""

    def __init__(self, data_dir: Path, clock: Clock) -> None:
        self._path = data_dir / LEDGER
        self._term_path = data_dir / TERM
        self._clock = clock

    def load(self) -> FleetMemory:
        """Return the saved memory; an unreadable one is moved away, and the breaker trips until an operator resets it.

        Raises
        ------
        EnvironmentLacksError
            The file exists, and this process may not read it.
        """
        now_ns = self._clock.utc_ns()
        try:
            memory = FleetMemory.from_json(self._path.read_bytes())
            memory.resume()
        except FileNotFoundError:
            return FleetMemory.begin(now_ns)
        except OSError as err:
            raise EnvironmentLacksError(f"{self._path}: {err.strerror}; expected a readable file") from err
        except ValueError as err:
            aside = self._path.with_suffix(".bad")
            logger.error("cannot read fleet memory %s: %s", self._path, str(err).partition("\n")[0])  # noqa: TRY400 -- one line suffices
            self._path.replace(aside)
            memory = FleetMemory.begin(now_ns)
            memory.ledger.breaker = Breaker(tripped_ns=now_ns, reason=f"cannot read fleet memory, see {aside}")
            self.save(memory.to_json())
        return memory

    def save(self, body: bytes) -> None:
        """Save the JSON of a memory, synced to the disk; OSError where that fails."""
        replace_file(self._path, body)

    def begin_term(self) -> int:
        """Return a term above all earlier ones, also of a predecessor on another machine with a correct clock.

        Raises
        ------
        EnvironmentLacksError
            It cannot be saved.
        """
        try:
            last = int(json.loads(self._term_path.read_text(encoding="ascii"))["term"])
        except (OSError, ValueError, KeyError, TypeError):
            last = 0
        term = max(last + 1, self._clock.utc_ns() // NS_PER_S)
        try:
            replace_file(self._term_path, json_bytes({"term": term}))
        except OSError as err:
            raise EnvironmentLacksError(f"{self._term_path}: {err.strerror}; expected a writable file") from err
        return term


def read_memory(data_dir: Path) -> FleetMemory | None:
    """Return the memory of a service without taking it over, None where none was saved."""
    try:
        return FleetMemory.from_json((data_dir / LEDGER).read_bytes())
    except (OSError, ValueError):
        return None


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
