"""The actuator process: the only one that changes GPU settings, and the one that restores them.

Where `railwatch actuatord` does that, this process only copies its actions to the journal.
"""

import contextlib
import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from threading import Event, Lock, Thread

from agent.actuation.client import ActuatorClient
from agent.actuation.limits import DEFAULT_LIMITS, ActuatorSettings
from agent.actuation.server import BARS_DROPPED, serve_actuator
from agent.actuation.writer_lock import WriterLock
from agent.driver.port import Knob
from agent.scheduling import freeze_loaded_objects
from railwatch.operator.leftovers import has_leftovers, state_dir_of
from railwatch.processes.child import Ready, leave, run_child
from railwatch.run_context import RunContext
from railwatch.wiring.driver_watch import DRIVER_BACK, OPEN_LIMIT_S, DriverWatch
from railwatch.wiring.gpu_driver import OpenDriver
from rules.policy.model import ActionClass
from telemetry.atomic_files import replace_file
from telemetry.clock import SystemClock
from telemetry.errors import NotSupportedError, RailwatchError, TransientError
from telemetry.gpu import KnobKind
from telemetry.json_text import json_bytes
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
    follower = ActuatorFollower(client, journal, status_path=context.actuator_status_path)
    ready({})
    try:
        while not stop.is_set():
            follower.step()
            stop.wait(EVERY_S)
        follower.step()
    finally:
        client.close()
        journal.close()


class StatusCounts:
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
            replace_file(self._path, json_bytes(self._counts), synced=False)


class ActuatorFollower:
    """Copier of actions from an actuator to a journal, from the first action after it connects."""

    def __init__(self, client: ActuatorClient, journal: RecordJournalWriter, *, status_path: Path) -> None:
        self._client = client
        self._journal = journal
        self._counts = StatusCounts(status_path)
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


class NoKnob:
    """Placeholder where no GPU has such a knob: every request is refused with the reason.

    A placeholder until the driver answers has no name, and every request fails.
    """

    readable = False

    def __init__(self, kind: KnobKind, why: str, *, until_it_answers: bool = False) -> None:
        self.kind = kind
        self.name = "" if until_it_answers else "none"
        self._why = why
        self._error: type[RailwatchError] = TransientError if until_it_answers else NotSupportedError

    def supported(self, uuid: str) -> tuple[float, ...]:
        """Refuse."""
        raise self._error(f"{uuid}: {self._why}")

    def read(self, uuid: str) -> float | None:
        """Refuse."""
        raise self._error(f"{uuid}: {self._why}")

    def write(self, uuid: str, setting: float | None) -> None:  # noqa: ARG002 -- the port's signature
        """Refuse."""
        raise self._error(f"{uuid}: {self._why}")


def main(context: RunContext, stop: Event, ready: Ready, *, open_limit_s: float = OPEN_LIMIT_S) -> None:
    """Serve requests until the request to stop, then release every cap.

    While the driver does not open, or is not there yet, requests fail at once. When it answers, this process exits and
    its successor opens it.
    """
    if context.privileged_socket is not None:
        follow(context, context.privileged_socket, stop, ready)
        return
    clock = SystemClock()
    settings = settings_of(context)
    # A simulated node ends with its run, and so do the settings in its journal.
    state_dir = state_dir_of(context.run_dir if context.simulated else context.config.data_dir)
    may_enforce = any(settings.may_enforce(kind) for kind in KnobKind)
    may_write = not context.simulated and (may_enforce or has_leftovers(state_dir))
    watch = DriverWatch(context, clock, open_limit_s=open_limit_s, process="actuator", on_open=OpenDriver.supported_mhz)
    with contextlib.ExitStack() as kept:

        def knobs() -> tuple[Knob, ...]:
            driver = watch.open()
            waits_for = watch.away or watch.absent
            if waits_for is not None:
                Thread(target=_leave_once_it_answers, args=(watch,), name="probe-driver", daemon=True).start()
                return tuple(NoKnob(kind, waits_for.why, until_it_answers=True) for kind in KnobKind)
            if not driver.knobs:
                return tuple(NoKnob(kind, driver.why or "no GPU has one that can be set") for kind in KnobKind)
            if may_write:
                kept.callback(WriterLock().close)
            return driver.knobs

        journal = context.journal_writer("actuator")
        kept.callback(journal.close)
        freeze_loaded_objects()
        serve_actuator(
            knobs,
            context.actuator_socket,
            state_dir,
            journal.append,
            clock,
            settings=settings,
            run_id=str(context.started_ns),
            stop=stop,
            ready=lambda: ready({}),
            note=StatusCounts(context.actuator_status_path).keep,
        )


def _leave_once_it_answers(watch: DriverWatch) -> None:
    """Exit without releasing once the driver answers: the next process reads the claims from the journal."""
    answered = Event()
    watch.probe_until_back(answered)
    if answered.is_set():
        logger.warning("GPU driver answers; restarting the actuator to open it")
        leave(DRIVER_BACK)


def settings_of(context: RunContext) -> ActuatorSettings:
    """Return the limits of the actuator in a run: the modes that the configuration sets for the rules."""
    actions = context.config.actions
    modes = {kind: actions.of(ActionClass(kind)).resolve(simulated=context.simulated) for kind in KnobKind}
    knobs = {kind: replace(limits, highest_mode=modes[kind]) for kind, limits in DEFAULT_LIMITS.items()}
    return ActuatorSettings(knobs=knobs, unreadable=actions.unreadable_clocks)


if __name__ == "__main__":
    run_child(main)
