"""Cost and timing of a sampling process: the agent's own signals."""

from collections.abc import Callable

import psutil

from agent.sampler.counters import SamplerCounters
from telemetry.clock import Clock
from telemetry.entities import Entity, EntityKind
from telemetry.frames import FloatArray, TableSpec
from telemetry.signals import RateClass

# The agent signals that the sampling process knows; the service process reports spool and uplink.
_SIGNALS = (
    "cpu_ratio",
    "resident_bytes",
    "tick_late_p99_s",
    "driver_s",
    "ticks",
    "overruns",
    "updates_kept",
    "updates_filled",
    "updates_missed",
    "poll_period_s",
    "sensor_period_s",
    "sensor_jitter_s",
    "locked_ratio",
    "poll_stretch_ratio",
    "driver_ratio",
    "collector_errors",
    "collector_hangs",
    "oldest_signal_age_s",
    "kernel_lines_unparsed",
    "sample_overruns",
    "reads_refused",
    "reflexes",
    "reflexes_unconfirmed",
)


class SelfMetrics:
    """Collector of one row: this process.

    The sampler's row is named by the node, like the service's, which has other signals. A second sampling process has
    the same signals, so `process` is part of its table name, its entity and a tag.
    """

    rate = RateClass.SLOW

    def __init__(self, node: str, counters: SamplerCounters, clock: Clock, *, process: str = "") -> None:
        entity = Entity(kind=EntityKind.AGENT, key=node, name=node)
        self.name = "agent"
        if process:
            tags = (("process", process),)
            entity = Entity(kind=EntityKind.AGENT, key=f"{node}.{process}", name=f"{node} {process}", tags=tags)
            self.name = f"agent_{process}"
        self.spec = TableSpec(name=self.name, kind=EntityKind.AGENT, entities=(entity,), signals=_SIGNALS)
        self._counters = counters
        self._clock = clock
        self._process = psutil.Process()
        self._is_open = False
        self._last_s = 0.0
        self._last_cpu_s = 0.0

    def open(self) -> None:
        """Start the interval over which processor use is measured."""
        self._is_open = True
        self._last_s = self._clock.monotonic_s()
        self._last_cpu_s = _cpu_s(self._process)

    def read(self, values: FloatArray) -> None:
        """Fill ``(1, n_signals)``."""
        if not self._is_open:
            self.open()
        now_s, cpu_s = self._clock.monotonic_s(), _cpu_s(self._process)
        elapsed_s = now_s - self._last_s
        counters = self._counters
        values[0] = (
            (cpu_s - self._last_cpu_s) / elapsed_s if elapsed_s > 0 else float("nan"),
            self._process.memory_info().rss,
            _or_nan(counters.take_late_p99_s),
            _or_nan(counters.driver_s),
            counters.ticks,
            counters.overruns,
            counters.updates_kept,
            counters.updates_filled,
            *_pacing(counters),
            counters.collector_errors,
            counters.collector_hangs,
            _or_nan(counters.oldest_age_s),
            _or_nan(counters.kernel_lines_unparsed),
            _or_nan(counters.sample_overruns),
            _or_nan(counters.reads_refused),
            _or_nan(counters.reflexes),
            _or_nan(counters.reflexes_unconfirmed),
        )
        self._last_s, self._last_cpu_s = now_s, cpu_s

    def close(self) -> None:
        """Reset the interval over which processor use is measured."""
        self._is_open = False


def _pacing(counters: SamplerCounters) -> tuple[float, ...]:
    """Return missed, poll period, sensor period, jitter, locked, stretch, driver; NaN where the rate is fixed."""
    report = None if counters.pacing is None else counters.pacing()
    if report is None:
        return (float("nan"),) * 7
    return (
        report.missed,
        report.period_s,
        report.sensor_period_s,
        report.jitter_s,
        report.locked_ratio,
        report.stretch,
        report.driver_ratio,
    )


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


def _or_nan(read: Callable[[], float | None] | None) -> float:
    value = None if read is None else read()
    return float("nan") if value is None else value
