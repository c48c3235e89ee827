"""The sampling process: collectors, ring and edge guard. It needs no store, no page and no network."""

import json
import logging
import sys
from pathlib import Path
from threading import Event as Flag
from threading import Thread

from agent.accounts import Accounts
from agent.actuation.client import ActuatorClient
from agent.collectors.build import CollectorSettings, build_collectors, kernel_log_status
from agent.collectors.driver_events import DriverEvents
from agent.collectors.driver_lines import DriverLines
from agent.collectors.gpu_roster import GpuRoster
from agent.collectors.kernel_log import KernelLog
from agent.collectors.port import Collector, EventSource, SourceState, SourceStatus
from agent.guard.guard import Guard
from agent.guard.pipeline import Pipeline
from agent.ring import Ring
from agent.sampler.sampler import Sampler, make_ring, settle_process
from analytics.catalogue import xid
from railwatch.config.models import Config
from railwatch.config.sources import SourceUse
from railwatch.driver import OpenDriver, open_driver
from railwatch.pipeline import pipeline_settings, topology_of
from railwatch.processes.child import Ready, run_child
from railwatch.sampling import STATUS_EVERY_S, StatusFiles, chosen, sampler_settings
from railwatch.session import DriverKind, Session
from telemetry.clock import Clock, SystemClock
from telemetry.entities import EntityKind
from telemetry.journal import JournalWriter
from telemetry.records import Event, Severity

logger = logging.getLogger(__name__)

CLOCKS_FILE = "clocks.json"
GPUS_FILE = "gpus.json"
# A guard that took no step for this long hangs; a step takes milliseconds, an order to the actuator at most a second.
GUARD_SILENT_S = 10.0
GUARD_ENDED = 4
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def main(session: Session, stop: Flag, ready: Ready) -> None:
    """Sample and guard until told to stop."""
    clock, config = SystemClock(), session.config
    driver = open_driver(session, clock)
    accounts = Accounts()
    if driver.nvml is not None:
        accounts.driver_s = driver.nvml.costs.total_s
    collectors, sources = _collectors(session, config, driver, accounts, clock)
    event_sources = _event_sources(session, config, driver, accounts, clock)
    sources += (kernel_log_status(Path(session.kmsg)),)
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
    )
    journal = JournalWriter(session.journal_dir / "guard.jsonl", simulated=session.simulated)
    actuator = ActuatorClient(session.actuator_socket)
    # A simulated node starts anew with each run, and its incidents with it.
    kept = (session.run_dir if session.simulated else config.data_dir) / "guard.json"
    supported_mhz = driver.supported_mhz()
    (session.run_dir / CLOCKS_FILE).write_text(json.dumps(supported_mhz), encoding="utf-8")
    pipeline = _pipeline(session, ring, supported_mhz)
    pulse = Pulse(clock)
    guard = Guard(
        ring.tables,
        pipeline,
        actuator,
        journal,
        pulse,
        snapshot_path=kept,
        actions_path=session.journal_dir / "actuator.jsonl",
        events_path=session.slow_events_path,
    )
    sampler = Sampler(
        ring,
        collectors,
        clock=clock,
        settings=settings,
        accounts=accounts,
        on_rows=lambda _: guard.wake(),
        on_events=lambda events: _tell(guard, events),
        event_sources=event_sources,
    )
    guarding = Thread(target=run_guard, args=(guard, stop, kept), name="guard", daemon=True)
    settle_process()
    sampler.start()
    guarding.start()
    ready({"gpus": len(driver.gpus), "tables": list(ring.tables)})
    files.tell_sources(sources)
    while not stop.wait(STATUS_EVERY_S):
        files.tell_workers(sampler.statuses())
        if not stop.is_set() and (not guarding.is_alive() or pulse.age_s > GUARD_SILENT_S):
            logger.error("the guard takes no step any more; this process ends to be started again")
            sampler.stop()
            sys.exit(GUARD_ENDED)
    guarding.join(2.0)
    sampler.stop()
    actuator.close()
    journal.close()
    ring.close()


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


def _tell(guard: Guard, events: tuple[Event, ...]) -> None:
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
            why_no_reader=session.source if session.driver is DriverKind.NONE else driver.why,
            sysfs_root=Path(session.sysfs),
        )
    )

    def off(collector: Collector) -> bool:
        is_bus = collector.name == "gpu_bus"
        use = config.sources.pci if is_bus else wanted.get(collector.spec.kind)
        return use is SourceUse.OFF

    return chosen(built, off=off, simulated=session.simulated)


def _event_sources(
    session: Session, config: Config, driver: OpenDriver, accounts: Accounts, clock: Clock
) -> tuple[EventSource, ...]:
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
    if config.sources.kernel_log is SourceUse.AUTO and kernel_log_status(path).state is SourceState.WORKING:
        log = f"kmsg:{BOOT_ID.read_text().strip()[:8]}" if BOOT_ID.exists() else "kmsg"
        lines = KernelLog(path, node=session.node.key, parser=DriverLines(driver.gpus, log=log), clock=clock)
        accounts.kernel_lines_unparsed = lambda: lines.unparsed
        found.append(lines)
    return tuple(found)


def _severity_of(code: int) -> Severity:
    entry = xid(code)
    return Severity.WARNING if entry is None else entry.severity


def _pipeline(session: Session, ring: Ring, supported_mhz: dict[str, tuple[float, ...]]) -> Pipeline:
    specs = [table.spec for table in ring.tables.values()]
    settings = pipeline_settings(session.config, simulated=session.simulated)
    pipeline = Pipeline(specs, ring.topology, settings, supported_mhz=supported_mhz)
    for name in pipeline.idle_detectors:
        logger.info("detector %s has nothing to judge: no source gives its signals", name)
    return pipeline


if __name__ == "__main__":
    run_child(main)
