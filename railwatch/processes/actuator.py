"""The actuator process: the only one that writes to hardware, and the one that undoes it."""

import contextlib
import logging
from pathlib import Path
from threading import Event

from agent.actuation.journal import FILE_NAME
from agent.actuation.limits import ClockCapSettings
from agent.actuation.server import serve_actuator
from agent.actuation.writer_lock import WriterLock
from agent.driver.port import ClockKnob
from railwatch.driver import open_driver
from railwatch.processes.child import Ready, run_child
from railwatch.session import Session
from telemetry.clock import SystemClock
from telemetry.errors import NotSupportedError
from telemetry.records import Mode

logger = logging.getLogger(__name__)


class NoKnob:
    """Stands where no GPU has a clock that can be set: every request is refused with the reason."""

    name = "none"
    readable = False

    def __init__(self, why: str) -> None:
        self._why = why

    def supported_mhz(self, uuid: str) -> tuple[float, ...]:
        """Refuse."""
        raise NotSupportedError(f"{uuid}: {self._why}")

    def read_mhz(self, uuid: str) -> float | None:
        """Refuse."""
        raise NotSupportedError(f"{uuid}: {self._why}")

    def write_mhz(self, uuid: str, clock_mhz: float | None) -> None:  # noqa: ARG002 -- the port's signature
        """Refuse."""
        raise NotSupportedError(f"{uuid}: {self._why}")


def main(session: Session, stop: Event, ready: Ready) -> None:
    """Serve requests until told to stop, then release every cap."""
    clock = SystemClock()
    settings = settings_of(session)
    # A simulated node ends with its run, and so do the settings that its journal speaks of.
    state_dir = (session.run_dir if session.simulated else session.config.data_dir) / "actuator"
    may_write = not session.simulated and (settings.highest_mode is Mode.ENFORCE or _left_behind(state_dir))
    with contextlib.ExitStack() as kept:

        def knob() -> ClockKnob:
            driver = open_driver(session, clock)
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
