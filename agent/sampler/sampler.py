"""The sampler: every collector on its own schedule, every row in the ring, one watchdog over all."""

import contextlib
import logging
import os
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from agent.collectors.port import (
    AlertingCollector,
    BufferedCollector,
    Collector,
    EventSource,
    FollowingCollector,
    PacedCollector,
    RefusingCollector,
    RowAddingCollector,
    StampedCollector,
)
from agent.ring.header import rows_for, rows_within
from agent.ring.ring import Ring
from agent.sampler.counters import SamplerCounters
from agent.sampler.event_pump import EventPump
from agent.sampler.pacing.pacer import PaceReport
from agent.sampler.settings import SamplerSettings
from agent.sampler.watched_thread import WorkerState, WorkerStatus
from agent.sampler.worker import Worker, WorkerCallbacks
from agent.scheduling import freeze_loaded_objects
from telemetry.clock import Clock
from telemetry.entities import Topology
from telemetry.records import Event, EventKind, Severity
from telemetry.signals import RateClass

logger = logging.getLogger(__name__)

# Slow collectors start this far apart, so that a fast tick finds no queue of them before it, nor one the other at work:
# a thread that waits for the interpreter wakes twice a millisecond. Fast ones of one pace tick at one moment: what
# wakes second finds a processor that is awake. Measured with 100 ticks a second of GPUs and rails: 4.9 % of a core at
# 1 ms apart, 4.0 % together.
_STAGGER_S = 0.005
# A waiting thread requests the interpreter this often; the default of 5 ms is longer than a late tick may be.
_SWITCH_INTERVAL_S = 0.0005
# What is suspicious happens within seconds. heuristic.
EVENT_BURST_S = 10.0
# Rows of a collector that brings many at once: each update of eight GPUs at 50 Hz may be one, and they are taken to
# the store every second. heuristic: time for a store that is away for a moment.
_STAMPED_HZ, _STAMPED_S = 400.0, 20.0
# Ahead of everything ordinary, behind what an administrator raised further.
_NICENESS = -10


def make_ring(
    path: Path,
    collectors: Sequence[Collector],
    settings: SamplerSettings,
    *,
    node: str,
    topology: Topology,
    simulated: bool,
    seconds: float = 300.0,
    max_bytes: int | None = None,
) -> Ring:
    """Make the ring that holds so many seconds of every collector's table at its rate, fewer where bytes are full."""
    specs = [collector.spec for collector in collectors]
    rows = {collector.spec.name: _rows(collector, settings, seconds) for collector in collectors}
    if max_bytes is not None:
        wanted, rows = rows, rows_within(specs, rows, max_bytes)
        if rows != wanted:
            kept_s = seconds * sum(rows.values()) / sum(wanted.values())
            logger.warning("%s holds about %.0f s, not %.0f s: %d bytes are full", path, kept_s, seconds, max_bytes)
    return Ring.create(path, specs, node=node, topology=topology, simulated=simulated, rows=rows)


def _rows(collector: Collector, settings: SamplerSettings, seconds: float) -> int:
    if isinstance(collector, StampedCollector):
        return rows_for(min(seconds, _STAMPED_S), _STAMPED_HZ)
    if settings.paced is not None and isinstance(collector, PacedCollector) and collector.name not in settings.own:
        return rows_for(seconds, settings.paced.max_hz)
    return rows_for(seconds, settings.pace_of(collector.name, collector.rate).rate_hz)


def tune_process() -> None:
    """Tune this process for short ticks; call once, in the sampler's own process, when everything is loaded.

    The priority counts for threads that are started later; without the permission to raise it ticks come later on a
    busy machine (measured with two busy loops on two cores: 3 ms instead of below 1 ms in most seconds).
    """
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, _NICENESS)
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    freeze_loaded_objects()


def _let_follow(collectors: Sequence[Collector], ring: Ring) -> None:
    for collector in collectors:
        if isinstance(collector, FollowingCollector) and collector.follows in ring.tables:
            collector.follow(ring.tables[collector.follows])


class Sampler:
    """Starts, watches and stops the workers.

    Parameters
    ----------
    ring
        Has one table per collector; made by `make_ring`. It belongs to the caller.
    on_rows
        Called with the table's name from the collector's thread after each row. It may not block: set an event.
    on_events
        Called from the thread of an event source, or of a collector whose state or pace changed. It may not block for
        long.
    """

    def __init__(
        self,
        ring: Ring,
        collectors: Sequence[Collector],
        *,
        clock: Clock,
        settings: SamplerSettings,
        counters: SamplerCounters,
        on_rows: Callable[[str], None] = lambda _: None,
        on_events: Callable[[tuple[Event, ...]], None] = lambda _: None,
        event_sources: Sequence[EventSource] = (),
    ) -> None:
        self._node = ring.node
        self._clock = clock
        self._settings = settings
        self._on_events = on_events
        _let_follow(collectors, ring)
        notices = WorkerCallbacks(on_rows=on_rows, on_state=self._publish_state, on_slowed=self._publish_slowed)
        self._workers = tuple(
            Worker(
                collector,
                ring.tables[collector.spec.name],
                clock=clock,
                settings=settings,
                counters=counters,
                notices=notices,
            )
            for collector in collectors
        )
        for worker in self._workers:
            if isinstance(worker.collector, AlertingCollector):
                worker.collector.alert(worker.row_at_once)
            if isinstance(worker.collector, RowAddingCollector) and worker.name not in settings.own:
                worker.collector.add_rows_by(worker.add_row)
        self._pumps = tuple(
            EventPump(source, clock=clock, settings=settings, on_events=on_events, on_state=self._publish_state)
            for source in event_sources
        )
        self._parts: tuple[Worker | EventPump, ...] = (*self._workers, *self._pumps)
        self._stopping = threading.Event()
        self._watchdog = threading.Thread(target=self._watch, name="watchdog", daemon=True)
        self._bad, self._unwatched = set[str](), set[int]()
        self._started_s = clock.monotonic_s()
        counters.oldest_age_s = self._oldest_age_s
        counters.pacing = self.pacing
        refusing = [one for one in collectors if isinstance(one, RefusingCollector)]
        counters.reads_refused = lambda: sum(one.refused for one in refusing)
        buffered = [one for one in collectors if isinstance(one, BufferedCollector)]
        counters.sample_overruns = (lambda: sum(one.overruns for one in buffered)) if buffered else None

    def start(self) -> None:
        """Start every collector: the fast ones at one moment, slow ones one by one between two fast ticks."""
        start_s = self._started_s = self._clock.monotonic_s()
        between_s = self._settings.fast.period_s / 2
        for number, worker in enumerate(self._workers):
            offset_s = 0.0 if worker.collector.rate is RateClass.FAST else between_s + number * _STAGGER_S
            worker.start(start_s + offset_s)
        for pump in self._pumps:
            pump.start()
        self._watchdog.start()

    def stop(self, timeout_s: float = 2.0) -> None:
        """End every thread and close every collector; what hangs is left behind after the time-out."""
        self._stopping.set()
        end_s = self._clock.monotonic_s() + timeout_s
        for part in self._parts:
            part.request_stop()
        for part in self._parts:
            part.stop(max(0.1, end_s - self._clock.monotonic_s()))
        if self._watchdog.is_alive():
            self._watchdog.join(max(0.1, end_s - self._clock.monotonic_s()))

    def statuses(self) -> tuple[WorkerStatus, ...]:
        """Return how every collector and event source does now."""
        return tuple(part.status() for part in self._parts)

    def burst(self, seconds: float) -> None:
        """Read everything that is paced as fast as is allowed for so long: something is suspicious, or a job starts."""
        until_s = self._clock.monotonic_s() + seconds
        for worker in self._workers:
            if worker.pacer is not None:
                worker.pacer.burst_until_s = max(worker.pacer.burst_until_s, until_s)

    def pacing(self) -> PaceReport | None:
        """Return how the first paced collector, the GPUs' fast group, is read; None where all rates are fixed."""
        return next((worker.pacer.report() for worker in self._workers if worker.pacer is not None), None)

    def _watch(self) -> None:
        while not self._stopping.wait(self._settings.watch_every_s):
            for number, part in enumerate(self._parts):
                self._watch_one(number, part)

    def _watch_one(self, number: int, part: Worker | EventPump) -> None:
        try:
            part.watch()
        except Exception:  # the supervisor of collectors has none above it: whatever it is, it goes on
            if number not in self._unwatched:
                self._unwatched.add(number)
                logger.exception("watchdog failed on %s", part.status().name)

    def _oldest_age_s(self) -> float:
        """Return the longest time without a good read; of what was never read, since the start."""
        waited_s = self._clock.monotonic_s() - self._started_s
        ages_s = (worker.status().age_s for worker in self._workers)
        return max((waited_s if age is None else age for age in ages_s), default=float("nan"))

    def _publish_state(self, status: WorkerStatus) -> None:
        """Publish a collector's change of state, except that it works for the first time."""
        if status.state is WorkerState.WORKING and status.name not in self._bad:
            return
        if status.state is WorkerState.WORKING:
            self._bad.discard(status.name)
            severity, summary = Severity.INFO, "works again"
        else:
            self._bad.add(status.name)
            severity, summary = Severity.WARNING, f"is {status.state}: {status.detail}"
        self._publish(status.name, status.state, severity, summary)

    def _publish_slowed(self, name: str, over: str) -> None:
        """Publish that a collector is read less often because of its cost, or that this ended."""
        if over:
            summary = f"is over budget and read less often: {over}"
            self._publish(name, "slowed", Severity.WARNING, summary)
        else:
            self._publish(name, "in-budget", Severity.INFO, "is within its budget again")

    def _publish(self, name: str, state: str, severity: Severity, summary: str) -> None:
        time_ns = self._clock.utc_ns()
        event = Event(
            id=f"collector:{name}:{state}:{time_ns}",
            time_ns=time_ns,
            kind=EventKind.COLLECTOR,
            entity_id=f"node:{self._node}",
            code=None,
            severity=severity,
            message=f"Collector {name} {summary}",
            sources=("agent",),
        )
        logger.log(logging.INFO if severity is Severity.INFO else logging.WARNING, "%s", event.message)
        self._on_events((event,))
