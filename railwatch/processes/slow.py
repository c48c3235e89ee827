"""The process for slow sources: board controllers, meters, process lists. It may hang without harm to the sampler."""

from pathlib import Path
from threading import Event as Flag

from agent.accounts import Accounts
from agent.collectors.build_slow import SlowSettings, build_slow_collectors, build_slow_event_sources
from agent.sampler.sampler import Sampler, make_ring
from railwatch.pipeline import topology_of
from railwatch.processes.child import Ready, run_child
from railwatch.sampling import STATUS_EVERY_S, StatusFiles, chosen, sampler_settings
from railwatch.session import Session
from telemetry.clock import SystemClock
from telemetry.journal import JournalWriter
from telemetry.records import Event


def main(session: Session, stop: Flag, ready: Ready) -> None:
    """Read slow sources until told to stop."""
    clock, config = SystemClock(), session.config
    settings = SlowSettings(node=session.node.key, clock=clock, sysfs_root=Path(session.sysfs))
    collectors, sources = chosen(build_slow_collectors(settings), off=lambda _: False, simulated=session.simulated)
    event_sources = build_slow_event_sources(settings)
    files = StatusFiles(session.run_dir, "slow")
    files.tell_sources(sources)
    if not collectors and not event_sources:
        ready({"tables": []})
        stop.wait()
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
    sampler.stop()
    journal.close()
    ring.close()


if __name__ == "__main__":
    run_child(main)
