"""Which sources that take their time this node gets, and what is missing for the others.

They run in a process of their own, so that none of them delays a fast one, however long it takes to answer.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from agent.collectors.bmc import sources as bmc
from agent.collectors.build.background import SourceBuilder
from agent.collectors.build.fast import Built
from agent.collectors.gpu.sources import GpuSources, gpu_process_events, gpu_process_source, gpu_rare_source
from agent.collectors.hwmon.slow import (
    FANS,
    SUPPLIES,
    TEMPERATURES,
    board_fans,
    board_supplies,
    board_temperatures,
)
from agent.collectors.meters.build import pdu_source, ups_events, ups_source
from agent.collectors.meters.settings import PduSettings, UpsdSettings
from agent.collectors.port import Collector, EventSource, SourceState, SourceStatus
from agent.collectors.readings.source import Readings, ReadingsSettings
from telemetry.clock import Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowSettings:
    """Where the node's slow sources are."""

    node: str
    clock: Clock
    sysfs_root: Path = Path("/sys")
    pdus: tuple[PduSettings, ...] = ()
    upsds: tuple[UpsdSettings, ...] = ()
    gpus: GpuSources = field(default_factory=GpuSources)
    board: bmc.BoardSource | None = None
    hwmon: bool = True
    readings: ReadingsSettings | None = None


def _board(settings: SlowSettings, name: str, find: Callable[[], Collector | None], *, lacks: str, how: str) -> Built:
    """Return a source of the board's own sensors under hwmon; `lacks` and `how` are told where there are none."""
    if not settings.hwmon:
        status = SourceStatus(name=name, state=SourceState.MISSING, detail="switched off by configuration")
        return Built(collector=None, status=status)
    collector = find()
    if collector is None:
        detail = f"{lacks} under {settings.sysfs_root}/class/hwmon"
        status = SourceStatus(name=name, state=SourceState.MISSING, detail=detail, how_to_get=how)
    else:
        found = ", ".join(entity.key for entity in collector.spec.entities)
        status = SourceStatus(name=name, state=SourceState.WORKING, detail=found)
    return Built(collector=collector, status=status)


def _board_supplies(settings: SlowSettings) -> Built:
    return _board(
        settings,
        SUPPLIES,
        lambda: board_supplies(settings.sysfs_root),
        lacks="no power supply answers over PMBus",
        how="load the driver of the supply's PMBus interface (pmbus, crps, ibm-cffps)",
    )


def _board_fans(settings: SlowSettings) -> Built:
    return _board(
        settings,
        FANS,
        lambda: board_fans(settings.sysfs_root),
        lacks="no fan",
        how="load the driver of the board's fan controller (sensors-detect names it), or read the board controller",
    )


def _board_temperatures(settings: SlowSettings) -> Built:
    return _board(
        settings,
        TEMPERATURES,
        lambda: board_temperatures(settings.sysfs_root, settings.node),
        lacks="no temperature of processors, memory or board",
        how="load coretemp or k10temp, and the driver of the board's monitor (sensors-detect names it)",
    )


def _gpu_rare(settings: SlowSettings) -> Built:
    return gpu_rare_source(settings.gpus)


def _gpu_processes(settings: SlowSettings) -> Built:
    return gpu_process_source(settings.gpus)


def _gpu_process_events(settings: SlowSettings) -> EventSource | None:
    return gpu_process_events(settings.gpus)


def _pdu(settings: SlowSettings) -> Built:
    return pdu_source(settings.pdus)


def _ups(settings: SlowSettings) -> Built:
    return ups_source(settings.upsds)


def _ups_events(settings: SlowSettings) -> EventSource | None:
    return ups_events(settings.upsds, settings.clock)


def _bmc(settings: SlowSettings) -> Built:
    return bmc.node_source(settings.board)


def _bmc_supplies(settings: SlowSettings) -> Built:
    return bmc.supply_source(settings.board)


def _bmc_fans(settings: SlowSettings) -> Built:
    return bmc.fan_source(settings.board)


def _bmc_log(settings: SlowSettings) -> EventSource | None:
    return bmc.log_source(settings.board)


def _readings(settings: SlowSettings) -> EventSource | None:
    wanted = settings.readings
    return None if wanted is None else Readings(wanted, node=settings.node, clock=settings.clock)


SlowFactory = Callable[[SlowSettings], Built]
EventFactory = Callable[[SlowSettings], EventSource | None]

# Every slow source there is.
SLOW_FACTORIES: tuple[SlowFactory, ...] = (
    _board_supplies,
    _board_fans,
    _board_temperatures,
    _bmc,
    _bmc_supplies,
    _bmc_fans,
    _pdu,
    _ups,
    _gpu_rare,
    _gpu_processes,
)
SLOW_EVENT_FACTORIES: tuple[EventFactory, ...] = (_readings, _bmc_log, _ups_events, _gpu_process_events)


# Heuristic: what a walk of a slow PDU or a board controller's list of sensors takes, and some.
BUILD_LIMIT_S = 20.0


def build_slow_collectors(settings: SlowSettings) -> tuple[Built, ...]:
    """Return every slow source with its collector or the reason why it has none; takes 20 s at most."""
    return slow_builder(settings).build(BUILD_LIMIT_S)


def slow_builder(settings: SlowSettings) -> SourceBuilder[SlowSettings]:
    """Return what builds the slow sources, and later again those that failed."""
    return SourceBuilder(SLOW_FACTORIES, settings, settings.clock)


def build_slow_event_sources(settings: SlowSettings) -> tuple[EventSource, ...]:
    """Return the slow sources of events that this node has."""
    found = (factory(settings) for factory in SLOW_EVENT_FACTORIES)
    return tuple(source for source in found if source is not None)
