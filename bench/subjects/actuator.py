"""The actuator process of the reaction benchmark: the real one, on a knob that notes when it is called."""

import signal
import sys
import threading
from pathlib import Path

from agent.actuation.access import OWN_USER, Access
from agent.actuation.limits import ActuatorSettings
from agent.actuation.server import serve_actuator
from agent.scheduling import freeze_loaded_objects
from bench.subjects.stamps import CLOCKS_MHZ, Stamps
from telemetry.clock import Clock, SystemClock
from telemetry.gpu import KnobKind
from telemetry.record_journal import RecordJournalWriter

JOURNAL_NAME = "actuator.jsonl"


class StampedKnob:
    """Clocks in memory; every call that sets one is noted before it is done."""

    kind = KnobKind.CLOCK
    name = "application_clock"
    readable = True

    def __init__(self, stamps: Stamps, clock: Clock) -> None:
        self._stamps = stamps
        self._clock = clock
        self._settings: dict[str, float | None] = {}

    def supported(self, uuid: str) -> tuple[float, ...]:  # noqa: ARG002 -- the port's signature
        """Return the clocks of a V100."""
        return CLOCKS_MHZ

    def read(self, uuid: str) -> float | None:
        """Return what was set last."""
        return self._settings.get(uuid, CLOCKS_MHZ[-1])

    def write(self, uuid: str, setting: float | None) -> None:
        """Record the time and set it."""
        self._stamps.add(self._clock.monotonic_s())
        self._settings[uuid] = setting


def main() -> None:
    """Serve until SIGTERM; a second argument is the group that is admitted."""
    folder, clock = Path(sys.argv[1]), SystemClock()
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    stamps, journal = Stamps(folder / "stamps"), RecordJournalWriter(folder / JOURNAL_NAME)
    serve_actuator(
        lambda: (StampedKnob(stamps, clock),),
        folder / "actuator.sock",
        folder / "state",
        journal.append,
        clock,
        settings=ActuatorSettings(),
        run_id="bench",
        stop=stop,
        access=Access(gid=int(sys.argv[2])) if len(sys.argv) > 2 else OWN_USER,
        ready=_settled,
    )


def _settled() -> None:
    freeze_loaded_objects()
    print("ready", flush=True)


if __name__ == "__main__":
    main()
