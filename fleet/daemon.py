"""Jobs of the fleet daemon under APScheduler: one at a time, each at most once at a time."""

import logging
from collections import Counter
from datetime import UTC, datetime

import numpy as np
from apscheduler.events import (
    EVENT_JOB_ERROR,
    EVENT_JOB_MAX_INSTANCES,
    EVENT_JOB_MISSED,
    JobEvent,
    JobExecutionEvent,
)
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler

from fleet.acting import FleetActing
from fleet.loop import FleetLoop
from fleet.outbox import Outbox
from telemetry.clock import NS_PER_S, Clock
from telemetry.entities import Entity, EntityKind
from telemetry.frames import Frame, TableSpec
from telemetry.signals import Source, signals_of

logger = logging.getLogger(__name__)

# heuristic: late values and metrics of the loop are checked once in ten seconds.
METRICS_EVERY_S = 10.0


class FleetDaemon:
    """Runs the jobs of the loop until it is stopped.

    One worker thread runs all jobs, so the state of the loop has one owner. A job that is still running when it is due
    again is skipped and counted; several missed runs become one. A step that would start too late is dropped in favour
    of the next; the other jobs wait for it.
    """

    def __init__(
        self,
        loop: FleetLoop,
        outbox: Outbox,
        clock: Clock,
        *,
        name: str,
        every_s: float,
        keep_every_s: float,
        acting: FleetActing | None = None,
    ) -> None:
        self._loop, self._outbox, self._clock, self._acting = loop, outbox, clock, acting
        self._name = name
        self._grace_s = max(1, round(every_s))
        self.counts: Counter[str] = Counter()
        self._scheduler = BackgroundScheduler(
            executors={"default": ThreadPoolExecutor(max_workers=1)},
            job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": None},
            timezone=UTC,
        )
        self._scheduler.add_listener(self._note, EVENT_JOB_MISSED | EVENT_JOB_MAX_INSTANCES | EVENT_JOB_ERROR)
        for job, period_s in (
            (self._loop.step, every_s),
            *(() if acting is None else ((self.act, every_s),)),
            (self._loop.save, keep_every_s),
            (self._loop.look_for_late, METRICS_EVERY_S),
            (self._publish_self_metrics, METRICS_EVERY_S),
        ):
            self._scheduler.add_job(job, "interval", seconds=period_s, id=job.__name__)

    def start(self) -> None:
        """Start the jobs."""
        self._scheduler.start()
        now = datetime.fromtimestamp(self._clock.utc_ns() / NS_PER_S, tz=UTC)
        # The first step runs at once.
        self._scheduler.modify_job(self._loop.step.__name__, next_run_time=now, misfire_grace_time=self._grace_s)

    def stop(self) -> None:
        """Stop after the running job and save the state."""
        self._scheduler.shutdown(wait=True)
        self._loop.save()
        self._publish_self_metrics()

    def act(self) -> None:
        """Act on the open incidents; it runs after a step in progress, since one thread does both."""
        current = self._loop.current()
        if self._acting is not None and current is not None:
            self._acting.step(*current)
            self._loop.note_claims(self._acting.claimed)

    def _note(self, event: JobEvent) -> None:
        if event.code == EVENT_JOB_MISSED:
            self.counts["misfires"] += 1
        elif event.code == EVENT_JOB_MAX_INSTANCES:
            self.counts["skipped"] += 1
        elif isinstance(event, JobExecutionEvent):
            self.counts["failures"] += 1
            logger.error("job %s failed: %s\n%s", event.job_id, event.exception, event.traceback)

    def _publish_self_metrics(self) -> None:
        metrics = self._loop.metrics
        now_ns = self._clock.utc_ns()
        own = {
            "fleet_nodes": metrics.nodes,
            "fleet_silent_nodes": metrics.silent_nodes,
            "fleet_windows": metrics.windows,
            "fleet_window_age_s": metrics.age_s,
            "fleet_window_s": metrics.window_s,
            "fleet_overruns": metrics.overruns + self.counts["skipped"],
            "fleet_misfires": self.counts["misfires"],
            "fleet_failures": metrics.failures + self.counts["failures"],
            "fleet_gaps": metrics.gaps,
            "fleet_folded": metrics.folded,
            "fleet_wirings_refused": metrics.wirings_refused,
            "fleet_late_values": metrics.late_values.total(),
        } | (dict[str, float]() if self._acting is None else self._acting.metrics)
        names = tuple(one.name for one in signals_of(EntityKind.AGENT, source=Source.FLEET) if one.name in own)
        frames = [_frame((self._name,), names, [[float(own[name]) for name in names]], now_ns)]
        if metrics.late_values:
            nodes = tuple(metrics.late_values)
            counts = [[float(metrics.late_values[node])] for node in nodes]
            frames.append(_frame(nodes, ("fleet_late_values",), counts, now_ns))
        self._outbox.publish_self_metrics(frames, simulated=False)


def _frame(entities: tuple[str, ...], signals: tuple[str, ...], rows: list[list[float]], now_ns: int) -> Frame:
    spec = TableSpec(
        name="fleet",
        kind=EntityKind.AGENT,
        entities=tuple(Entity(kind=EntityKind.AGENT, key=name, name=name) for name in entities),
        signals=signals,
    )
    values = np.array(rows, dtype=np.float64)[np.newaxis]
    return Frame(
        spec=spec,
        time_ns=np.array([now_ns], dtype=np.int64),
        values=values,
        fresh=np.ones(values.shape, dtype=np.bool_),
    )
