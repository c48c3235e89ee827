"""Fakes of the agent's ports; each records its calls and can be set to fail."""

import threading
from collections.abc import Callable, Iterable

import numpy as np

from agent.driver.port import LinkIdentity
from telemetry.clock import NS_PER_S
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.frames import FloatArray, TableSpec
from telemetry.gpu import DriverEvent, GpuIdentity, KnobKind
from telemetry.signals import RateClass, Source, signals_of

# 2026-01-31T12:00:00Z: a stamp that reads well in a failing test.
START_NS = 1_769_860_800 * NS_PER_S
# The memory clock of a V100 SXM2 and a few of its supported SM clocks.
V100_CLOCKS_MHZ = (135.0, 502.0, 802.0, 1005.0, 1057.0, 1102.0, 1200.0, 1312.0, 1380.0, 1455.0, 1530.0)


class FakeClock:
    """A clock that moves only when a test moves it, or when a caller sleeps on it."""

    def __init__(self, *, monotonic_s: float = 1000.0, utc_ns: int = START_NS) -> None:
        self._monotonic_s = monotonic_s
        self._utc_ns = utc_ns
        self._lock = threading.Lock()
        self.slept_s: list[float] = []

    def monotonic_s(self) -> float:
        with self._lock:
            return self._monotonic_s

    def utc_ns(self) -> int:
        with self._lock:
            return self._utc_ns

    def sleep_until(self, monotonic_s: float) -> None:
        delay_s = monotonic_s - self.monotonic_s()
        self.slept_s.append(max(0.0, delay_s))
        if delay_s > 0:
            self.advance(delay_s)

    def advance(self, seconds: float) -> None:
        """Advance both clocks."""
        with self._lock:
            self._monotonic_s += seconds
            self._utc_ns += round(seconds * NS_PER_S)

    def step_utc(self, seconds: float) -> None:
        """Step the wall clock alone, as NTP or a person does."""
        with self._lock:
            self._utc_ns += round(seconds * NS_PER_S)


def gpu_identities(count: int = 4) -> tuple[GpuIdentity, ...]:
    """V100 boards with UUIDs that sort like their index and PCI buses 3b, 3c, 3d, ..."""
    return tuple(
        GpuIdentity(
            uuid=f"GPU-00000000-0000-0000-0000-{index:012d}",
            index=index,
            name="Tesla V100-SXM2-32GB",
            pci=f"0000:{0x3B + index:02x}:00.0",
            serial=f"03200{index:08d}",
            driver_version="580.95.05",
        )
        for index in range(count)
    )


def gpu_entities(count: int = 4) -> tuple[Entity, ...]:
    """The entities that `gpu_identities` stand for."""
    return tuple(
        Entity(
            kind=EntityKind.GPU,
            key=gpu.uuid,
            name=f"gpu{gpu.index}",
            tags=(("pci", gpu.pci), ("model", gpu.name)),
        )
        for gpu in gpu_identities(count)
    )


def gpu_fast_spec(count: int = 4) -> TableSpec:
    """The fast GPU table of a node."""
    columns = signals_of(EntityKind.GPU, source=Source.NVML, rate=RateClass.FAST)
    return TableSpec(
        name="gpu_fast", kind=EntityKind.GPU, entities=gpu_entities(count), signals=tuple(s.name for s in columns)
    )


def node_topology(gpus: int = 4, supplies: int = 2) -> Topology:
    """Return a node whose supplies feed all of its GPUs."""
    node = Entity(kind=EntityKind.NODE, key="node0", name="node0")
    psus = tuple(Entity(kind=EntityKind.SUPPLY, key=f"psu{n}", name=f"psu{n}") for n in range(supplies))
    boards = gpu_entities(gpus)
    edges = [(psu.id, node.id) for psu in psus] + [(node.id, board.id) for board in boards]
    edges += [(psu.id, board.id) for psu in psus for board in boards]
    return Topology(entities=(node, *psus, *boards), edges=tuple(edges))


class FakeGpuReader:
    """GPUs whose readings a test sets: `fast` and `slow` are what the next read gives.

    `error` is raised by every read until it is set to None; `before_read` runs first (to hang, to count, to advance a
    clock). `lose(index)` turns a GPU's rows into NaN.
    """

    def __init__(self, count: int = 4) -> None:
        self._gpus = gpu_identities(count)
        fast = signals_of(EntityKind.GPU, source=Source.NVML, rate=RateClass.FAST)
        slow = signals_of(EntityKind.GPU, source=Source.NVML, rate=RateClass.SLOW)
        self.fast: FloatArray = np.full((count, len(fast)), np.nan)
        self.slow: FloatArray = np.full((count, len(slow)), np.nan)
        rare = signals_of(EntityKind.GPU, source=Source.NVML, rate=RateClass.RARE)
        self.rare: FloatArray = np.full((count, len(rare)), 0.0)
        self.fast_names = tuple(signal.name for signal in fast)
        self.slow_names = tuple(signal.name for signal in slow)
        self.fast[:] = [
            {"power_w": 150.0, "sm_clock_mhz": 1530.0, "mem_clock_mhz": 877.0}.get(n, 0.0) for n in self.fast_names
        ]
        self.slow[:] = [{"gpu_temp_c": 45.0, "slowdown_temp_c": 87.0}.get(n, 0.0) for n in self.slow_names]
        self.reads = 0
        self.error: Exception | None = None
        self.before_read: Callable[[], None] = lambda: None

    def gpus(self) -> tuple[GpuIdentity, ...]:
        return self._gpus

    def read_fast(self, values: FloatArray) -> None:
        self._read(values, self.fast)

    def read_slow(self, values: FloatArray) -> None:
        self._read(values, self.slow)

    def read_rare(self, values: FloatArray) -> None:
        self._read(values, self.rare)

    def set(self, index: int, name: str, value: float) -> None:
        """Set one reading of one GPU."""
        if name in self.fast_names:
            self.fast[index, self.fast_names.index(name)] = value
        else:
            self.slow[index, self.slow_names.index(name)] = value

    def lose(self, index: int) -> None:
        """Take one GPU off the bus."""
        self.fast[index] = np.nan
        self.slow[index] = np.nan
        self.rare[index] = np.nan

    def _read(self, values: FloatArray, source: FloatArray) -> None:
        self.before_read()
        self.reads += 1
        if self.error is not None:
            raise self.error
        values[:] = source


class FakeGpuEvents:
    """Source that returns what was queued, one batch per wait; an exception in the queue is raised."""

    def __init__(self, batches: Iterable[tuple[DriverEvent, ...] | Exception] = ()) -> None:
        self.batches = list(batches)
        self.waits_s: list[float] = []

    def wait(self, timeout_s: float) -> tuple[DriverEvent, ...]:
        self.waits_s.append(timeout_s)
        if not self.batches:
            return ()
        batch = self.batches.pop(0)
        if isinstance(batch, Exception):
            raise batch
        return batch


class FakeKnob:
    """A knob over a dictionary.

    `settings` is what is in force, None where it is unset; `writes` lists every write that got through. Failures:
    `read_error` and `write_error` are raised for every GPU until set to None, `errors[uuid]` for one GPU. With
    `readable=False` it is like locked clocks, which no getter shows. `obeys=False` accepts a write and does nothing.
    """

    def __init__(
        self,
        uuids: Iterable[str] | None = None,
        *,
        name: str = "application_clock",
        found: float | None = 1530.0,
        supported: tuple[float, ...] = V100_CLOCKS_MHZ,
        kind: KnobKind = KnobKind.CLOCK,
        readable: bool = True,
    ) -> None:
        self.name = name
        self.kind = kind
        self.default = found
        self.settable = supported
        self.readable = readable
        self.obeys = True
        names = [gpu.uuid for gpu in gpu_identities()] if uuids is None else list(uuids)
        self.settings: dict[str, float | None] = dict.fromkeys(names, found)
        self.writes: list[tuple[str, float | None]] = []
        self.reads: list[str] = []
        self.read_error: Exception | None = None
        self.write_error: Exception | None = None
        self.errors: dict[str, Exception] = {}

    def supported(self, uuid: str) -> tuple[float, ...]:
        if uuid in self.errors:
            raise self.errors[uuid]
        return self.settable

    def read(self, uuid: str) -> float | None:
        self.reads.append(uuid)
        if self.read_error is not None:
            raise self.read_error
        if uuid in self.errors:
            raise self.errors[uuid]
        return self.settings[uuid] if self.readable else None

    def write(self, uuid: str, setting: float | None) -> None:
        if self.write_error is not None:
            raise self.write_error
        if uuid in self.errors:
            raise self.errors[uuid]
        if self.obeys:
            self.settings[uuid] = self.default if setting is None else setting
        self.writes.append((uuid, setting))


class FakeCollector:
    """A collector that copies `reading` and calls `before_read` first: to raise, hang or count."""

    def __init__(self, spec: TableSpec, *, name: str = "fake", rate: RateClass = RateClass.FAST) -> None:
        self.name = name
        self.spec = spec
        self.rate = rate
        self.reading: FloatArray = np.zeros(spec.shape)
        self.before_read: Callable[[], None] = lambda: None
        self.opened = 0
        self.reads = 0
        self.closed = 0

    def open(self) -> None:
        self.opened += 1

    def read(self, values: FloatArray) -> None:
        self.reads += 1
        self.before_read()
        values[:] = self.reading

    def close(self) -> None:
        self.closed += 1


class FakeLinkReader:
    """Two links a GPU whose readings a test sets in `readings`."""

    def __init__(self, gpus: int = 2) -> None:
        self.links = tuple(
            LinkIdentity(gpu_uuid=gpu.uuid, gpu_index=gpu.index, link=link, peer="0000:3b:00.0")
            for gpu in gpu_identities(gpus)
            for link in range(2)
        )
        self.readings: FloatArray = np.zeros((len(self.links), len(signals_of(EntityKind.LINK, source=Source.NVLINK))))

    def read(self, values: FloatArray) -> None:
        values[:] = self.readings


class FakePipeReader:
    """GPUs with performance metrics whose readings a test sets; without any it may report that it was refused."""

    def __init__(self, count: int = 2, *, is_refused: bool = False) -> None:
        self.gpus = gpu_identities(count)
        self.is_refused = is_refused
        self.readings: FloatArray = np.zeros((count, len(signals_of(EntityKind.GPU, source=Source.GPM))))
        self.closed = 0

    def read(self, values: FloatArray) -> None:
        values[:] = self.readings

    def close(self) -> None:
        self.closed += 1
