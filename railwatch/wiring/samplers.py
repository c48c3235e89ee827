"""Shared wiring of the sampling processes: choice of sources, their pace, and status files."""

import json
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from agent.collectors.hwmon.pins import GPU_PINS, PINS_HZ, PINS_STALE_S
from agent.collectors.hwmon.rails import SweepOptions
from agent.collectors.port import BuiltCollector, Collector, SourceState, SourceStatus
from agent.collectors.rails.pace import DEFAULT_MAX_HZ, MAX_HZ
from agent.collectors.rails.sweep import SweepSettings
from agent.collectors.registry.settings import EventSettings
from agent.ring.ring import Ring
from agent.sampler.pacing.budget import BudgetSettings
from agent.sampler.pacing.pacer import PacerSettings
from agent.sampler.sampler import make_ring
from agent.sampler.settings import Pace, SamplerSettings
from agent.sampler.watched_thread import WorkerState, WorkerStatus
from config.models import Config
from config.sources import SourceUse
from config.topology_match import mismatches
from physics.feeding import described_supplies, feeding_of, misfits
from physics.wiring import Wiring
from railwatch.run_context import RunContext
from telemetry.atomic_files import replace_file
from telemetry.clock import Clock
from telemetry.entities import EntityKind
from telemetry.frames import TableSpec
from telemetry.gpu import GpuIdentity
from telemetry.json_text import json_bytes
from telemetry.topology import topology_of

logger = logging.getLogger(__name__)

STATUS_EVERY_S = 1.0
# Rows a second of fast sources that are not read in step with anything, such as voltage rails, whose extremes between
# two rows are in the row. heuristic: as often as the power of a GPU with the fastest sensor, 20 ms, updates.
AUTO_FIXED_HZ = 50.0
# heuristic: by then three threads are stuck in it, with a growing pause before each.
DEADLINES = 10
# Heuristic: what was switched on late is read a minute later; what stays away costs one look a minute.
LOOK_AGAIN_S = 60.0
# Heuristic: nothing is lost by leaving a stuck thread behind, and every source waits for the next process meanwhile.
STOP_HUNG_S = 0.5
# A process's sources and how its collectors do, for the page; one pair of files for each process.
_SOURCES, _WORKERS = "sources", "workers"


def chosen(
    built: Iterable[BuiltCollector], context: RunContext, *, off: Callable[[Collector], bool]
) -> tuple[list[Collector], tuple[SourceStatus, ...]]:
    """Return the collectors that this run reads, and the state of every source.

    Their entities are tagged as configured; those of simulated nodes are marked.
    """
    wiring = context.config.topology.wiring()
    collectors: list[Collector] = []
    statuses: list[SourceStatus] = []
    for part in built:
        if part.source is not None and off(part.source):
            statuses.append(
                SourceStatus(name=part.status.name, state=SourceState.MISSING, detail="switched off by configuration")
            )
            continue
        statuses.append(part.status)
        for warning in part.status.warnings:
            logger.warning("%s", warning)
        if part.source is not None:
            if context.simulated:
                part.source.spec = _marked(part.source.spec, context.supply_names)
            if wiring is not None and part.source.spec.kind is EntityKind.SUPPLY:
                part.source.spec = _described(part.source.spec, wiring)
            collectors.append(part.source)
    return collectors, tuple(statuses)


def sampler_settings(config: Config) -> SamplerSettings:
    """Return the paces of a run."""
    sampling = config.sampling
    fast_hz = AUTO_FIXED_HZ if sampling.fast_hz is None else sampling.fast_hz
    fast_s, slow_s = 1.0 / fast_hz, 1.0 / sampling.slow_hz
    paced = PacerSettings(budget=BudgetSettings(cpu_ratio=sampling.cpu_budget, driver_ratio=sampling.driver_budget))
    return SamplerSettings(
        paced=paced if sampling.fast_hz is None else None,
        fast=Pace(rate_hz=fast_hz, stale_after_s=max(1.0, 5 * fast_s), hung_after_s=max(sampling.deadline, fast_s)),
        slow=Pace(
            rate_hz=sampling.slow_hz, stale_after_s=max(5.0, 3 * slow_s), hung_after_s=max(5.0, sampling.deadline)
        ),
        own={GPU_PINS: Pace(rate_hz=PINS_HZ, stale_after_s=PINS_STALE_S, hung_after_s=max(5.0, sampling.deadline))},
        rare=Pace(rate_hz=1.0 / sampling.rare, stale_after_s=3 * sampling.rare, hung_after_s=max(30.0, sampling.rare)),
    )


def rail_sweeping(config: Config, clock: Clock) -> SweepOptions:
    """Return how voltage rails are read between two rows."""
    hz = config.sources.hwmon_hz
    max_hz = DEFAULT_MAX_HZ if hz is None else MAX_HZ
    low_v = config.detectors.rail_sag.at_once_below_v
    rows_hz = AUTO_FIXED_HZ if config.sampling.fast_hz is None else config.sampling.fast_hz
    return SweepOptions(settings=SweepSettings(hz=hz, max_hz=max_hz, low_v=low_v, rows_hz=rows_hz), clock=clock)


def make_run_ring(context: RunContext, path: Path, collectors: list[Collector], settings: SamplerSettings) -> Ring:
    """Create the ring of a sampling process."""
    sampling = context.config.sampling
    wiring = context.config.topology.wiring()
    topology = topology_of(context.node, [collector.spec for collector in collectors], partial(feeding_of, wiring))
    if wiring is not None and path == context.ring_path:
        for problem in mismatches(wiring, topology, gpu_count=context.config.topology.gpu_count):
            if problem.path[-1] != "nominal_v":  # logged where the supply was tagged
                logger.warning("described wiring does not fit this node: topology.%s", problem)
    return make_ring(
        path,
        collectors,
        settings,
        node=context.node.key,
        topology=topology,
        simulated=context.simulated,
        seconds=sampling.ring,
        max_bytes=sampling.ring_max,
    )


class HungWatch:
    """Detects a collector that has hung for so long that only a restart helps: its threads are all stuck."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since_s: dict[str, float] = {}

    def check_hung(self, statuses: Iterable[WorkerStatus], limits_s: Mapping[str, float]) -> str:
        """Return which collector has hung for longer than its limit, an empty text where none has.

        A collector without a limit may hang for ever.
        """
        now_s = self._clock.monotonic_s()
        hung = {status.name for status in statuses if status.state is WorkerState.HUNG} & limits_s.keys()
        self._since_s = {name: self._since_s.get(name, now_s) for name in hung}
        for name, since_s in self._since_s.items():
            if now_s - since_s >= limits_s[name]:
                return f"{name} has hung for {now_s - since_s:.0f} s"
        return ""


def hung_limits_s(collectors: Iterable[Collector], settings: SamplerSettings) -> dict[str, float]:
    """Return by name for how long each collector may hang before its process is restarted."""
    return {one.name: DEADLINES * settings.pace_of(one.name, one.rate).hung_after_s for one in collectors}


class StatusFiles:
    """Status files of a sampling process; `process` is its name."""

    def __init__(self, run_dir: Path, process: str) -> None:
        self._sources = run_dir / f"{_SOURCES}-{process}.json"
        self._workers = run_dir / f"{_WORKERS}-{process}.json"

    def write_sources(self, statuses: Iterable[SourceStatus]) -> None:
        """Write the state of the sources."""
        _write(
            self._sources,
            [
                {"name": one.name, "state": one.state.value, "detail": one.detail, "how_to_get": one.how_to_get}
                for one in statuses
            ],
        )

    def write_workers(self, statuses: Iterable[WorkerStatus]) -> None:
        """Write the status of the collectors."""
        names = ("name", "state", "detail", "errors", "hangs", "age_s", "pace")
        _write(self._workers, [{name: getattr(status, name) for name in names} for status in statuses])


def read_statuses(run_dir: Path) -> tuple[list[dict[str, Any]], dict[str, dict[str, Any]]]:
    """Return the sources of all processes of a run, and the status of their collectors by name."""
    sources = [row for path in sorted(run_dir.glob(f"{_SOURCES}-*.json")) for row in _read(path)]
    workers = [row for path in sorted(run_dir.glob(f"{_WORKERS}-*.json")) for row in _read(path)]
    return sources, {row["name"]: row for row in workers}


def _marked(spec: TableSpec, supply_names: Mapping[str, str]) -> TableSpec:
    """Tag every entity as simulated, so that no store and no recording can take it for a real one.

    Supplies have the names of the node's own description, as in a recording of it.
    """
    tag = ("simulated", "true")
    marked = (replace(entity, tags=(*entity.tags, tag)) for entity in spec.entities)
    if spec.kind is EntityKind.SUPPLY:
        marked = (replace(entity, name=supply_names.get(entity.key, entity.name)) for entity in marked)
    return replace(spec, entities=tuple(marked))


def _described(spec: TableSpec, wiring: Wiring) -> TableSpec:
    """Return the table with the described names and tags; what does not fit the node is logged."""
    described = described_supplies(spec.entities, wiring)
    for text in misfits(spec.entities, described):
        logger.warning("described wiring does not fit this node: %s", text)
    return replace(spec, entities=described)


def _read(path: Path) -> list[dict[str, Any]]:
    try:
        rows: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return []
    return rows


def _write(path: Path, rows: list[dict[str, Any]]) -> None:
    try:
        replace_file(path, json_bytes(rows), synced=False)
    except OSError as err:
        logger.warning("cannot write %s: %s; the page shows old states", path, err.strerror)


def event_settings(context: RunContext, gpus: tuple[GpuIdentity, ...], clock: Clock) -> EventSettings:
    """Return the settings of the event sources; of a simulated node only those of its own sysfs."""
    sources, real = context.config.sources, not context.simulated

    def of(use: SourceUse, path: Path, *, here: bool = real) -> Path | None:
        return path if here and use is SourceUse.AUTO else None

    return EventSettings(
        node=context.node.key,
        clock=clock,
        gpus=gpus,
        sysfs_root=of(sources.pci, Path(context.sysfs), here=True),
        tracefs_root=of(sources.tracepoints, sources.tracefs),
        fabric_log=of(sources.fabric_manager, sources.fabric_log),
        uevents=real and sources.uevents is SourceUse.AUTO,
        why_off="switched off by configuration" if real else "a simulated node has none",
    )
