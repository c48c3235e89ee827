"""Result of building one source: the source, or the reason why this node has none."""

from dataclasses import dataclass

from agent.collectors.port import Collector, EventSource, SourceState, SourceStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltCollector:
    """A collector, None where this node has none, and its status."""

    collector: Collector | None
    status: SourceStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltEventSource:
    """An event source, None where this node has none, and its status."""

    source: EventSource | None
    status: SourceStatus


def working(collector: Collector, detail: str) -> BuiltCollector:
    """Return a collector that can be read; `detail` names what it found."""
    status = SourceStatus(name=collector.name, state=SourceState.WORKING, detail=detail)
    return BuiltCollector(collector=collector, status=status)


def missing(
    name: str, detail: str, how_to_get: str = "", *, state: SourceState = SourceState.MISSING
) -> BuiltCollector:
    """Return the result for a collector that this node does not have: why, and how to get it."""
    return BuiltCollector(
        collector=None, status=SourceStatus(name=name, state=state, detail=detail, how_to_get=how_to_get)
    )


def working_events(source: EventSource, detail: str) -> BuiltEventSource:
    """Return an event source that can be polled."""
    status = SourceStatus(name=source.name, state=SourceState.WORKING, detail=detail)
    return BuiltEventSource(source=source, status=status)


def missing_events(name: str, detail: str, how_to_get: str = "", *, state: SourceState) -> BuiltEventSource:
    """Return the result for an event source that this node does not have: why, and how to get it."""
    return BuiltEventSource(
        source=None, status=SourceStatus(name=name, state=state, detail=detail, how_to_get=how_to_get)
    )
