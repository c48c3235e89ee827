"""A GPU driver that stops answering: noticed, left alone, asked from outside, and taken up again when it is back.

NVML can hang for ever, in a read and while it is opened (github.com/NVIDIA/NVSentinel issue 1576). The process whose
calls hang ends, leaving a mark in the run folder; the next one starts on its other sources, with the GPUs of before as
absent, and asks the driver from a process of its own until that reads again.
"""

import json
import logging
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from agent.collectors.port import Collector, EventSource
from agent.driver.port import GpuIdentity
from agent.ring import Ring
from agent.sampler.worker import WorkerState, WorkerStatus
from railwatch.driver import OpenDriver, open_driver
from railwatch.session import DriverKind, Session
from telemetry.clock import NS_PER_S, Clock
from telemetry.errors import EnvironmentLacksError, TransientError
from telemetry.frames import FloatArray, TableSpec
from telemetry.records import Event, EventKind, Severity
from telemetry.signals import RateClass, Source, signal

logger = logging.getLogger(__name__)

# Own choice: the actuator has the driver open by then, so that nothing is left to initialise.
OPEN_LIMIT_S = 20.0
# A driver that hangs counts as dead after so many deadlines of a read; by then three threads are stuck in it.
DEADLINES = 10
# Own choice: at least so long, so that the guard of this process has told that nothing is read (after five seconds).
LEAST_S = 10.0
# Own choice: a healthy driver that is open elsewhere answers within a second; a probe that hangs is killed.
PROBE_EVERY_S = 15.0
PROBE_LIMIT_S = 10.0
_FIRST_PROBE_S = 2.0
_MARK, _GPUS, _RATES = "driver-away.json", "driver-gpus.json", "table-rates.json"
_DRIVER_SOURCES = frozenset({Source.NVML, Source.NVLINK, Source.GPM, Source.NVML_PROCESSES})

# Opens the driver and reads once what this process reads, since a driver that opens may still hang in a read. It ends
# itself in time: whoever started it may have ended before.
_PROGRAM = """
import math, signal, sys
signal.alarm(math.ceil(float(sys.argv[1])))
import numpy
from agent.collectors.gpu_fast import GpuFast
from agent.collectors.gpu_links import GpuLinks
from agent.collectors.gpu_pipes import GpuPipes
from agent.collectors.gpu_slow import GpuSlow
from agent.driver.nvml import NvmlDriver
driver = NvmlDriver()
for collector in (GpuFast(driver), GpuSlow(driver), GpuLinks(driver.links), GpuPipes(driver.pipes)):
    collector.read(numpy.empty(collector.spec.shape))
driver.samples.read()
print(len(driver.gpus()), flush=True)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Away:
    """Since when the driver does not answer, and how that was noticed; `back_ns` once it does again."""

    since_ns: int
    why: str
    back_ns: int | None = None


class AbsentReader:
    """The GPUs of before, of which nothing can be read; it keeps the tables, and so the ring with what was read."""

    def __init__(self, gpus: Sequence[GpuIdentity], why: str) -> None:
        self._gpus = tuple(gpus)
        self._why = why

    def gpus(self) -> tuple[GpuIdentity, ...]:
        """Give the GPUs that the driver had when it last answered."""
        return self._gpus

    def read_fast(self, values: FloatArray) -> None:
        """Raise TransientError: there is nothing to read."""
        del values
        raise TransientError(self._why)

    def read_slow(self, values: FloatArray) -> None:
        """Raise TransientError: there is nothing to read."""
        del values
        raise TransientError(self._why)

    def read_rare(self, values: FloatArray) -> None:
        """Raise TransientError: there is nothing to read."""
        del values
        raise TransientError(self._why)


class AbsentCollector:
    """Stands for a table of the ring whose source needs the driver, until that answers again."""

    def __init__(self, spec: TableSpec, rate: RateClass, why: str) -> None:
        self.name = spec.name
        self.spec = spec
        self.rate = rate
        self._why = why

    def open(self) -> None:
        """Nothing to open."""

    def read(self, values: FloatArray) -> None:
        """Raise TransientError: there is nothing to read."""
        del values
        raise TransientError(self._why)

    def close(self) -> None:
        """Nothing to close."""


class DriverWatch:
    """The driver of one sampling process, opened under a time limit."""

    def __init__(self, session: Session, clock: Clock, *, open_limit_s: float = OPEN_LIMIT_S) -> None:
        self._session = session
        self._clock = clock
        self._open_limit_s = open_limit_s
        self._mark = session.run_dir / _MARK
        self._hung_since_s: dict[str, float] = {}
        self._limit_s = max(LEAST_S, DEADLINES * session.config.sampling.deadline)
        self.away: Away | None = None
        self.news: Away | None = None

    def open(self) -> OpenDriver:
        """Open the driver, or give one without values where it does not answer, now or since the process before."""
        if self._session.driver is not DriverKind.NVML:
            return open_driver(self._session, self._clock)
        known = _read_mark(self._mark)
        if known is None or known.back_ns is not None:
            opened = open_in_time(self._session, self._clock, self._open_limit_s)
            if opened is not None:
                self._keep_gpus(opened)
                self.news = known
                self._mark.unlink(missing_ok=True)
                return opened
            logger.error("the GPU driver does not open within %g s; sampling goes on without it", self._open_limit_s)
            known = Away(
                since_ns=self._clock.utc_ns(), why=f"the GPU driver does not open within {self._open_limit_s:g} s"
            )
            _write(self._mark, asdict(known))
        self.away = self.news = known
        gpus = self._known_gpus()
        reader = AbsentReader(gpus, known.why) if gpus else None
        return OpenDriver(reader=reader, events=None, knob=None, why=known.why)

    def keep_tables(self, collectors: Sequence[Collector]) -> list[Collector]:
        """Give the collectors in the order of the ring's tables, with a stand-in for each that needs the driver.

        With the same tables the next writer takes the ring over, and what was read before stays in it.
        """
        kept = list(collectors) if self.away is None else self._with_stand_ins(collectors, self.away.why)
        _write(self._session.run_dir / _RATES, {one.name: one.rate for one in kept})
        return kept

    def _with_stand_ins(self, collectors: Sequence[Collector], why: str) -> list[Collector]:
        try:
            known = json.loads((self._session.run_dir / _RATES).read_text(encoding="utf-8"))
            ring = Ring.attach(self._session.ring_path)
        except (EnvironmentLacksError, OSError, ValueError):
            return list(collectors)
        before = {table.spec.name: table.spec for table in ring.tables.values()}
        ring.close()
        found = {collector.name: collector for collector in collectors}
        absent = {
            name: AbsentCollector(spec, RateClass(known[name]), why)
            for name, spec in before.items()
            if name not in found and name in known
        }
        old = [found.get(name) or absent[name] for name in before if name in found or name in absent]
        return [*old, *(collector for name, collector in found.items() if name not in before)]

    def event_sources(self) -> tuple[EventSource, ...]:
        """Give what tells that the driver went away or is back; nothing where it was there all along."""
        if self.news is None:
            return ()
        return (DriverNews(self.news, node=self._session.node.key, clock=self._clock),)

    def supported_mhz(self, driver: OpenDriver) -> dict[str, tuple[float, ...]]:
        """Give the clocks that can be set, those of before where the driver does not answer."""
        if self.away is None:
            return driver.supported_mhz()
        try:
            known = json.loads(self._session.clocks_path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return {uuid: tuple(clocks) for uuid, clocks in known.items()}

    def see(self, collectors: Sequence[Collector], statuses: Sequence[WorkerStatus]) -> str:
        """Look at the collectors of the driver; gives why it counts as dead, an empty text where it does not."""
        names = {collector.name for collector in collectors if _asks_driver(collector)}
        now_s = self._clock.monotonic_s()
        hung = {status.name for status in statuses if status.name in names and status.state is WorkerState.HUNG}
        self._hung_since_s = {name: self._hung_since_s.get(name, now_s) for name in hung}
        for name, since_s in self._hung_since_s.items():
            if now_s - since_s >= self._limit_s:
                return f"the GPU driver does not answer: {name} hangs for {now_s - since_s:.0f} s"
        return ""

    def give_up(self, why: str) -> None:
        """Leave word for the next process that the driver is not to be waited for."""
        _write(self._mark, asdict(Away(since_ns=self._clock.utc_ns(), why=why)))

    def ask(self, answered: threading.Event) -> None:
        """Ask the driver from outside until it reads again, then set the flag; for a thread of its own."""
        if self.away is None:
            return
        asked: subprocess.Popen[bytes] | None = None
        next_s = self._clock.monotonic_s() + _FIRST_PROBE_S
        while not answered.is_set():
            self._clock.sleep_until(next_s)
            next_s = self._clock.monotonic_s() + PROBE_EVERY_S
            if asked is not None and asked.poll() is None:
                continue  # stuck in the kernel, where it cannot be killed: another would only join it
            asked = _start_probe()
            if self._answers(asked):
                _write(self._mark, asdict(replace(self.away, back_ns=self._clock.utc_ns())))
                answered.set()

    def _answers(self, asked: subprocess.Popen[bytes]) -> bool:
        try:
            said, _ = asked.communicate(timeout=PROBE_LIMIT_S)
        except subprocess.TimeoutExpired:
            asked.kill()
            if asked.stdout is not None:
                asked.stdout.close()
            return False
        return asked.returncode == 0 and said.strip() not in (b"", b"0")

    def _keep_gpus(self, opened: OpenDriver) -> None:
        if opened.gpus:
            _write(self._session.run_dir / _GPUS, [asdict(gpu) for gpu in opened.gpus])

    def _known_gpus(self) -> tuple[GpuIdentity, ...]:
        try:
            found = json.loads((self._session.run_dir / _GPUS).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return ()
        return tuple(GpuIdentity(**fields) for fields in found)


class DriverNews:
    """An event source that tells once that the driver went away, or that it is back."""

    name = "gpu_driver"

    def __init__(self, news: Away | None, *, node: str, clock: Clock) -> None:
        self._news = news
        self._node = node
        self._clock = clock

    def open(self) -> None:
        """Nothing to open."""

    def poll(self, timeout_s: float) -> tuple[Event, ...]:
        """Give the news, once."""
        news, self._news = self._news, None
        if news is None:
            self._clock.sleep_until(self._clock.monotonic_s() + timeout_s)
            return ()
        if news.back_ns is None:
            severity, state = Severity.WARNING, "away"
            message = f"GPUs are not read: {news.why}; it is asked again every {PROBE_EVERY_S:g} s"
        else:
            severity, state = Severity.INFO, "back"
            message = f"The GPU driver answers again after {(news.back_ns - news.since_ns) / NS_PER_S:.0f} s"
        event = Event(
            id=f"gpu_driver:{self._node}:{news.since_ns}:{state}",
            time_ns=news.back_ns or news.since_ns,
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


def open_in_time(session: Session, clock: Clock, limit_s: float) -> OpenDriver | None:
    """Open the driver and have it tell what it is asked once; None where that takes longer than the limit."""
    opened: list[OpenDriver | BaseException] = []

    def opening() -> None:
        try:
            driver = open_driver(session, clock)
            _ask_what_is_asked_once(driver)
            opened.append(driver)
        except BaseException as err:  # noqa: BLE001 -- raised again in the thread that waits
            opened.append(err)

    thread = threading.Thread(target=opening, name="open-driver", daemon=True)
    thread.start()
    thread.join(limit_s)
    if not opened:
        return None
    if isinstance(opened[0], BaseException):
        raise opened[0]
    return opened[0]


def _ask_what_is_asked_once(driver: OpenDriver) -> None:
    """Have the driver tell here, under the time limit, what it is asked at a start and what it then remembers."""
    if driver.nvml is not None:
        for _ in (driver.links, driver.pipes, driver.nvml.samples, driver.supported_mhz()):
            pass


def _start_probe() -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, str(PROBE_LIMIT_S)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )


def _asks_driver(collector: Collector) -> bool:
    spec = collector.spec
    return any(signal(spec.kind, name).source in _DRIVER_SOURCES for name in spec.signals)


def _read_mark(path: Path) -> Away | None:
    try:
        return Away(**json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as err:
        logger.warning("%s cannot be read: %s", path, err)
        return None


def _write(path: Path, known: object) -> None:
    """Keep what the next process of this run is to know; without it that one may wait for the driver, or lose rows."""
    fresh = path.with_suffix(".new")
    try:
        fresh.write_text(json.dumps(known), encoding="utf-8")
        fresh.replace(path)
    except OSError as err:
        logger.warning("%s cannot be written: %s; a start without the driver misses it", path, err.strerror)
