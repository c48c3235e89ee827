"""The process for slow sources: board controllers, meters, process lists. It may hang without harm to the sampler."""

import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Event as Flag
from threading import Thread

from agent.collectors.host.self_metrics import SelfMetrics
from agent.collectors.port import BuiltCollector, BuiltSource, Collector, EventSource, SourceState, SourceStatus
from agent.collectors.readings.source import readings_status
from agent.collectors.registry.background import SourceBuilder
from agent.collectors.registry.settings import SlowSettings
from agent.collectors.registry.sources import BUILD_LIMIT_S, build_slow_event_sources, slow_builder
from agent.ring.ring import Ring
from agent.sampler.counters import SamplerCounters
from agent.sampler.sampler import Sampler
from agent.sampler.settings import SamplerSettings
from railwatch.processes.child import Ready, leave, run_child
from railwatch.run_context import RunContext
from railwatch.wiring.reenumeration import Recount
from railwatch.wiring.samplers import (
    LOOK_AGAIN_S,
    STATUS_EVERY_S,
    STOP_HUNG_S,
    HungWatch,
    StatusFiles,
    chosen,
    hung_limits_s,
    make_run_ring,
    sampler_settings,
)
from railwatch.wiring.slow_sources import slow_settings
from telemetry.clock import Clock, SystemClock
from telemetry.record_journal import RecordJournalWriter
from telemetry.records import Event

logger = logging.getLogger(__name__)

# A source hangs for good, or the GPUs were counted again: the next process starts from the beginning.
SOURCES_CHANGED = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sources:
    """Sources of this process; empty where the node has no slow sources."""

    collectors: list[Collector]
    events: tuple[EventSource, ...]
    statuses: tuple[SourceStatus, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Process:
    """State that outlives a change of the sources."""

    context: RunContext
    clock: Clock
    builder: SourceBuilder[SlowSettings]
    settings: SlowSettings
    files: StatusFiles
    recount: Recount
    journal: RecordJournalWriter
    stop: Flag
    changed: Flag = field(default_factory=Flag)
    counters: SamplerCounters = field(default_factory=SamplerCounters)


def main(context: RunContext, stop: Flag, ready: Ready) -> None:
    """Read slow sources until the stop is requested.

    A source that answers late, as a controller with a long list of sensors does, joins the others as it was built: the
    tables are created again, and nothing is surveyed twice.
    """
    clock = SystemClock()
    recount = Recount(context.run_dir)
    settings = slow_settings(context, clock, os.environ)
    process = _Process(
        context=context,
        clock=clock,
        builder=slow_builder(settings),
        settings=settings,
        files=StatusFiles(context.run_dir, "slow"),
        recount=recount,
        journal=context.journal_writer("slow"),
        stop=stop,
    )
    process.builder.build(BUILD_LIMIT_S)
    Thread(target=_look_again, args=(process,), name="look-again", daemon=True).start()
    reason = _read(process, ready)
    while not reason and not stop.is_set():
        reason = _read(process, lambda _: None)
    process.journal.close()
    _leave_for(reason)


def _read(process: _Process, ready: Ready) -> str:
    """Read the present sources until others appear; return why another process must start, empty where none must."""
    process.changed.clear()
    sources = _sources(process)
    process.files.write_sources(sources.statuses)
    if not sources.collectors:
        ready({"tables": []})
        while not (reason := _reason_to_end(process)) and not process.changed.is_set():
            if process.stop.wait(STATUS_EVERY_S):
                break
        return reason
    settings = sampler_settings(process.context.config)
    hung, limits_s = HungWatch(process.clock), hung_limits_s(sources.collectors, settings)
    ring = make_run_ring(process.context, process.context.slow_ring_path, sources.collectors, settings)
    sampler = _sampler(process, sources, ring, settings)
    sampler.start()
    ready({"tables": list(ring.tables)})
    reason = ""
    while not reason and not process.changed.is_set() and not process.stop.wait(STATUS_EVERY_S):
        statuses = sampler.statuses()
        process.files.write_workers(statuses)
        process.recount.look_at(ring.tables.values())
        reason = hung.check_hung(statuses, limits_s) or _reason_to_end(process)
    if reason:
        sampler.stop(STOP_HUNG_S)
    else:
        sampler.stop()
    ring.close()
    return reason


def _sources(process: _Process) -> _Sources:
    settings, context = process.settings, process.context
    built: Sequence[BuiltCollector] = process.builder.built
    events = build_slow_event_sources(settings)
    if events or any(part.source is not None for part in built):
        own = SelfMetrics(context.node.key, process.counters, process.clock, process="slow")
        status = SourceStatus(name=own.name, state=SourceState.WORKING, detail="the process for slow sources")
        built = (*built, BuiltSource(source=own, status=status))
    collectors, statuses = chosen(built, context, off=lambda _: False)
    if settings.readings is not None:
        statuses += (readings_status(settings.readings.listener),)
    return _Sources(collectors=collectors, events=events, statuses=statuses)


def _sampler(process: _Process, sources: _Sources, ring: Ring, settings: SamplerSettings) -> Sampler:
    def append_events(events: tuple[Event, ...]) -> None:
        for event in events:
            process.journal.append(event)

    return Sampler(
        ring,
        sources.collectors,
        clock=process.clock,
        settings=settings,
        counters=process.counters,
        on_events=append_events,
        event_sources=sources.events,
    )


def _look_again(process: _Process) -> None:
    """Retry failed sources every minute."""
    while not process.stop.wait(LOOK_AGAIN_S):
        if process.builder.retry(BUILD_LIMIT_S):
            process.changed.set()


def _reason_to_end(process: _Process) -> str:
    """Return why another process must start, an empty text where none must."""
    return "the GPUs were counted again" if process.recount.was_done else ""


def _leave_for(reason: str) -> None:
    """Exit at once where there is a reason: a stuck thread would keep this process from ending."""
    if reason:
        logger.warning("%s; exiting for a restart", reason)
        leave(SOURCES_CHANGED)


if __name__ == "__main__":
    run_child(main)
