"""Which sources that take their time this node gets, and what is missing for the others.

They run in a process of their own, so that none of them delays a fast one, however long it takes to answer.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from agent.collectors.build import Built
from agent.collectors.port import EventSource
from telemetry.clock import Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowSettings:
    """Where the node's slow sources are."""

    node: str
    clock: Clock
    sysfs_root: Path = Path("/sys")


SlowFactory = Callable[[SlowSettings], Built]
EventFactory = Callable[[SlowSettings], EventSource | None]

# Every slow source there is.
SLOW_FACTORIES: tuple[SlowFactory, ...] = ()
SLOW_EVENT_FACTORIES: tuple[EventFactory, ...] = ()


def build_slow_collectors(settings: SlowSettings) -> tuple[Built, ...]:
    """Give every slow source with its collector or the reason why it has none."""
    return tuple(factory(settings) for factory in SLOW_FACTORIES)


def build_slow_event_sources(settings: SlowSettings) -> tuple[EventSource, ...]:
    """Give the slow sources of events that this node has."""
    found = (factory(settings) for factory in SLOW_EVENT_FACTORIES)
    return tuple(source for source in found if source is not None)
