"""The actuator process of the reaction benchmark: the real one, on a knob that notes the time of each call."""

import mmap
import os
import signal
import struct
import sys
import threading
from pathlib import Path

from agent.actuation.access import OWN_USER, Access
from agent.actuation.limits import ActuatorSettings
from agent.actuation.server import serve_actuator
from agent.scheduling import freeze_loaded_objects
from telemetry.clock import Clock, SystemClock
from telemetry.errors import TransientError
from telemetry.gpu import KnobKind
from telemetry.record_journal import RecordJournalWriter
from telemetry.stop_signals import set_on_signals

# The clocks of a V100, 135 to 1530 MHz in steps of 7.5 MHz.
CLOCKS_MHZ = tuple(135.0 + 7.5 * step for step in range(187))
_CELL = struct.Struct("=d")
_CELLS = 64
JOURNAL_NAME = "actuator.jsonl"


class Stamps:
    """Monotonic times in memory that two processes share; a time of zero is none yet."""

    def __init__(self, path: Path, *, create: bool = False) -> None:
        descriptor = os.open(path, os.O_RDWR | (os.O_CREAT if create else 0))
        if create:
            os.truncate(descriptor, _CELLS * _CELL.size)
        self._memory = mmap.mmap(descriptor, _CELLS * _CELL.size)
        os.close(descriptor)

    def add(self, time_s: float) -> None:
        """Record a time in the first free cell."""
        free = next(cell for cell in range(_CELLS) if self._at(cell) == 0.0)
        _CELL.pack_into(self._memory, free * _CELL.size, time_s)

    def clear(self) -> None:
        """Clear all times."""
        self._memory[:] = bytes(len(self._memory))

    def wait_for(self, count: int, clock: Clock, limit_s: float) -> float:
        """Return the time that was noted as number `count`; TransientError where it does not come within the limit."""
        end_s = clock.monotonic_s() + limit_s
        while self._at(count - 1) == 0.0:
            if clock.monotonic_s() > end_s:
                raise TransientError("a clock-cap call did not come")
            clock.sleep_until(clock.monotonic_s() + 0.001)
        return self._at(count - 1)

    def close(self) -> None:
        """Unmap the memory."""
        self._memory.close()

    def _at(self, cell: int) -> float:
        time_s: float = _CELL.unpack_from(self._memory, cell * _CELL.size)[0]
        return time_s


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
    set_on_signals(stop, (signal.SIGTERM,))
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
