"""The memory of a fleet service on disk, written before anything is asked, and the term of this start of it."""

import json
import logging
from pathlib import Path

from rules.fleet.memory import FleetMemory
from rules.limits.node import Breaker
from telemetry.atomic_files import replace_file
from telemetry.clock import NS_PER_S, Clock
from telemetry.errors import EnvironmentLacksError

logger = logging.getLogger(__name__)

LEDGER = "fleet.actions.json"
TERM = "fleet.term.json"


class LedgerFile:
    """Where the memory lies. One process has it: the data folder is locked."""

    def __init__(self, data_dir: Path, clock: Clock) -> None:
        self._path = data_dir / LEDGER
        self._term_path = data_dir / TERM
        self._clock = clock

    def load(self) -> FleetMemory:
        """Return what was kept. One that makes no sense is put aside, and then nothing begins until a person has looked.

        Raises
        ------
        EnvironmentLacksError
            It is there, and this process may not read it.
        """
        now_ns = self._clock.utc_ns()
        try:
            memory = FleetMemory.from_json(self._path.read_bytes())
            memory.resume()
        except FileNotFoundError:
            return FleetMemory.begin(now_ns)
        except OSError as err:
            raise EnvironmentLacksError(f"{self._path}: {err.strerror}; expected a file that can be read") from err
        except ValueError as err:
            aside = self._path.with_suffix(".bad")
            logger.error("what the fleet began cannot be read: %s: %s", self._path, str(err).partition("\n")[0])  # noqa: TRY400 -- one line says it
            self._path.replace(aside)
            memory = FleetMemory.begin(now_ns)
            memory.ledger.breaker = Breaker(tripped_ns=now_ns, reason=f"what was begun cannot be read: see {aside}")
            self.save(memory.to_json())
        return memory

    def save(self, body: bytes) -> None:
        """Keep a memory's JSON, down to the disk; OSError where that is impossible."""
        replace_file(self._path, body)

    def begin_term(self) -> int:
        """Return a term above every one before, also of a predecessor on another machine whose clock was right.

        Raises
        ------
        EnvironmentLacksError
            It cannot be written down.
        """
        try:
            last = int(json.loads(self._term_path.read_text(encoding="ascii"))["term"])
        except (OSError, ValueError, KeyError, TypeError):
            last = 0
        term = max(last + 1, self._clock.utc_ns() // NS_PER_S)
        try:
            replace_file(self._term_path, json.dumps({"term": term}).encode())
        except OSError as err:
            raise EnvironmentLacksError(f"{self._term_path}: {err.strerror}; expected a file to be written") from err
        return term


def read_memory(data_dir: Path) -> FleetMemory | None:
    """Return the memory of a service for whoever only looks, None where none was kept."""
    try:
        return FleetMemory.from_json((data_dir / LEDGER).read_bytes())
    except (OSError, ValueError):
        return None
