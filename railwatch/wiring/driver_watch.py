"""A GPU driver that hangs or is missing: not called, probed from another process, read again when it responds.

NVML can hang for ever, in a read and while it is opened (github.com/NVIDIA/NVSentinel issue 1576). The process whose
calls hang ends, leaving a mark in the run folder; the next one starts on its other sources, with the GPUs of before as
absent, and probes the driver from a process of its own until that reads again. On a real node a driver that is not
there, as before its module is loaded, is looked for in the same way.
"""

import json
import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from agent.collectors.port import Collector, EventSource
from agent.ring.ring import Ring
from agent.sampler.watched_thread import WorkerStatus
from railwatch.run_context import DriverKind, RunContext, read_status
from railwatch.wiring.driver_status import ABSENT, HANGS, Away, DriverChangeSource, probe_until_it_reads
from railwatch.wiring.gpu_driver import OpenDriver, open_driver
from railwatch.wiring.samplers import DEADLINES, HungWatch
from telemetry.atomic_files import replace_file
from telemetry.clock import Clock
from telemetry.errors import EnvironmentLacksError, TransientError
from telemetry.frames import FloatArray, TableSpec
from telemetry.gpu import GpuIdentity
from telemetry.json_text import json_bytes
from telemetry.signals import RateClass, Source, signal

logger = logging.getLogger(__name__)

# The driver cannot be read, and it can: a process that ends with one of these is started again, without it and with it.
DRIVER_HUNG, DRIVER_BACK = 7, 8
# Heuristic: without persistence mode the first caller initialises every GPU, seconds each.
OPEN_LIMIT_S = 20.0
# Heuristic: at least this long, so that the guard of this process has reported the loss (after five seconds).
LEAST_S = 10.0
_MARK, _GPUS, _RATES = "{process}-driver-away.json", "driver-gpus.json", "table-rates.json"
_DRIVER_SOURCES = frozenset({Source.NVML, Source.NVLINK, Source.GPM, Source.NVML_PROCESSES})


class AbsentReader:
    """Reader of GPUs whose driver is away: it keeps their tables, and so the ring with earlier rows."""

    def __init__(self, gpus: Sequence[GpuIdentity], why: str) -> None:
        self._gpus = tuple(gpus)
        self._why = why

    def gpus(self) -> tuple[GpuIdentity, ...]:
        """Return the GPUs that the driver had when it last answered."""
        return self._gpus

    def read_fast(self, values: FloatArray) -> None:
        """Raise TransientError: there is nothing to read."""
        del values
        raise TransientError(self._why)

    read_slow = read_rare = read_fast


class AbsentCollector:
    """Stand-in for a table of the ring whose source needs the driver, until that responds again."""

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
    """The driver of one process, opened under a time limit.

    Attributes
    ----------
    away
        Why the driver is not called, where it hangs.
    absent
        Why there is nothing to read, where a real node has no driver or the driver no GPU.

    Parameters
    ----------
    process
        Whose driver it is; each process finds out for itself.
    ask_once
        Called with a driver that has just been opened, under the same limit.
    """

    def __init__(
        self,
        context: RunContext,
        clock: Clock,
        *,
        open_limit_s: float = OPEN_LIMIT_S,
        process: str = "sampler",
        on_open: Callable[[OpenDriver], object] | None = None,
    ) -> None:
        self._context = context
        self._clock = clock
        self._open_limit_s = open_limit_s
        self._on_open = on_open or _read_constants
        self._mark = context.run_dir / _MARK.format(process=process)
        self._hung = HungWatch(clock)
        self._limit_s = max(LEAST_S, DEADLINES * context.config.sampling.deadline)
        self.away: Away | None = None
        self.absent: Away | None = None
        self.change: Away | None = None

    def open(self) -> OpenDriver:
        """Open the driver; return one without values where it does not respond, now or since the process before."""
        if self._context.driver not in (DriverKind.NVML, DriverKind.HUNG):
            return open_driver(self._context, self._clock)
        known = self._known()
        if known is None or known.back_ns is not None:
            opened = open_in_time(self._context, self._clock, self._open_limit_s, self._on_open)
            if opened is not None:
                self._keep_gpus(opened)
                self.change = known
                self._mark.unlink(missing_ok=True)
                return opened
            logger.error("GPU driver did not open within %g s; sampling without it", self._open_limit_s)
            known = Away(
                since_ns=self._clock.utc_ns(), why=f"the GPU driver did not open within {self._open_limit_s:g} s"
            )
            _write(self._mark, asdict(known))
        self.away = self.change = known
        gpus = self._known_gpus()
        reader = AbsentReader(gpus, known.why) if gpus else None
        return OpenDriver(reader=reader, events=None, why=known.why)

    def _known(self) -> Away | None:
        """Return the mark of the process before, or the start of the run where its probe hung."""
        known = _read_mark(self._mark)
        begun_hung = self._context.driver is DriverKind.HUNG and not (self._context.run_dir / _GPUS).exists()
        if known is None and begun_hung:
            known = Away(since_ns=self._context.started_ns, why=self._context.source)
            _write(self._mark, asdict(known))
        return known

    def keep_tables(self, collectors: Sequence[Collector]) -> list[Collector]:
        """Return the collectors in the order of the ring's tables, with a stand-in for each that needs the driver.

        With the same tables the next writer takes the ring over, and what was read before stays in it.
        """
        kept = list(collectors) if self.away is None else self._with_stand_ins(collectors, self.away.why)
        _write(self._context.run_dir / _RATES, {one.name: one.rate for one in kept})
        return kept

    def _with_stand_ins(self, collectors: Sequence[Collector], why: str) -> list[Collector]:
        try:
            known = json.loads((self._context.run_dir / _RATES).read_text(encoding="utf-8"))
            ring = Ring.attach(self._context.ring_path)
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
        """Return the source that reports that the driver went away or is back; empty where it never was away."""
        if self.change is None:
            return ()
        return (DriverChangeSource(self.change, node=self._context.node.key, clock=self._clock),)

    def supported_mhz(self, driver: OpenDriver) -> dict[str, tuple[float, ...]]:
        """Return the clocks that can be set, those of before where the driver does not answer."""
        if self.away is None:
            return driver.supported_mhz()
        return {uuid: tuple(clocks) for uuid, clocks in read_status(self._context.clocks_path).items()}

    def ranges(self, driver: OpenDriver) -> dict[str, dict[str, tuple[float, float]]]:
        """Return what else can be set, as before where the driver does not answer."""
        return driver.ranges() if self.away is None else read_ranges(self._context)

    def check_hung(self, collectors: Sequence[Collector], statuses: Sequence[WorkerStatus]) -> str:
        """Return why the driver counts as dead, from the state of its collectors; an empty text where it does not."""
        limits_s = {collector.name: self._limit_s for collector in collectors if _uses_driver(collector)}
        hung = self._hung.check_hung(statuses, limits_s)
        return f"the GPU driver does not respond: {hung}" if hung else ""

    def mark_away(self, why: str) -> None:
        """Leave a mark for the next process not to wait for the driver."""
        _write(self._mark, asdict(Away(since_ns=self._clock.utc_ns(), why=why)))

    def probe_until_back(self, answered: threading.Event) -> None:
        """Probe the driver from another process until it reads, then set the flag; for a thread of its own."""
        known = self.away or self.absent
        if known is not None and probe_until_it_reads(answered, self._clock, ABSENT if known.absent else HANGS):
            _write(self._mark, asdict(replace(known, back_ns=self._clock.utc_ns())))
            answered.set()

    def _keep_gpus(self, opened: OpenDriver) -> None:
        if opened.gpus:
            _write(self._context.run_dir / _GPUS, [asdict(gpu) for gpu in opened.gpus])
        elif not self._context.simulated:
            why = opened.why or "the driver finds no GPU"
            self.absent = Away(since_ns=self._clock.utc_ns(), why=why, absent=True)
            logger.warning("no GPU is read: %s; probing for one at intervals", why)

    def _known_gpus(self) -> tuple[GpuIdentity, ...]:
        try:
            found = json.loads((self._context.run_dir / _GPUS).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return ()
        return tuple(GpuIdentity(**fields) for fields in found)


def open_in_time(
    context: RunContext, clock: Clock, limit_s: float, on_open: Callable[[OpenDriver], object] | None = None
) -> OpenDriver | None:
    """Open the driver and read its constants; return None where that takes longer than the limit."""
    opened: list[OpenDriver | BaseException] = []

    def opening() -> None:
        try:
            driver = open_driver(context, clock)
            (on_open or _read_constants)(driver)
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


def read_ranges(context: RunContext) -> dict[str, dict[str, tuple[float, float]]]:
    """Return the ranges that the guard of a run wrote; empty before it has begun."""
    known = read_status(context.ranges_path)
    return {kind: {uuid: (low, high) for uuid, (low, high) in by_gpu.items()} for kind, by_gpu in known.items()}


def _read_constants(driver: OpenDriver) -> None:
    """Read under the time limit what the driver is read for only at a start."""
    if driver.nvml is not None:
        for _ in (driver.links, driver.pipes, driver.nvml.samples, driver.supported_mhz(), driver.ranges()):
            pass


def _uses_driver(collector: Collector) -> bool:
    spec = collector.spec
    return any(signal(spec.kind, name).source in _DRIVER_SOURCES for name in spec.signals)


def _read_mark(path: Path) -> Away | None:
    try:
        return Away(**json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as err:
        logger.warning("cannot read %s: %s", path, err)
        return None


def _write(path: Path, known: object) -> None:
    """Write state for the next process of this run; without it that one may wait for the driver, or lose rows."""
    try:
        replace_file(path, json_bytes(known), synced=False)
    except OSError as err:
        logger.warning("cannot write %s: %s; a start without the driver lacks it", path, err.strerror)
