"""The sampling process: collectors, ring and edge guard. It needs no store, no page and no network."""

import contextlib
import logging
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event as Flag
from threading import Lock, Thread
from typing import TYPE_CHECKING

from agent.collectors.events.driver_messages import DriverEvents, DriverLineParser
from agent.collectors.events.factories import boot_id, kernel_log_status
from agent.collectors.events.kernel_log import (
    KernelLog,
    KernelLogPosition,
    LinesSince,
    ResumingKernelLog,
    StartPosition,
)
from agent.collectors.gpu.roster import GpuRoster
from agent.collectors.hwmon.pins import GPU_PINS
from agent.collectors.port import Collector, EventSource, SourceState, SourceStatus
from agent.collectors.registry.background import SourceBuilder
from agent.collectors.registry.settings import FastSettings
from agent.collectors.registry.sources import FAST_COLLECTORS, build_event_sources
from agent.ring.ring import Ring
from agent.sampler.counters import SamplerCounters
from agent.sampler.sampler import EVENT_BURST_S, Sampler, tune_process
from agent.scheduling import freeze_loaded_objects
from analytics.catalogue import xid
from config.sources import SourceUse
from railwatch.processes.child import Ready, leave, run_child
from railwatch.run_context import DriverKind, RunContext
from railwatch.wiring.driver_watch import DRIVER_BACK, DRIVER_HUNG, DriverWatch
from railwatch.wiring.gpu_driver import OpenDriver
from railwatch.wiring.reenumeration import Reenumeration
from railwatch.wiring.samplers import (
    LOOK_AGAIN_S,
    STATUS_EVERY_S,
    STOP_HUNG_S,
    StatusFiles,
    chosen,
    event_settings,
    make_run_ring,
    rail_sweeping,
    sampler_settings,
)
from telemetry.clock import Clock, SystemClock
from telemetry.entities import EntityKind
from telemetry.records import Event, Severity

if TYPE_CHECKING:
    from railwatch.wiring.guard import GuardThread

logger = logging.getLogger(__name__)

GPUS_FILE = "gpus.json"
GUARD_ENDED = 4
# GPUs were added, or their driver was loaded again: the next process counts them.
GPUS_CHANGED = 5
# A source appeared that has no table: the next process creates the tables again.
SOURCES_CHANGED = 6
# Heuristic: what is read at a start from files, buses and an open driver takes milliseconds; a bus that is stuck must
# not delay the others. The process that starts for a source that answered late waits the longer time, or it would be
# late again.
BUILD_LIMIT_S, LATE_BUILD_LIMIT_S = 5.0, 20.0
_LATE_FILE = "built-late"
_PLACE_FILE = "kernel-log.json"
# heuristic: the guard is loaded within seconds; more events by then are a storm, of which the first ones count most.
MAX_WAITING_EVENTS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sources:
    """Sources of this process; `statuses` also has those that are missing."""

    driver: OpenDriver
    counters: SamplerCounters
    builder: SourceBuilder[FastSettings]
    collectors: list[Collector]
    events: tuple[EventSource, ...]
    statuses: tuple[SourceStatus, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reasons:
    """Reasons for which this process exits so that another one starts."""

    guard_thread: "GuardThread"
    reenumeration: Reenumeration
    watch: DriverWatch
    run_dir: Path
    answered: Flag = field(default_factory=Flag)
    changed: Flag = field(default_factory=Flag)

    def start(self, builder: SourceBuilder[FastSettings], stop: Flag) -> None:
        """Probe a driver that is away, and retry the sources that failed, in threads of their own."""
        Thread(target=self.watch.probe_until_back, args=(self.answered,), name="probe-driver", daemon=True).start()
        Thread(target=_look_again, args=(builder, self.changed, stop), name="look-again", daemon=True).start()

    def status(self, dead: str) -> int:
        """Return the exit status, 0 where there is no reason to exit; `dead` is why the driver counts as dead."""
        if self.guard_thread.is_silent:
            logger.error("guard has stopped; exiting for a restart")
            return GUARD_ENDED
        if self.reenumeration.is_due:
            logger.warning("%s; exiting so that the next process counts the GPUs", self.reenumeration.reason)
            self.reenumeration.leave_mark()
            return GPUS_CHANGED
        if dead:
            logger.error("%s; exiting so that the next process runs without the driver", dead)
            self.watch.mark_away(dead)
            return DRIVER_HUNG
        if self.answered.is_set():
            logger.warning("GPU driver responds again; exiting so that the next process reads it")
            return DRIVER_BACK
        if self.changed.is_set():
            logger.warning("a source that was missing responds; exiting so that the next process reads it")
            with contextlib.suppress(OSError):  # then it may be late once more
                (self.run_dir / _LATE_FILE).touch()
            return SOURCES_CHANGED
        return 0


class _GuardLink:
    """Passes rows and events on to the guard, which is loaded while the first samples are taken; events wait for it.

    Attributes
    ----------
    events_dropped
        Events beyond `MAX_WAITING_EVENTS` before the guard was connected.
    """

    def __init__(self, reenumeration: Reenumeration) -> None:
        self.reenumeration = reenumeration
        self._lock = Lock()
        self._guard_thread: GuardThread | None = None
        self._waiting: list[Event] = []
        self.events_dropped = 0

    def connect(self, guard_thread: "GuardThread") -> None:
        """Pass on the events so far, and from now on everything at once."""
        with self._lock:
            self._guard_thread = guard_thread
            for event in self._waiting:
                guard_thread.guard.add_event(event)
            self._waiting.clear()
        if self.events_dropped:
            logger.warning("dropped %d events before the guard was ready", self.events_dropped)

    def note_row(self, table: str) -> None:
        """Pass on that a table has a new row."""
        if self._guard_thread is not None:
            self._guard_thread.waking.note(table)

    def note_events(self, events: tuple[Event, ...]) -> None:
        """Pass on events."""
        self.reenumeration.note(events)
        with self._lock:
            if self._guard_thread is None:
                room = MAX_WAITING_EVENTS - len(self._waiting)
                self._waiting += events[:room]
                self.events_dropped += len(events[room:])
            else:
                for event in events:
                    self._guard_thread.guard.add_event(event)


def main(context: RunContext, stop: Flag, ready: Ready) -> None:
    """Sample and guard until the stop is requested."""
    clock = SystemClock()
    watch = DriverWatch(context, clock)
    sources = _open_sources(context, watch, clock)
    settings = sampler_settings(context.config)
    ring = make_run_ring(context, context.ring_path, sources.collectors, settings)
    link = _GuardLink(Reenumeration(clock, context.run_dir))
    sampler = Sampler(
        ring,
        sources.collectors,
        clock=clock,
        settings=settings,
        counters=sources.counters,
        on_rows=link.note_row,
        on_events=link.note_events,
        event_sources=sources.events,
    )
    tune_process()
    first_rows = {name: table.count for name, table in ring.tables.items()}
    sampler.start()
    try:
        guard_thread = _load_guard()(
            context,
            ring,
            settings,
            supported_mhz=watch.supported_mhz(sources.driver),
            ranges=watch.ranges(sources.driver),
            clock=clock,
            on_suspicion=lambda: sampler.burst(EVENT_BURST_S),
            first_rows=first_rows,
        )
    except BaseException:
        sampler.stop(STOP_HUNG_S)
        raise
    guard_thread.register_counters(sources.counters)
    link.connect(guard_thread)
    freeze_loaded_objects()
    guard_thread.start(stop)
    ready({"gpus": len(sources.driver.gpus), "tables": list(ring.tables)})
    reasons = _Reasons(
        guard_thread=guard_thread, reenumeration=link.reenumeration, watch=watch, run_dir=context.run_dir
    )
    status = _watch(sampler, sources, reasons, stop)
    _end(sampler, guard_thread, ring, stop, status)


def _load_guard() -> "type[GuardThread]":
    """Load rules and detectors, which takes longer than everything before the first sample."""
    from railwatch.wiring.guard import GuardThread  # noqa: PLC0415 -- see above

    return GuardThread


def _watch(sampler: Sampler, sources: _Sources, reasons: _Reasons, stop: Flag) -> int:
    """Publish the status of the sources until the stop is requested; return why to exit before, as a status."""
    files, status = StatusFiles(reasons.run_dir, "sampler"), 0
    files.write_sources(sources.statuses)
    reasons.start(sources.builder, stop)
    while not status and not stop.wait(STATUS_EVERY_S):
        files.write_workers(sampler.statuses())
        reasons.reenumeration.look()
        dead = reasons.watch.check_hung(sources.collectors, sampler.statuses())
        status = 0 if stop.is_set() else reasons.status(dead)
    return status


def _end(sampler: Sampler, guard_thread: "GuardThread", ring: Ring, stop: Flag, status: int) -> None:
    """Stop everything; with a `status` leave at once, since a thread may be stuck in the driver."""
    if status:
        sampler.stop(STOP_HUNG_S)
        stop.wait(guard_thread.last_step_s)  # the guard judges the last rows and events
        stop.set()
    guard_thread.join()
    if not status:
        sampler.stop()
    if status != GUARD_ENDED:  # else its thread may hold what a close waits for
        guard_thread.close()
    ring.close()
    if status:
        leave(status)


def _open_sources(context: RunContext, watch: DriverWatch, clock: Clock) -> _Sources:
    driver, counters = watch.open(), SamplerCounters()
    builder = _builder(context, driver, counters, clock)
    if driver.nvml is not None:
        counters.driver_s = driver.nvml.costs.total_s
    collectors, statuses = _collectors(context, builder)
    events, log_statuses = _event_sources(context, driver, counters, clock)
    return _Sources(
        driver=driver,
        counters=counters,
        builder=builder,
        collectors=watch.keep_tables(collectors),
        events=(*events, *watch.event_sources()),
        statuses=(*statuses, *log_statuses),
    )


def _look_again(builder: SourceBuilder[FastSettings], changed: Flag, stop: Flag) -> None:
    """Retry failed sources every minute; one that appears needs tables, which are created at a start."""
    while not stop.wait(LOOK_AGAIN_S):
        if builder.retry(BUILD_LIMIT_S, max_s=LATE_BUILD_LIMIT_S):
            changed.set()
            return


def _builder(
    context: RunContext, driver: OpenDriver, counters: SamplerCounters, clock: Clock
) -> SourceBuilder[FastSettings]:
    settings = FastSettings(
        node=context.node.key,
        clock=clock,
        counters=counters,
        reader=driver.reader,
        links=driver.links,
        pipes=driver.pipes,
        samples=None if driver.nvml is None else driver.nvml.samples,
        why_no_reader=context.source if context.driver is DriverKind.NONE else driver.why,
        sysfs_root=Path(context.sysfs),
        sweeping=rail_sweeping(context.config, clock),
        proc_root=Path(context.proc),
        wireview_gpu=context.config.sources.wireview_gpu,
    )
    return SourceBuilder(FAST_COLLECTORS, settings, clock)


def _collectors(
    context: RunContext, builder: SourceBuilder[FastSettings]
) -> tuple[list[Collector], tuple[SourceStatus, ...]]:
    sources = context.config.sources
    wanted = {EntityKind.SUPPLY: sources.hwmon, EntityKind.NODE: sources.host}
    own = {"gpu_bus": sources.pci, GPU_PINS: sources.hwmon}

    def off(collector: Collector) -> bool:
        use = own.get(collector.name, wanted.get(collector.spec.kind))
        return use is SourceUse.OFF

    late = context.run_dir / _LATE_FILE
    limit_s = LATE_BUILD_LIMIT_S if late.exists() else BUILD_LIMIT_S
    late.unlink(missing_ok=True)
    return chosen(builder.build(limit_s), context, off=off)


def _event_sources(
    context: RunContext, driver: OpenDriver, counters: SamplerCounters, clock: Clock
) -> tuple[tuple[EventSource, ...], tuple[SourceStatus, ...]]:
    config = context.config
    found: list[EventSource] = []
    if driver.events is not None:
        found.append(DriverEvents(driver.events, driver.gpus, clock=clock, severity_of=_severity_of))
    if not context.simulated and config.sources.nvml is SourceUse.AUTO:
        found.append(
            GpuRoster(
                config.data_dir / GPUS_FILE,
                uuids=[gpu.uuid for gpu in driver.gpus],
                lost_at_open=() if driver.nvml is None else driver.nvml.library.lost_at_open,
                node=context.node.key,
                clock=clock,
            )
        )
    path = Path(context.kmsg)
    log_status = kernel_log_status(path)
    if config.sources.kernel_log is SourceUse.AUTO and log_status.state is SourceState.WORKING:
        lines, placed = _kernel_log(context, path, driver, clock)
        counters.kernel_lines_unparsed = lambda: lines.unparsed
        found.append(placed)
    built = build_event_sources(event_settings(context, driver.gpus, clock))
    found += [part.source for part in built if part.source is not None]
    return tuple(found), (log_status, *(part.status for part in built))


def _kernel_log(
    context: RunContext, path: Path, driver: OpenDriver, clock: Clock
) -> tuple[KernelLog, ResumingKernelLog]:
    """Return the kernel log from the position of the process before, or from the start of the run."""
    name = f"kmsg:{boot_id()}"
    place = KernelLogPosition(context.run_dir / _PLACE_FILE, log=name)
    after = place.read()
    # The device keeps what was logged since the boot. A file may be of any age, and its stamps of any machine.
    whole = context.simulated or path.is_char_device() or after is not None
    parser = LinesSince(DriverLineParser(driver.gpus, log=name), context.started_ns)
    log = KernelLog(
        path,
        node=context.node.key,
        parser=parser,
        clock=clock,
        start=StartPosition.BEGINNING if whole else StartPosition.END,
        after=after,
    )
    return log, ResumingKernelLog(log, place)


def _severity_of(code: int) -> Severity:
    entry = xid(code)
    return Severity.WARNING if entry is None else entry.severity


if __name__ == "__main__":
    run_child(main)
