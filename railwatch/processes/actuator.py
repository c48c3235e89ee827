"""The actuator process: the only one that writes to hardware, and the one that undoes it."""

import contextlib
import logging
from pathlib import Path
from threading import Event, Thread

from agent.actuation.journal import FILE_NAME
from agent.actuation.limits import ClockCapSettings
from agent.actuation.server import serve_actuator
from agent.actuation.writer_lock import WriterLock
from agent.driver.port import ClockKnob
from railwatch.driver import OpenDriver
from railwatch.driver_watch import DRIVER_BACK, OPEN_LIMIT_S, DriverWatch
from railwatch.processes.child import Ready, leave, run_child
from railwatch.session import Session
from telemetry.clock import SystemClock
from telemetry.errors import NotSupportedError, RailwatchError, TransientError
from telemetry.records import Mode

logger = logging.getLogger(__name__)


class NoKnob:
    """Stands where no GPU has a clock that can be set: every request is refused with the reason.

    One that stands in only until the driver answers has no name, and every request fails.
    """

    readable = False

    def __init__(self, why: str, *, until_it_answers: bool = False) -> None:
        self.name = "" if until_it_answers else "none"
        self._why = why
        self._error: type[RailwatchError] = TransientError if until_it_answers else NotSupportedError

    def supported_mhz(self, uuid: str) -> tuple[float, ...]:
        """Refuse."""
        raise self._error(f"{uuid}: {self._why}")

    def read_mhz(self, uuid: str) -> float | None:
        """Refuse."""
        raise self._error(f"{uuid}: {self._why}")

    def write_mhz(self, uuid: str, clock_mhz: float | None) -> None:  # noqa: ARG002 -- the port's signature
        """Refuse."""
        raise self._error(f"{uuid}: {self._why}")


def main(session: Session, stop: Event, ready: Ready, *, open_limit_s: float = OPEN_LIMIT_S) -> None:
    """Serve requests until told to stop, then release every cap.

    A driver that does not open in time, or is not there yet, keeps nobody waiting: requests fail until it answers, and
    then this process makes room for one that has it.
    """
    clock = SystemClock()
    settings = settings_of(session)
    # A simulated node ends with its run, and so do the settings that its journal speaks of.
    state_dir = (session.run_dir if session.simulated else session.config.data_dir) / "actuator"
    may_write = not session.simulated and (settings.highest_mode is Mode.ENFORCE or _left_behind(state_dir))
    watch = DriverWatch(
        session, clock, open_limit_s=open_limit_s, process="actuator", ask_once=OpenDriver.supported_mhz
    )
    with contextlib.ExitStack() as kept:

        def knob() -> ClockKnob:
            driver = watch.open()
            waits_for = watch.away or watch.absent
            if waits_for is not None:
                Thread(target=_leave_once_it_answers, args=(watch,), name="ask-driver", daemon=True).start()
                return NoKnob(waits_for.why, until_it_answers=True)
            if driver.knob is None:
                return NoKnob(driver.why or "no GPU has a clock that can be set")
            if may_write:
                kept.callback(WriterLock().close)
            return driver.knob

        journal = session.journal_writer("actuator")
        kept.callback(journal.close)
        serve_actuator(
            knob,
            session.actuator_socket,
            state_dir,
            journal.append,
            clock,
            settings=settings,
            run_id=str(session.started_ns),
            stop=stop,
            ready=lambda: ready({}),
        )


def _leave_once_it_answers(watch: DriverWatch) -> None:
    """End this process as a kill would, once the driver answers: the next one finds the claims in the journal."""
    answered = Event()
    watch.ask(answered)
    if answered.is_set():
        logger.warning("the GPU driver answers; this process ends, and the next one has it")
        leave(DRIVER_BACK)


def settings_of(session: Session) -> ClockCapSettings:
    """Give the limits of the clock cap in a run: it may go no further than the configuration lets the rules go."""
    actions = session.config.actions
    return ClockCapSettings(
        highest_mode=actions.clock_cap.resolve(simulated=session.simulated), unreadable=actions.unreadable_clocks
    )


def _left_behind(state_dir: Path) -> bool:
    """Say whether an earlier run may have left caps that have to be released."""
    try:
        return (state_dir / FILE_NAME).stat().st_size > 0
    except OSError:
        return False


if __name__ == "__main__":
    run_child(main)
