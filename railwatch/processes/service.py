"""The service process: takes what ring and journals bring to the store, and serves the page."""

import logging
from pathlib import Path
from threading import Event

import numpy as np

from agent.ring import Ring
from dashboards.page.app import create_app, echarts_dir
from dashboards.page.server import PageServer, bind
from railwatch import __version__
from railwatch.keeping import Keeper, open_keeper
from railwatch.node_page import NodePage
from railwatch.processes.child import Ready, run_child
from railwatch.run import JOURNALS
from railwatch.session import Session
from telemetry.clock import Clock, SystemClock
from telemetry.entities import Entity, EntityKind
from telemetry.errors import EnvironmentLacksError, TransientError
from telemetry.frames import Frame, TableSpec
from telemetry.journal import JournalReader
from telemetry.records import Record
from telemetry.rollup import Rollup
from telemetry.store.records import RecordFile

logger = logging.getLogger(__name__)

# Records reach the page this fast; samples go to the store once a second.
LOOK_S = 0.1
KEEP_EVERY_S = 1.0
KEEP_NS = 1_000_000_000


class Service:
    """Follows the ring and the journals of one run."""

    def __init__(self, session: Session, keeper: Keeper, records: RecordFile, page: NodePage, clock: Clock) -> None:
        self._session = session
        self._keeper = keeper
        self._records = records
        self._page = page
        self._clock = clock
        self._ring: Ring | None = None
        self._next: dict[str, int] = {}
        self._rollups: dict[str, Rollup] = {}
        self._kept_ns: dict[str, int | None] = {}
        self._readers = tuple(
            JournalReader(session.journal_dir / f"{name}.jsonl", _position(session, name)) for name in JOURNALS
        )
        self._waiting: list[Record] = []
        self._rows_lost = 0
        agent = Entity(kind=EntityKind.AGENT, key=session.node.key, name=session.node.name)
        self._own = TableSpec(
            name="service",
            kind=EntityKind.AGENT,
            entities=(agent,),
            signals=("ring_rows_lost", "spool_bytes", "spool_dropped_points", "uplink_errors"),
        )

    def follow_journals(self) -> None:
        """Take in new records."""
        fresh = sorted((record for reader in self._readers for record in reader.read()), key=lambda r: r.time_ns)
        if not fresh:
            return
        try:
            self._records.append(fresh)
        except TransientError as err:
            logger.error("records not kept in the record file: %s", err)  # noqa: TRY400 -- the journals still have them
        self._waiting += fresh
        for name, reader in zip(JOURNALS, self._readers, strict=True):
            _keep_position(self._session, name, reader.position)
        self._page.note_records()

    def keep(self, *, at_end: bool = False) -> None:
        """Take new rows and waiting records to the store."""
        raw, rollups = self._rows()
        now_ns = self._clock.utc_ns()
        if at_end:
            rollups += [frame for rollup in self._rollups.values() if len(frame := rollup.flush(now_ns + KEEP_NS))]
        raw.append(self._own_frame(now_ns))
        self._keeper.keep(raw, rollups, self._waiting)
        self._waiting = []

    def _rows(self) -> tuple[list[Frame], list[Frame]]:
        raw: list[Frame] = []
        rollups: list[Frame] = []
        if self._ring is None or not self._ring.current:
            self._attach()
        if self._ring is None:
            return raw, rollups
        for name, table in self._ring.tables.items():
            while True:
                read = table.read(self._next[name])
                self._next[name] = read.next
                self._rows_lost += read.lost
                if not len(read.frame):
                    break
                kept_ns = self._kept_ns.get(name)
                first = 0 if kept_ns is None else int(np.searchsorted(read.frame.time_ns, kept_ns, side="right"))
                frame = read.frame.rows(first, len(read.frame))
                raw.append(frame)
                done = self._rollups[name].feed(frame)
                if len(done):
                    rollups.append(done)
        self._kept_ns.clear()  # only what was in the ring already can have been kept before
        return raw, rollups

    def _attach(self) -> None:
        """Find the ring; rows that an earlier service process did not get to store are in it still."""
        try:
            self._ring = Ring.attach(self._session.ring_path)
        except EnvironmentLacksError:
            return  # the sampler is being started again
        tables = self._ring.tables
        self._next = {name: max(0, table.count - table.rows) for name, table in tables.items()}
        self._kept_ns = {name: self._keeper.newest_ns(table.spec) for name, table in tables.items()}
        self._rollups = {name: Rollup(table.spec) for name, table in tables.items()}

    def _own_frame(self, now_ns: int) -> Frame:
        status = self._keeper.status()
        row = (self._rows_lost, status.spool_bytes, status.dropped_points, self._keeper.errors())
        values = np.array(row, dtype=np.float64).reshape(1, 1, -1)
        return Frame(
            spec=self._own,
            time_ns=np.array([now_ns], dtype=np.int64),
            values=values,
            fresh=np.ones(values.shape, dtype=np.bool_),
        )


def _position_file(session: Session, name: str) -> Path:
    return session.journal_dir / f"{name}.position"


def _position(session: Session, name: str) -> tuple[int, int] | None:
    try:
        inode, offset = _position_file(session, name).read_text(encoding="ascii").split()
        return int(inode), int(offset)
    except (FileNotFoundError, ValueError):
        return None


def _keep_position(session: Session, name: str, position: tuple[int, int]) -> None:
    path = _position_file(session, name)
    fresh = path.with_suffix(".new")
    fresh.write_text(f"{position[0]} {position[1]}", encoding="ascii")
    fresh.replace(path)


def main(session: Session, stop: Event, ready: Ready) -> None:
    """Store and serve until told to stop, then flush."""
    clock, config = SystemClock(), session.config
    sock = bind(config.page.host, config.page.port)
    records = RecordFile(config.data_dir / "records")
    keeper = open_keeper(config, node=session.node.key, simulated=session.simulated, clock=clock)
    page = NodePage(session, records, keeper, clock)
    app = create_app(page, clock=clock, token=config.page.token, version=__version__, echarts=echarts_dir())
    server = PageServer(app, sock)
    service = Service(session, keeper, records, page, clock)
    server.start()
    ready({"address": server.url})
    keep_at_s = clock.monotonic_s()
    while not stop.wait(LOOK_S):
        service.follow_journals()
        if clock.monotonic_s() >= keep_at_s:
            service.keep()
            keep_at_s = max(keep_at_s + KEEP_EVERY_S, clock.monotonic_s())
    service.follow_journals()
    service.keep(at_end=True)
    server.stop()
    keeper.close()
    records.close()


if __name__ == "__main__":
    run_child(main)
