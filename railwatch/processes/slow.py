"""The process for slow sources: board controllers, meters, process lists. It may hang without harm to the sampler."""

import logging
import os
import sys
from threading import Event as Flag
from threading import Thread

from agent.accounts import Accounts
from agent.collectors.build_slow import BUILD_LIMIT_S, SlowSettings, build_slow_event_sources, slow_builder
from agent.collectors.building import SourceBuilder
from agent.collectors.readings.source import readings_status
from agent.sampler.sampler import Sampler, make_ring
from railwatch.pipeline import topology_of
from railwatch.processes.child import Ready, run_child
from railwatch.sampling import STATUS_EVERY_S, StatusFiles, chosen, sampler_settings
from railwatch.session import Session
from railwatch.slow_sources import slow_settings
from telemetry.clock import SystemClock
from telemetry.journal import JournalWriter
from telemetry.records import Event

logger = logging.getLogger(__name__)

# Own choice: what was switched on late is read a minute later; what stays away costs one look a minute.
LOOK_AGAIN_S = 60.0
# A source came that the tables do not have: the next process makes them anew.
SOURCES_CHANGED = 6


def main(session: Session, stop: Flag, ready: Ready) -> None:
    """Read slow sources until told to stop."""
    clock, config = SystemClock(), session.config
    settings = slow_settings(session, clock, os.environ)
    builder = slow_builder(settings)
    collectors, sources = chosen(builder.build(BUILD_LIMIT_S), off=lambda _: False, simulated=session.simulated)
    event_sources = build_slow_event_sources(settings)
    if settings.readings is not None:
        sources += (readings_status(settings.readings.listener),)
    files = StatusFiles(session.run_dir, "slow")
    files.tell_sources(sources)
    changed = Flag()
    Thread(target=_look_again, args=(builder, changed, stop), name="look-again", daemon=True).start()
    if not collectors and not event_sources:
        ready({"tables": []})
        while not stop.wait(STATUS_EVERY_S):
            _start_again_if(changed)
        return
    paces = sampler_settings(config)
    ring = make_ring(
        session.slow_ring_path,
        collectors,
        paces,
        node=session.node.key,
        topology=topology_of(session.node, [collector.spec for collector in collectors]),
        simulated=session.simulated,
        seconds=config.sampling.ring,
        max_bytes=config.sampling.ring_max,
    )
    journal = JournalWriter(session.slow_events_path, simulated=session.simulated)

    def tell(events: tuple[Event, ...]) -> None:
        for event in events:
            journal.append(event)

    sampler = Sampler(
        ring,
        collectors,
        clock=clock,
        settings=paces,
        accounts=Accounts(),
        on_events=tell,
        event_sources=event_sources,
    )
    sampler.start()
    ready({"tables": list(ring.tables)})
    while not stop.wait(STATUS_EVERY_S):
        files.tell_workers(sampler.statuses())
        if changed.is_set():
            break
    sampler.stop()
    journal.close()
    ring.close()
    _start_again_if(changed)


def _look_again(builder: SourceBuilder[SlowSettings], changed: Flag, stop: Flag) -> None:
    """Try every minute what failed; a source that came has tables, and those are made at a start."""
    while not stop.wait(LOOK_AGAIN_S):
        if builder.again(BUILD_LIMIT_S):
            changed.set()
            return


def _start_again_if(changed: Flag) -> None:
    if changed.is_set():
        logger.warning("a source that did not answer does now; this process ends to be started again with it")
        sys.exit(SOURCES_CHANGED)


if __name__ == "__main__":
    run_child(main)
