"""The sampling process: collectors, ring and edge guard. It needs no store, no page and no network."""

import json
import logging
import sys
from collections.abc import Iterable
from pathlib import Path
from threading import Event as Flag
from threading import Thread

from agent.accounts import Accounts
from agent.actuation.client import ActuatorClient
from agent.collectors.build import CollectorSettings, build_collectors, kernel_log_status
from agent.collectors.build_events import boot_id, build_event_sources
from agent.collectors.driver_events import DriverEvents
from agent.collectors.driver_lines import DriverLines
from agent.collectors.gpu_roster import GpuRoster
from agent.collectors.kernel_log import KernelLog
from agent.collectors.port import Collector, EventSource, SourceState, SourceStatus
from agent.guard.guard import IDLE_WAKE_S, Guard
from agent.guard.pipeline import Pipeline
from agent.guard.step_log import StepLog
from agent.ring import Ring
from agent.ring_header import rows_for
from agent.sampler.sampler import Sampler, make_ring, settle_process
from agent.sampler.settings import SamplerSettings
from analytics.catalogue import xid
from railwatch.config.models import Config
from railwatch.config.sources import SourceUse
from railwatch.driver import OpenDriver
from railwatch.driver_watch import DriverWatch
from railwatch.event_sources import event_settings
from railwatch.pipeline import pipeline_settings, topology_of
from railwatch.processes.child import Ready, leave, run_child
from railwatch.reenumeration import Reenumeration
from railwatch.sampling import STATUS_EVERY_S, StatusFiles, chosen, rail_sweeping, sampler_settings
from railwatch.session import DriverKind, Session
from telemetry.clock import Clock, SystemClock
from telemetry.entities import EntityKind
from telemetry.journal import JournalWriter
from telemetry.records import Event, Severity

logger = logging.getLogger(__name__)

CLOCKS_FILE = "clocks.json"
GPUS_FILE = "gpus.json"
COUNTED_FILE = "counted-anew"
# A guard that took no step for this long hangs; a step takes milliseconds, an order to the actuator at most a second.
GUARD_SILENT_S = 10.0
GUARD_ENDED = 4
# Tables of the fast class wake the guard one by one, and most of their rows are taken in together. own choice.
STEPS_PER_TICK = 2
# GPUs came, or their driver was loaded anew: the next process counts them.
GPUS_CHANGED = 5
# The driver's calls hang for good, and they answer again: the next process does without it, and with it.
DRIVER_HUNG, DRIVER_BACK = 7, 8
# Own choice: nothing is lost by leaving a stuck thread behind, and every source waits for the next process meanwhile.
STOP_HUNG_S = 0.5


def main(session: Session, stop: Flag, ready: Ready) -> None:
    """Sample and guard until told to stop."""
    clock, config = SystemClock(), session.config
    watch = DriverWatch(session, clock)
    driver = watch.open()
    accounts = Accounts()
    if driver.nvml is not None:
        accounts.driver_s = driver.nvml.costs.total_s
    collectors, sources = _collectors(session, config, driver, accounts, clock)
    collectors = watch.keep_tables(collectors)
    event_sources, told = _event_sources(session, config, driver, accounts, clock)
    sources += told
    event_sources += watch.event_sources()
    settings = sampler_settings(config)
    files = StatusFiles(session.run_dir, "sampler")
    topology = topology_of(session.node, [collector.spec for collector in collectors])
    ring = make_ring(
        session.ring_path,
        collectors,
        settings,
        node=session.node.key,
        topology=topology,
        simulated=session.simulated,
        seconds=config.sampling.ring,
        max_bytes=config.sampling.ring_max,
    )
    journal = JournalWriter(session.journal_dir / "guard.jsonl", simulated=session.simulated)
    actuator = ActuatorClient(session.actuator_socket)
    # A simulated node starts anew with each run, and its incidents with it.
    kept = (session.run_dir if session.simulated else config.data_dir) / "guard.json"
    supported_mhz = watch.supported_mhz(driver)
    session.clocks_path.write_text(json.dumps(supported_mhz), encoding="utf-8")
    pipeline = _pipeline(session, ring, supported_mhz)
    pulse = Pulse(clock)
    guard = Guard(
        {name: table for name, table in ring.tables.items() if not table.spec.is_late},
        pipeline,
        actuator,
        journal,
        pulse,
        snapshot_path=kept,
        actions_path=session.journal_dir / "actuator.jsonl",
        events_path=session.slow_events_path,
        steps=_step_log(session, ring, settings),
    )
    reenumeration, answered = Reenumeration(clock, session.run_dir / COUNTED_FILE), Flag()
    sampler = Sampler(
        ring,
        collectors,
        clock=clock,
        settings=settings,
        accounts=accounts,
        on_rows=lambda _: guard.wake(),
        on_events=lambda events: _tell(guard, reenumeration, events),
        event_sources=event_sources,
    )
    guarding = Thread(target=run_guard, args=(guard, stop, kept), name="guard", daemon=True)
    settle_process()
    sampler.start()
    guarding.start()
    ready({"gpus": len(driver.gpus), "tables": list(ring.tables)})
    files.tell_sources(sources)
    Thread(target=watch.ask, args=(answered,), name="ask-driver", daemon=True).start()
    status = 0
    while not status and not stop.wait(STATUS_EVERY_S):
        files.tell_workers(sampler.statuses())
        if not stop.is_set() and (not guarding.is_alive() or pulse.age_s > GUARD_SILENT_S):
            logger.error("the guard takes no step any more; this process ends to be started again")
            sampler.stop()
            sys.exit(GUARD_ENDED)
        status = _reason_to_end(reenumeration, watch, answered, dead=watch.see(collectors, sampler.statuses()))
    if status:
        sampler.stop(STOP_HUNG_S)
        stop.wait(2 * IDLE_WAKE_S)  # the guard judges what is there and hears what was told
        stop.set()
    guarding.join(2.0)
    _end(sampler, (actuator, journal, ring), status)


def _end(sampler: Sampler, parts: Iterable[ActuatorClient | JournalWriter | Ring], status: int) -> None:
    if not status:
        sampler.stop()
    for part in parts:
        part.close()
    if status:
        leave(status)


def _reason_to_end(reenumeration: Reenumeration, watch: DriverWatch, answered: Flag, *, dead: str) -> int:
    """Give the status to end with so that another process starts, 0 where there is no reason to."""
    if reenumeration.is_due:
        logger.warning("%s; this process ends, and the next one counts the GPUs anew", reenumeration.reason)
        reenumeration.leave_mark()
        return GPUS_CHANGED
    if dead:
        logger.error("%s; this process ends, and the next one does without the driver", dead)
        watch.give_up(dead)
        return DRIVER_HUNG
    if answered.is_set():
        logger.warning("the GPU driver answers again; this process ends, and the next one reads it")
        return DRIVER_BACK
    return 0


class Pulse:
    """The clock as the guard sees it: each step begins with the time of day, so it knows when the last one began."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._asked_s = clock.monotonic_s()

    @property
    def age_s(self) -> float:
        """Seconds since the guard last asked for the time of day."""
        return self._clock.monotonic_s() - self._asked_s

    def monotonic_s(self) -> float:
        """Seconds since an arbitrary start."""
        return self._clock.monotonic_s()

    def utc_ns(self) -> int:
        """Nanoseconds since 1970-01-01 UTC."""
        self._asked_s = self._clock.monotonic_s()
        return self._clock.utc_ns()

    def sleep_until(self, monotonic_s: float) -> None:
        """Return at that monotonic time."""
        self._clock.sleep_until(monotonic_s)


def run_guard(guard: Guard, stop: Flag, kept: Path) -> None:
    """Guard until told to stop; a snapshot that it cannot go on from is put aside, so that the next start can."""
    try:
        guard.run(stop)
    except Exception:
        logger.exception("the guard cannot go on from %s; it is put aside", kept)
        if kept.exists():
            kept.replace(kept.with_suffix(".bad"))


def _tell(guard: Guard, reenumeration: Reenumeration, events: tuple[Event, ...]) -> None:
    reenumeration.note(events)
    for event in events:
        guard.tell(event)


def _collectors(
    session: Session, config: Config, driver: OpenDriver, accounts: Accounts, clock: Clock
) -> tuple[list[Collector], tuple[SourceStatus, ...]]:
    wanted = {EntityKind.SUPPLY: config.sources.hwmon, EntityKind.NODE: config.sources.host}
    built = build_collectors(
        CollectorSettings(
            node=session.node.key,
            clock=clock,
            accounts=accounts,
            reader=driver.reader,
            links=driver.links,
            pipes=driver.pipes,
            samples=None if driver.nvml is None else driver.nvml.samples,
            why_no_reader=session.source if session.driver is DriverKind.NONE else driver.why,
            sysfs_root=Path(session.sysfs),
            sweeping=rail_sweeping(config, clock),
            proc_root=Path(session.proc),
        )
    )

    def off(collector: Collector) -> bool:
        is_bus = collector.name == "gpu_bus"
        use = config.sources.pci if is_bus else wanted.get(collector.spec.kind)
        return use is SourceUse.OFF

    return chosen(built, off=off, simulated=session.simulated)


def _event_sources(
    session: Session, config: Config, driver: OpenDriver, accounts: Accounts, clock: Clock
) -> tuple[tuple[EventSource, ...], tuple[SourceStatus, ...]]:
    found: list[EventSource] = []
    if driver.events is not None:
        found.append(DriverEvents(driver.events, driver.gpus, clock=clock, severity_of=_severity_of))
    if not session.simulated and config.sources.nvml is SourceUse.AUTO:
        found.append(
            GpuRoster(
                config.data_dir / GPUS_FILE,
                uuids=[gpu.uuid for gpu in driver.gpus],
                lost_at_open=0 if driver.nvml is None else driver.nvml.library.lost_at_open,
                node=session.node.key,
                clock=clock,
            )
        )
    path = Path(session.kmsg)
    log_status = kernel_log_status(path)
    if config.sources.kernel_log is SourceUse.AUTO and log_status.state is SourceState.WORKING:
        parser = DriverLines(driver.gpus, log=f"kmsg:{boot_id()}")
        lines = KernelLog(path, node=session.node.key, parser=parser, clock=clock)
        accounts.kernel_lines_unparsed = lambda: lines.unparsed
        found.append(lines)
    built = build_event_sources(event_settings(session, driver.gpus, clock))
    found += [part.source for part in built if part.source is not None]
    return tuple(found), (log_status, *(part.status for part in built))


def _severity_of(code: int) -> Severity:
    entry = xid(code)
    return Severity.WARNING if entry is None else entry.severity


def _step_log(session: Session, ring: Ring, settings: SamplerSettings) -> StepLog | None:
    if session.config.recorder.use is SourceUse.OFF:
        return None
    names = [name for name, table in ring.tables.items() if not table.spec.is_late]
    rows = rows_for(session.config.sampling.ring, STEPS_PER_TICK * settings.fast.rate_hz)
    return StepLog(session.steps_ring_path, names, node=session.node, simulated=session.simulated, rows=rows)


def _pipeline(session: Session, ring: Ring, supported_mhz: dict[str, tuple[float, ...]]) -> Pipeline:
    specs = [table.spec for table in ring.tables.values() if not table.spec.is_late]
    settings = pipeline_settings(session.config, simulated=session.simulated)
    pipeline = Pipeline(specs, ring.topology, settings, supported_mhz=supported_mhz)
    for name in pipeline.idle_detectors:
        logger.info("detector %s has nothing to judge: no source gives its signals", name)
    return pipeline


if __name__ == "__main__":
    run_child(main)
