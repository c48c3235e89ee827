"""Probe of a driver: its results here, their cost, and update periods of its sensors; reads only, for doctor."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

import numpy as np

from agent.driver.nvml import NvmlDriver, gpu_signals
from agent.driver.nvml_gpm import SHORTEST_WINDOW_S
from agent.driver.nvml_gpm import SIGNALS as PIPE_SIGNALS
from agent.driver.nvml_links import SIGNALS as LINK_SIGNALS
from agent.driver.nvml_links import column_of
from agent.driver.nvml_reader import Route
from agent.driver.port import GpuReader
from telemetry.clock import Clock
from telemetry.frames import FloatArray
from telemetry.signals import RateClass

# What the agent may call beyond reading signals; looked up, never called.
_CONTROL_FUNCTIONS = (
    "nvmlDeviceSetApplicationsClocks",
    "nvmlDeviceResetApplicationsClocks",
    "nvmlDeviceSetGpuLockedClocks",
    "nvmlDeviceResetGpuLockedClocks",
    "nvmlEventSetWait_v2",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalProbe:
    """Signal of a GPU: the call that reads it, and its value, None where it cannot be read."""

    uuid: str
    route: Route
    value: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallProbe:
    """Count and cost of one driver call."""

    name: str
    count: int
    mean_s: float
    max_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverProbe:
    """Result of a probe; `functions` are the control functions that the library has."""

    driver_version: str
    signals: tuple[SignalProbe, ...]
    calls: tuple[CallProbe, ...]
    functions: tuple[tuple[str, bool], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdatePeriod:
    """Changes of one signal of one GPU while it was polled.

    `period_s` is the median time between two changes, None with fewer than three. A sensor that measures the same
    value twice looks slower than it is, so measure under a changing load.
    """

    uuid: str
    signal: str
    polls: int
    changes: int
    period_s: float | None
    shortest_s: float | None


def probe(driver: NvmlDriver, *, rounds: int = 5) -> DriverProbe:
    """Read every signal a few times and return the result; takes a quarter of a second where GPUs have pipe metrics."""
    values: dict[tuple[str, str], float] = {}
    for rate in RateClass:
        names = gpu_signals(rate)
        array = np.full((len(driver.gpus()), len(names)), np.nan)
        for _ in range(rounds):
            _read_of(driver, rate)(array)
        for row, gpu in enumerate(driver.gpus()):
            values |= {(gpu.uuid, name): float(array[row, column]) for column, name in enumerate(names)}
    values |= _pipe_values(driver) | _link_values(driver)
    signals = tuple(
        SignalProbe(uuid=uuid, route=route, value=_present(values.get((uuid, route.signal), np.nan)))
        for uuid, route in driver.routes
    )
    calls = tuple(
        CallProbe(name=name, count=cost.count, mean_s=cost.total_s / cost.count, max_s=cost.max_s)
        for name, cost in sorted(driver.costs.by_name.items())
        if cost.count
    )
    functions = tuple((name, driver.library.function(name) is not None) for name in _CONTROL_FUNCTIONS)
    return DriverProbe(driver_version=driver.driver_version, signals=signals, calls=calls, functions=functions)


def _read_of(reader: GpuReader, rate: RateClass) -> Callable[[FloatArray], None]:
    return {RateClass.FAST: reader.read_fast, RateClass.SLOW: reader.read_slow, RateClass.RARE: reader.read_rare}[rate]


def _pipe_values(driver: NvmlDriver) -> dict[tuple[str, str], float]:
    """Read the pipes twice, as far apart as they need."""
    array = np.full((len(driver.pipes.gpus), len(PIPE_SIGNALS)), np.nan)
    clock = driver.library.clock
    driver.pipes.read(array)
    if len(array):
        clock.sleep_until(clock.monotonic_s() + 2 * SHORTEST_WINDOW_S)
        driver.pipes.read(array)
    return {
        (gpu.uuid, name): float(array[row, column])
        for row, gpu in enumerate(driver.pipes.gpus)
        for column, name in enumerate(PIPE_SIGNALS)
    }


def _link_values(driver: NvmlDriver) -> dict[tuple[str, str], float]:
    links = driver.links.links
    array = np.full((len(links), len(LINK_SIGNALS)), np.nan)
    driver.links.read(array)
    return {
        (link.gpu_uuid, column_of(link.link, name)): float(array[row, column])
        for row, link in enumerate(links)
        for column, name in enumerate(LINK_SIGNALS)
    }


def measure_update_period(
    reader: GpuReader, clock: Clock, *, rate: RateClass, duration_s: float, poll_s: float = 0.002
) -> tuple[UpdatePeriod, ...]:
    """Poll all signals of a rate class and time their changes.

    The poll must be several times faster than the sensor: the power sensor of a V100 updates every 20 ms, that of an
    A100 or H100 every 100 ms (Yang, Adamek and Armour, SC24, arXiv 2312.02741). Polling takes the driver's lock, so
    keep `duration_s` to seconds.
    """
    names = gpu_signals(rate)
    now = np.full((len(reader.gpus()), len(names)), np.nan)
    before = now.copy()
    read = _read_of(reader, rate)
    changes: dict[tuple[int, int], list[float]] = {}
    polls = 0
    end_s = clock.monotonic_s() + duration_s
    while (at_s := clock.monotonic_s()) < end_s:
        read(now)
        if polls:
            for row, column in np.argwhere((now != before) & ~np.isnan(now) & ~np.isnan(before)):
                changes.setdefault((int(row), int(column)), []).append(at_s)
        before[:] = now
        polls += 1
        clock.sleep_until(at_s + poll_s)
    return tuple(
        _period(gpu.uuid, name, polls, changes.get((row, column), []))
        for row, gpu in enumerate(reader.gpus())
        for column, name in enumerate(names)
    )


def _period(uuid: str, signal: str, polls: int, times_s: list[float]) -> UpdatePeriod:
    gaps = [later - earlier for earlier, later in itertools.pairwise(times_s)]
    enough = len(gaps) >= 2
    return UpdatePeriod(
        uuid=uuid,
        signal=signal,
        polls=polls,
        changes=len(times_s),
        period_s=median(gaps) if enough else None,
        shortest_s=min(gaps) if enough else None,
    )


def _present(value: float) -> float | None:
    return None if np.isnan(value) else value
