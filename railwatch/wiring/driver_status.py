"""State of a GPU driver that cannot be read, the event that reports it, and the probe from another process."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass

from telemetry.clock import NS_PER_S, Clock
from telemetry.records import Event, EventKind, Severity

# Heuristic: a healthy driver that is open elsewhere answers within a second; a probe that hangs is killed.
PROBE_LIMIT_S = 10.0

# Opens the driver and reads once what this process reads, since a driver that opens may still hang in a read. It ends
# itself in time: its parent may have ended before.
_PROGRAM = """
import math, signal, sys
signal.alarm(math.ceil(float(sys.argv[1])))
import numpy
from agent.collectors.gpu.driver_tables import GpuFast, link_table, pipe_table, slow_table
from agent.driver.nvml import NvmlDriver
driver = NvmlDriver()
for collector in (GpuFast(driver), slow_table(driver), link_table(driver.links), pipe_table(driver.pipes)):
    collector.read(numpy.empty(collector.spec.shape))
driver.samples.read()
print(len(driver.gpus()), flush=True)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pauses:
    """Pauses before each probe: `first_s`, then `next_s`, doubled up to `longest_s`."""

    first_s: float
    next_s: float
    longest_s: float

    def __iter__(self) -> Iterator[float]:
        """Yield the pauses, without end."""
        yield self.first_s
        pause_s = self.next_s
        while True:
            yield pause_s
            pause_s = min(self.longest_s, 2.0 * pause_s)


# Heuristic: a driver that hangs is probed evenly, since every second without it is one without readings.
HANGS = Pauses(first_s=2.0, next_s=15.0, longest_s=15.0)
# Heuristic: a module that is loaded late at boot comes within the first minute, one that is being installed some time.
ABSENT = Pauses(first_s=5.0, next_s=5.0, longest_s=300.0)


def probe_until_it_reads(answered: threading.Event, clock: Clock, pauses: Pauses) -> bool:
    """Probe until GPUs are read; return True then, False where the flag was set before."""
    probe: subprocess.Popen[bytes] | None = None
    began_s = clock.monotonic_s()
    for pause_s in pauses:
        if answered.wait(max(0.0, began_s + pause_s - clock.monotonic_s())):
            return False
        began_s = clock.monotonic_s()
        if probe is not None and probe.poll() is None:
            continue  # stuck in the kernel, where it cannot be killed: another would only join it
        probe = start_probe()
        if reads_gpus(probe):
            return True
    return False


def start_probe() -> subprocess.Popen[bytes]:
    """Start one question."""
    return subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, str(PROBE_LIMIT_S)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )


def reads_gpus(probe: subprocess.Popen[bytes]) -> bool:
    """Wait for a probe and return True if it read GPUs; one that does not end in time is killed."""
    try:
        output, _ = probe.communicate(timeout=PROBE_LIMIT_S)
    except subprocess.TimeoutExpired:
        probe.kill()
        if probe.stdout is not None:
            probe.stdout.close()
        return False
    return probe.returncode == 0 and output.strip() not in (b"", b"0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Away:
    """Since when the driver cannot be read and how that was noticed; `back_ns` once it can.

    `absent` where there is none, such as before its module is loaded; else it hangs.
    """

    since_ns: int
    why: str
    back_ns: int | None = None
    absent: bool = False


class DriverChangeSource:
    """Event source that reports once that the driver went away, or that it is back."""

    name = "gpu_driver"

    def __init__(self, change: Away | None, *, node: str, clock: Clock) -> None:
        self._news = change
        self._node = node
        self._clock = clock

    def open(self) -> None:
        """Nothing to open."""

    def poll(self, timeout_s: float) -> tuple[Event, ...]:
        """Return the change, once."""
        change, self._news = self._news, None
        if change is None:
            self._clock.sleep_until(self._clock.monotonic_s() + timeout_s)
            return ()
        state, severity, message = _summary(change)
        event = Event(
            id=f"gpu_driver:{self._node}:{change.since_ns}:{state}",
            time_ns=change.back_ns or change.since_ns,
            kind=EventKind.COLLECTOR,
            entity_id=f"node:{self._node}",
            code=None,
            severity=severity,
            message=message,
            sources=("agent",),
        )
        return (event,)

    def close(self) -> None:
        """Nothing to close."""


def _summary(change: Away) -> tuple[str, Severity, str]:
    if change.back_ns is None:
        asked = f"it is probed every {HANGS.longest_s:g} s"
        return "away", Severity.WARNING, f"GPUs are not read: {change.why}; {asked}"
    after = f"after {(change.back_ns - change.since_ns) / NS_PER_S:.0f} s"
    if change.absent:
        return "came", Severity.INFO, f"The GPU driver came {after}, and the GPUs are read now; before: {change.why}"
    return "back", Severity.INFO, f"The GPU driver answers again {after}"
