"""The lists of all collectors and event sources. A new one is added to one of the four tuples below.

A factory reads settings and returns the source, or why this node has none. Its function name is the name of the
source's thread, and of its status when it fails. Factories are in `factories.py` of each room.
"""

from collections.abc import Callable

from agent.collectors.bmc import factories as bmc
from agent.collectors.events import factories as events
from agent.collectors.gpu import factories as gpu
from agent.collectors.host import factories as host
from agent.collectors.hwmon import factories as hwmon
from agent.collectors.meters import factories as meters
from agent.collectors.port import BuiltCollector, BuiltEventSource, EventSource
from agent.collectors.readings import factories as readings
from agent.collectors.registry.background import SourceBuilder
from agent.collectors.registry.settings import EventSettings, FastSettings, SlowSettings

FastFactory = Callable[[FastSettings], BuiltCollector]
SlowFactory = Callable[[SlowSettings], BuiltCollector]
FastEventFactory = Callable[[EventSettings], BuiltEventSource]
SlowEventFactory = Callable[[SlowSettings], EventSource | None]

# Collectors of the sampling process, fast ones first.
FAST_COLLECTORS: tuple[FastFactory, ...] = (
    gpu.gpu_fast,
    hwmon.hwmon,
    gpu.gpu_slow,
    gpu.gpu_samples,
    gpu.gpu_links,
    gpu.gpu_pipes,
    hwmon.gpu_pins,
    host.pci,
    host.host,
    host.pressure,
    gpu.driver_threads,
    host.self_metrics,
)
# Collectors of the process for slow sources: a source that may take seconds, or never respond.
SLOW_COLLECTORS: tuple[SlowFactory, ...] = (
    hwmon.board_supplies,
    hwmon.board_fans,
    hwmon.board_temperatures,
    bmc.bmc,
    bmc.bmc_supplies,
    bmc.bmc_fans,
    meters.pdu,
    meters.ups,
    gpu.gpu_rare,
    gpu.gpu_processes,
)
# Event sources of the sampling process that need no GPU driver, except the kernel log.
FAST_EVENT_SOURCES: tuple[FastEventFactory, ...] = (
    events.link_state,
    events.uevents,
    events.tracepoints,
    events.fabric_log,
)
# Event sources of the process for slow sources.
SLOW_EVENT_SOURCES: tuple[SlowEventFactory, ...] = (
    readings.readings,
    bmc.bmc_log,
    meters.ups_events,
    gpu.gpu_process_events,
)

# heuristic: a walk of a slow PDU or of a board controller's sensor list, with some reserve.
BUILD_LIMIT_S = 20.0


def build_collectors(settings: FastSettings) -> tuple[BuiltCollector, ...]:
    """Build every collector of the sampling process, one after the other."""
    return tuple(factory(settings) for factory in FAST_COLLECTORS)


def build_slow_collectors(settings: SlowSettings) -> tuple[BuiltCollector, ...]:
    """Build every collector of the process for slow sources; takes 20 s at most."""
    return slow_builder(settings).build(BUILD_LIMIT_S)


def slow_builder(settings: SlowSettings) -> SourceBuilder[SlowSettings]:
    """Return a builder of the slow collectors, which can retry those that failed."""
    return SourceBuilder(SLOW_COLLECTORS, settings, settings.clock)


def build_event_sources(settings: EventSettings) -> tuple[BuiltEventSource, ...]:
    """Build every event source of the sampling process."""
    return tuple(factory(settings) for factory in FAST_EVENT_SOURCES)


def build_slow_event_sources(settings: SlowSettings) -> tuple[EventSource, ...]:
    """Build the event sources of the process for slow sources that this node has."""
    found = (factory(settings) for factory in SLOW_EVENT_SOURCES)
    return tuple(source for source in found if source is not None)
