"""The service process: writes samples and records to the store, and serves the page."""

import contextlib
import logging
from collections.abc import Collection
from dataclasses import replace
from threading import Event
from typing import TYPE_CHECKING, Any

import numpy as np

from agent.ring.ring import RingTable
from agent.ring.rings import Rings
from dashboards.page.server import PageServer, bind
from railwatch import __version__
from railwatch.operator.commands import PageApprovals
from railwatch.processes.child import Ready, run_child
from railwatch.run_context import JOURNALS, RunContext
from railwatch.wiring.node_page import NodePage
from railwatch.wiring.page_count import KeptPageCount
from railwatch.wiring.sample_store import StoreWriter, open_sample_reader, open_store_writer
from railwatch.wiring.service_metrics import ServiceMetrics
from railwatch.wiring.wiring_report import WiringReport
from telemetry.clock import NS_PER_S, Clock, SystemClock
from telemetry.errors import EnvironmentLacksError, TransientError
from telemetry.frames import Frame
from telemetry.json_text import json_text
from telemetry.records import IncidentState, Record
from telemetry.rollup import Rollup
from telemetry.store.records import RecordFile

if TYPE_CHECKING:
    from fastapi import FastAPI

logger = logging.getLogger(__name__)

# Least time between two looks at the journals, and between two tries to write records that the disk did not take.
LOOK_S = 0.1
# The state of the journals is checked this often; samples go to the store at the writer's own interval.
REPORT_EVERY_S = 1.0
# Records held in memory while the record file cannot be written; beyond that the oldest are counted and dropped. The
# journals keep them for longer.
MAX_UNWRITTEN = 10_000
END_OF_TIME_NS = 1 << 62
ALL_JOURNALS = (*JOURNALS, "slow")


class Service:
    """Follows the ring and the journals of one run."""

    def __init__(
        self, context: RunContext, writer: StoreWriter, records: RecordFile, page: NodePage, clock: Clock
    ) -> None:
        self._context = context
        self._writer = writer
        self._records = records
        self._page = page
        self._clock = clock
        self._rings: Rings | None = None
        self._next: dict[str, int] = {}
        self._rollups: dict[str, Rollup] = {}
        self._kept_ns: dict[str, int] = {}
        self._readers = {name: context.journal_reader(name, context.stored_position(name)) for name in JOURNALS}
        self._unwritten: list[Record] = []
        self._trouble = ""
        self._reported: dict[str, Any] = {}
        self._report_at_s = 0.0
        self._store_trouble = ""
        self._rows_lost = 0
        self.records_lost = 0
        self._pages = KeptPageCount(
            context.page_count_path, clock, budget_per_node_month=context.config.analytics.pages_per_node_month
        )
        self._metrics = ServiceMetrics(context, writer, clock)
        self._wiring = WiringReport(context.config.topology, writer, clock)

    def follow_journals(self) -> None:
        """Read new records from the journals and write them to the record file and the store."""
        read = (record for reader in self._readers.values() for record in reader.read())
        fresh = sorted(read, key=lambda record: record.time_ns)
        if fresh:
            # Written before the position moves on: after a kill in between they are sent again, never left out.
            self._writer.write((), (), fresh)
        self._pages.note(fresh)
        self._unwritten += fresh
        waiting = bool(self._unwritten)
        if waiting:
            self._write()
            if fresh or not self._unwritten:
                self._page.note_records(self._unwritten)
        now_s = self._clock.monotonic_s()
        if waiting or now_s >= self._report_at_s:
            self._report_at_s = now_s + REPORT_EVERY_S
            self._report()

    def next_look_s(self) -> float:
        """Return the monotonic time at which to look at the journals even if none changed.

        While a disk is full, records come from the run folder, where no change is noticed.
        """
        return self._report_at_s if not self._reported.get("trouble") else self._clock.monotonic_s() + LOOK_S

    def _write(self) -> None:
        try:
            self._records.append(self._unwritten)
        except TransientError as err:
            self._hold_back(str(err))
            return
        self._unwritten, self._trouble = [], ""
        try:
            for name, reader in self._readers.items():
                self._context.keep_stored_position(name, reader.position)
        except OSError as err:  # after a restart some records are stored twice
            logger.warning("cannot save record position, will retry: %s", err)

    def _report(self) -> None:
        """Publish the status of record keeping for the page and the commands, if it changed."""
        trouble = self._trouble or self._context.journal_trouble(ALL_JOURNALS)
        status = {
            "records_waiting": len(self._unwritten),
            "records_lost": self.records_lost + self._context.journal_lost(ALL_JOURNALS),
            "trouble": trouble,
        }
        if status == self._reported:
            return
        self._reported = status
        self._page.trouble = trouble
        with contextlib.suppress(OSError):
            self._context.service_status_path.write_text(json_text(status), encoding="utf-8")

    def close_simulated(self, *, at_start: bool) -> None:
        """Close the open incidents of a simulated node, which ends with its run; after a kill the next run does it."""
        if not self._context.simulated:
            return
        now_ns = self._clock.utc_ns()
        known = self._records.open_incidents(limit=MAX_UNWRITTEN)
        left = [incident for incident in known if self._records.simulated(incident.id)]
        if at_start:
            left = [incident for incident in left if incident.opened_ns < self._context.started_ns]
        closed = [
            replace(
                incident,
                time_ns=max(now_ns, incident.time_ns),
                closed_ns=now_ns,
                state=IncidentState.CLOSED,
                notes=(*incident.notes, "closed because the simulated run ended, fault not cleared"),
            )
            for incident in left
        ]
        if not closed:
            return
        self._writer.write((), (), closed)
        try:
            self._records.append(closed)
        except TransientError as err:
            logger.warning("cannot close incidents of the simulated node in the record file: %s", err)

    def _hold_back(self, trouble: str) -> None:
        """Log once that records cannot be written, and hold as many as fit in memory for the next try."""
        if not self._trouble:
            logger.error("records cannot be written: %s; holding them in memory, will retry", trouble)
        self._trouble = trouble
        surplus = len(self._unwritten) - MAX_UNWRITTEN
        if surplus > 0:
            self.records_lost += surplus
            del self._unwritten[:surplus]

    def store_rows(self, *, at_end: bool = False) -> None:
        """Write new rows to the store."""
        raw, rollups = self._rows()
        if at_end:
            self._pages.save()
            rollups += self._flush()
        self._page.pages = self._pages.rate
        raw.append(self._metrics.frame(rows_lost=self._rows_lost, pages=self._pages.rate))
        self._wiring.publish()
        self._writer.write(raw, rollups, ())

    def _rows(self) -> tuple[list[Frame], list[Frame]]:
        raw: list[Frame] = []
        rollups: list[Frame] = []
        if self._rings is not None and not self._rings.current:
            self._drain(raw, rollups)  # the last rows of a ring that was replaced
        if self._rings is None or not self._rings.current:
            rollups += self._attach()
        self._drain(raw, rollups)
        return raw, rollups

    def _drain(self, raw: list[Frame], rollups: list[Frame]) -> None:
        for name, table in ({} if self._rings is None else _stored(self._rings)).items():
            kept_ns = self._kept_ns.pop(name, None)  # only what was in the ring already can have been kept before
            left_out = 0
            while True:
                # A count below the last one means a new table.
                since = self._next[name] if self._next[name] <= table.count else 0
                read = table.read(since)
                self._next[name] = read.next
                self._rows_lost += read.lost
                if not len(read.frame):
                    break
                fresh = _later(read.frame, kept_ns)
                raw.append(fresh)
                # The store has everything up to its newest row. A row behind that one which is not later was stamped
                # after the wall clock was stepped back.
                left_out = 0 if kept_ns in read.frame.time_ns else left_out + len(read.frame) - len(fresh)
                if table.spec.is_late:  # rollups are of polled rows
                    continue
                # A rollup that was not complete is computed again from its whole second.
                done = self._rollups[name].feed(_later(read.frame, None if kept_ns is None else _second_of(kept_ns)))
                if len(done):
                    rollups.append(done)
            self._rows_lost += left_out

    def _attach(self) -> list[Frame]:
        """Attach the rings, which still hold the rows that an earlier service process did not store.

        Returns the last rollups of the rings before.
        """
        try:
            rings = Rings.attach(self._context.ring_path, self._context.other_ring_paths)
            tables = _stored(rings)
            newest_ns = {name: self._writer.newest_ns(table.spec) for name, table in tables.items()}
        except EnvironmentLacksError:
            return []  # the sampler is restarting
        except TransientError as err:
            if not self._store_trouble:
                logger.error("cannot read the store: %s; rows stay in the ring, will retry", err)  # noqa: TRY400 -- the traceback adds nothing
            self._store_trouble = str(err)
            return []
        # Tables of an unchanged ring continue where they were.
        before = {} if self._rings is None else self._rings.identities
        now = rings.identities
        same = {name for name in tables if name in self._next and before.get(name) == now[name]}
        self._rings, self._store_trouble = rings, ""
        left = self._flush(same)
        self._next = {
            name: self._next[name] if name in same else max(0, table.count - table.rows)
            for name, table in tables.items()
        }
        self._kept_ns = {
            name: kept_ns for name, kept_ns in newest_ns.items() if kept_ns is not None and name not in same
        }
        self._rollups = {
            name: self._rollups[name] if name in same else Rollup(table.spec) for name, table in tables.items()
        }
        return left

    def _flush(self, but: Collection[str] = ()) -> list[Frame]:
        """Return the open second of every table but those, whatever the wall clock is now."""
        ending = [rollup for name, rollup in self._rollups.items() if name not in but]
        return [frame for rollup in ending if len(frame := rollup.flush(END_OF_TIME_NS))]


def _stored(rings: Rings) -> dict[str, RingTable]:
    """Return the tables whose rows are stored."""
    return rings.tables | rings.late_tables


def _later(frame: Frame, time_ns: int | None) -> Frame:
    """Return the rows after a time, all rows if it is None."""
    first = 0 if time_ns is None else int(np.searchsorted(frame.time_ns, time_ns, side="right"))
    return frame.rows(first, len(frame))


def _second_of(time_ns: int) -> int:
    """Return the last nanosecond before the second that a time lies in."""
    return time_ns - time_ns % NS_PER_S - 1


def main(context: RunContext, stop: Event, ready: Ready) -> None:
    """Store and serve until the request to stop, then flush."""
    clock, config = SystemClock(), context.config
    sock = bind(config.page.host, config.page.port)
    records = RecordFile(config.data_dir / "records", simulated=context.simulated)
    writer = open_store_writer(config, node=context.node.key, simulated=context.simulated, clock=clock)
    page = NodePage(context, records, writer, open_sample_reader(config, config.data_dir), clock)

    def make_app() -> "FastAPI":
        from dashboards.page.app import create_app, echarts_dir  # noqa: PLC0415 -- see PageServer

        return create_app(
            page,
            clock=clock,
            token=config.page.token,
            act_token=config.page.act_token,
            answers=PageApprovals(context),
            version=__version__,
            echarts=echarts_dir(),
        )

    server = PageServer(make_app, sock)
    service = Service(context, writer, records, page, clock)
    service.close_simulated(at_start=True)
    server.start()
    ready({"address": server.url})
    changes = context.watch_journals(stop, clock, gap_s=LOOK_S)
    store_at_s = clock.monotonic_s()
    while not changes.wait(min(store_at_s, service.next_look_s()) - clock.monotonic_s()):
        service.follow_journals()
        if clock.monotonic_s() >= store_at_s:
            service.store_rows()
            store_at_s = max(store_at_s + writer.interval_s, clock.monotonic_s())
    changes.close()
    service.follow_journals()
    service.store_rows(at_end=True)
    service.close_simulated(at_start=False)
    server.stop()
    writer.close()
    records.close()


if __name__ == "__main__":
    run_child(main)
