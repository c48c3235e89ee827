"""A knob that outlives the process which moves it, and the actuator process that the tests kill.

Run as a module with the folder and the id of the run.
"""

import json
import signal
import sys
import threading
from pathlib import Path

from agent.actuation.limits import ActuatorSettings
from agent.actuation.server import serve_actuator
from telemetry.clock import SystemClock
from telemetry.gpu import KnobKind
from telemetry.record_journal import RecordJournalWriter
from tests.agent.fakes import V100_CLOCKS_MHZ


class FileKnob:
    """Knob with one file per GPU that holds the clock in force."""

    kind = KnobKind.CLOCK
    name = "application_clock"
    readable = True

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def supported(self, uuid: str) -> tuple[float, ...]:
        return V100_CLOCKS_MHZ

    def read(self, uuid: str) -> float | None:
        setting: float | None = json.loads((self._folder / uuid).read_text())
        return setting

    def write(self, uuid: str, setting: float | None) -> None:
        (self._folder / uuid).write_text(json.dumps(setting))


def main() -> None:
    folder, run_id = Path(sys.argv[1]), sys.argv[2]
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    records = RecordJournalWriter(folder / "records")
    serve_actuator(
        lambda: (FileKnob(folder),),
        folder / "run" / "actuator.sock",
        folder / "state",
        records.append,
        SystemClock(),
        settings=ActuatorSettings(),
        run_id=run_id,
        stop=stop,
        ready=lambda: print("ready", flush=True),  # noqa: T201 -- the test waits for it
    )
    records.close()


if __name__ == "__main__":
    main()
