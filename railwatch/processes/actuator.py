"""The actuator process: the only one that writes to hardware, and the one that undoes it."""

import logging
from threading import Event

from agent.actuation.limits import ClockCapSettings
from agent.actuation.server import serve_actuator
from agent.driver.port import ClockKnob
from railwatch.driver import open_driver
from railwatch.processes.child import Ready, run_child
from railwatch.session import Session
from telemetry.clock import SystemClock
from telemetry.errors import NotSupportedError
from telemetry.journal import JournalWriter

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

    def knob() -> ClockKnob:
        driver = open_driver(session, clock)
        return driver.knob if driver.knob is not None else NoKnob(driver.why or "no GPU has a clock that can be set")

    # A simulated node ends with its run, and so do the settings that its journal speaks of.
    state_dir = (session.run_dir if session.simulated else session.config.data_dir) / "actuator"
    journal = JournalWriter(session.journal_dir / "actuator.jsonl", simulated=session.simulated)
    try:
        serve_actuator(
            knob,
            session.actuator_socket,
            state_dir,
            journal.append,
            clock,
            settings=ClockCapSettings(),
            run_id=str(session.started_ns),
            stop=stop,
            ready=lambda: ready({}),
        )
    finally:
        journal.close()


if __name__ == "__main__":
    run_child(main)
