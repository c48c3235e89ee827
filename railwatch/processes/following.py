"""Writes down in the journal of this run what a privileged actuator does, and how its own journal fares."""

import contextlib
import json
import logging
from collections.abc import Mapping
from pathlib import Path
from threading import Event, Lock

from agent.actuation.client import ActuatorClient
from agent.actuation.server import BARS_DROPPED
from railwatch.processes.child import Ready
from railwatch.run_context import RunContext
from telemetry.atomic_files import replace_file
from telemetry.errors import TransientError
from telemetry.record_journal import RecordJournalWriter

logger = logging.getLogger(__name__)

# As often as the guard looks at the journal, and twice: what it asked for itself it heard at once. Heuristic.
EVERY_S = 0.5
# Its counts are wanted for graphs. Heuristic: ten seconds.
STATUS_EVERY = 20


def follow(context: RunContext, socket_path: Path, stop: Event, ready: Ready) -> None:
    """Follow the actuator at a socket until told to stop; one that is away is asked again."""
    client = ActuatorClient(socket_path)
    journal = context.journal_writer("actuator")
    follower = Follower(client, journal, status_path=context.actuator_status_path)
    ready({})
    try:
        while not stop.is_set():
            follower.step()
            stop.wait(EVERY_S)
        follower.step()
    finally:
        client.close()
        journal.close()


class Counts:
    """What the actuator counts of its journal, written down for the service; a disk that takes nothing keeps what was.

    Any thread may tell.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = Lock()
        self._counts: dict[str, int] = {}

    def keep(self, counts: Mapping[str, int]) -> None:
        """Write down what is new with what is known."""
        with self._lock, contextlib.suppress(OSError):
            self._counts.update(counts)
            replace_file(self._path, json.dumps(self._counts).encode(), synced=False)


class Follower:
    """Copies actions from an actuator to a journal, beginning with the first one after it has found the actuator."""

    def __init__(self, client: ActuatorClient, journal: RecordJournalWriter, *, status_path: Path) -> None:
        self._client = client
        self._journal = journal
        self._counts = Counts(status_path)
        self._steps = 0
        self._number: int | None = None
        self._away = False

    def step(self) -> None:
        """Write down what is new."""
        while self._took_some():
            pass
        if not self._away and self._steps % STATUS_EVERY == 0:
            with contextlib.suppress(TransientError):
                said = self._client.status()
                dropped = {name: said[name] for name in (BARS_DROPPED,) if name in said}  # an older one counts none
                self._counts.keep({**said.get("syncs", {}), **dropped})
        self._steps += 1

    def _took_some(self) -> bool:
        try:
            news = self._client.news(self._number)
        except TransientError as err:
            if not self._away:
                logger.error("nothing is written to the hardware: %s", err)  # noqa: TRY400 -- the message is complete without a traceback
            self._away = True
            return False
        if self._away:
            logger.warning("the privileged actuator answers")
        self._away = False
        self._number = news.number
        for action in news.actions:
            self._journal.append(action)
        return bool(news.actions)
