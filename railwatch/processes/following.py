"""Follower of a privileged actuator: copies its actions to the journal of this run, and its counts to a file."""

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

# heuristic: twice per look of the guard at the journal; replies to its own requests come at once.
EVERY_S = 0.5
# heuristic: ten seconds, since the counts are for graphs.
STATUS_EVERY = 20


def follow(context: RunContext, socket_path: Path, stop: Event, ready: Ready) -> None:
    """Follow the actuator at a socket until the request to stop; retry while it does not answer."""
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
    """Counts of the actuator's journal in a status file for the service; a full disk keeps the old ones.

    Any thread may update them.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = Lock()
        self._counts: dict[str, int] = {}

    def keep(self, counts: Mapping[str, int]) -> None:
        """Update the counts and write the file."""
        with self._lock, contextlib.suppress(OSError):
            self._counts.update(counts)
            replace_file(self._path, json.dumps(self._counts).encode(), synced=False)


class Follower:
    """Copier of actions from an actuator to a journal, from the first action after it connects."""

    def __init__(self, client: ActuatorClient, journal: RecordJournalWriter, *, status_path: Path) -> None:
        self._client = client
        self._journal = journal
        self._counts = Counts(status_path)
        self._steps = 0
        self._number: int | None = None
        self._away = False

    def step(self) -> None:
        """Copy new actions and, now and then, the counts."""
        while self._copy_actions():
            pass
        if not self._away and self._steps % STATUS_EVERY == 0:
            with contextlib.suppress(TransientError):
                status = self._client.status()
                dropped = {name: status[name] for name in (BARS_DROPPED,) if name in status}  # older versions do not
                self._counts.keep({**status.get("syncs", {}), **dropped})
        self._steps += 1

    def _copy_actions(self) -> bool:
        try:
            news = self._client.actions_since(self._number)
        except TransientError as err:
            if not self._away:
                logger.error("privileged actuator not reachable, GPU settings cannot change: %s", err)  # noqa: TRY400 -- the message is complete without a traceback
            self._away = True
            return False
        if self._away:
            logger.warning("privileged actuator reachable again")
        self._away = False
        self._number = news.number
        for action in news.actions:
            self._journal.append(action)
        return bool(news.actions)
