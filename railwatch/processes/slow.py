"""The process for slow sources: board controllers, meters, process lists. It may hang without harm to the sampler."""

import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Event as Flag
from threading import Thread

from agent.accounts import Accounts
from agent.collectors.build import Built
from agent.collectors.build_slow import BUILD_LIMIT_S, SlowSettings, build_slow_event_sources, slow_builder
from agent.collectors.building import SourceBuilder
from agent.collectors.port import Collector, EventSource, SourceState, SourceStatus
from agent.collectors.readings.source import readings_status
from agent.collectors.self_metrics import SelfMetrics
from agent.ring import Ring
from agent.sampler.sampler import Sampler, make_ring
from agent.sampler.settings import SamplerSettings
from railwatch.pipeline import topology_of
from railwatch.processes.child import Ready, leave, run_child
from railwatch.reenumeration import Recount
from railwatch.sampling import (
    LOOK_AGAIN_S,
    STATUS_EVERY_S,
    HungWatch,
    StatusFiles,
    chosen,
    hung_limits_s,
    sampler_settings,
)
from railwatch.session import Session
from railwatch.slow_sources import slow_settings
from telemetry.clock import Clock, SystemClock
from telemetry.journal import JournalWriter
from telemetry.records import Event

logger = logging.getLogger(__name__)

# A source came that the tables do not have, one hangs for good, or the GPUs were counted anew: the next process makes
# everything anew.
SOURCES_CHANGED = 6
# Own choice: nothing is lost by leaving a stuck thread behind, and every source waits for the next process meanwhile.
STOP_HUNG_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sources:
    """What this process reads; none of it where the node has no slow sources."""

    builder: SourceBuilder[SlowSettings]
    accounts: Accounts
    collectors: list[Collector]
    events: tuple[EventSource, ...]
    statuses: tuple[SourceStatus, ...]


def main(session: Session, stop: Flag, ready: Ready) -> None:
    """Read slow sources until told to stop."""
    clock, files = SystemClock(), StatusFiles(session.run_dir, "slow")
    recount = Recount(session.run_dir)
    sources = _open_sources(session, clock)
    files.tell_sources(sources.statuses)
    changed = Flag()
    Thread(target=_look_again, args=(sources.builder, changed, stop), name="look-again", daemon=True).start()
    if not sources.collectors:
        ready({"tables": []})
        reason = ""
        while not reason and not stop.wait(STATUS_EVERY_S):
            reason = _reason_to_end(changed, recount)
        _leave_for(reason)
        return
    settings = sampler_settings(session.config)
    hung = HungWatch(clock, hung_limits_s(sources.collectors, settings))
    ring = _ring(session, sources.collectors, settings)
    journal = session.journal_writer("slow")
    sampler = _sampler(sources, ring, journal, settings, clock)
    sampler.start()
    ready({"tables": list(ring.tables)})
    reason = ""
    while not reason and not stop.wait(STATUS_EVERY_S):
        statuses = sampler.statuses()
        files.tell_workers(statuses)
        recount.look_at(ring.tables.values())
        reason = hung.see(statuses) or _reason_to_end(changed, recount)
    if reason:
        sampler.stop(STOP_HUNG_S)
    else:
        sampler.stop()
    journal.close()
    ring.close()
    _leave_for(reason)


def _open_sources(session: Session, clock: Clock) -> _Sources:
    settings = slow_settings(session, clock, os.environ)
    builder, accounts = slow_builder(settings), Accounts()
    built: Sequence[Built] = builder.build(BUILD_LIMIT_S)
    events = build_slow_event_sources(settings)
    if events or any(part.collector is not None for part in built):
        own = SelfMetrics(session.node.key, accounts, clock, process="slow")
        status = SourceStatus(name=own.name, state=SourceState.WORKING, detail="the process for slow sources")
        built = (*built, Built(collector=own, status=status))
    collectors, statuses = chosen(built, off=lambda _: False, simulated=session.simulated)
    if settings.readings is not None:
        statuses += (readings_status(settings.readings.listener),)
    return _Sources(builder=builder, accounts=accounts, collectors=collectors, events=events, statuses=statuses)


def _ring(session: Session, collectors: list[Collector], settings: SamplerSettings) -> Ring:
    sampling = session.config.sampling
    return make_ring(
        session.slow_ring_path,
        collectors,
        settings,
        node=session.node.key,
        topology=topology_of(session.node, [collector.spec for collector in collectors]),
        simulated=session.simulated,
        seconds=sampling.ring,
        max_bytes=sampling.ring_max,
    )


def _sampler(sources: _Sources, ring: Ring, journal: JournalWriter, settings: SamplerSettings, clock: Clock) -> Sampler:
    def tell(events: tuple[Event, ...]) -> None:
        for event in events:
            journal.append(event)

    return Sampler(
        ring,
        sources.collectors,
        clock=clock,
        settings=settings,
        accounts=sources.accounts,
        on_events=tell,
        event_sources=sources.events,
    )


def _look_again(builder: SourceBuilder[SlowSettings], changed: Flag, stop: Flag) -> None:
    """Try every minute what failed; a source that came has tables, and those are made at a start."""
    while not stop.wait(LOOK_AGAIN_S):
        if builder.again(BUILD_LIMIT_S):
            changed.set()
            return


def _reason_to_end(changed: Flag, recount: Recount) -> str:
    """Say why another process is to start, an empty text where there is no reason to."""
    if changed.is_set():
        return "a source that did not answer does now"
    return "the GPUs were counted anew" if recount.was_done else ""


def _leave_for(reason: str) -> None:
    """End at once where there is a reason to: a thread may be stuck, and would keep this process from ending."""
    if reason:
        logger.warning("%s; this process ends to be started again", reason)
        leave(SOURCES_CHANGED)


if __name__ == "__main__":
    run_child(main)
