"""The service: every row once, whatever is killed; records and where it stands in the journals; full disks."""

import os
import signal
from collections.abc import Iterator, Sequence
from dataclasses import replace
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest

from agent.ring import Ring
from dashboards.page.source import StoreStatus
from railwatch.config.models import StoreKind
from railwatch.keeping import EmbeddedKeeper, Keeper, open_keeper
from railwatch.node_page import NodePage
from railwatch.processes.service import MAX_UNWRITTEN, Service
from railwatch.session import Session, said_in
from railwatch.supervisor import ChildSpec, Supervisor
from telemetry.clock import NS_PER_S, SystemClock
from telemetry.entities import EntityKind, Topology
from telemetry.errors import TransientError
from telemetry.frames import Frame, TableSpec
from telemetry.journal import JournalWriter
from telemetry.records import Record
from telemetry.store.embedded import EmbeddedReader
from telemetry.store.port import Resolution
from telemetry.store.records import RecordFile
from tests.agent.fakes import START_NS, FakeClock
from tests.agent.uplink.stub import stub_store
from tests.railwatch.a_run import ROW_NS, WIDE, a_ring, a_session, an_event, write_rows

END_NS = START_NS + 3600 * NS_PER_S
CLOCK = SystemClock()


class Running:
    """A service in this process over the real store, record file and page."""

    def __init__(self, session: Session, keeper: Keeper | None = None) -> None:
        self.clock = FakeClock()
        self.records = RecordFile(session.config.data_dir / "records")
        self.keeper = keeper or open_keeper(session.config, node="node0", simulated=True, clock=self.clock)
        self.page = NodePage(session, self.records, self.keeper, self.clock)
        self.service = Service(session, self.keeper, self.records, self.page, self.clock)

    def close(self) -> None:
        self.keeper.close()
        self.records.close()


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return a_session(tmp_path)


@pytest.fixture
def running(session: Session) -> Iterator[Running]:
    made = Running(session)
    yield made
    made.close()


def raw(session: Session) -> list[float]:
    """The numbers of the rows in the store, in order of time; a row that is there twice shows twice."""
    reader = EmbeddedReader(session.config.data_dir / "store")
    frames = [f for f in reader.frames(start_ns=0, stop_ns=END_NS) if f.spec.name == "supply"]
    reader.close()
    return sorted(float(value) for frame in frames for value in frame.signal("voltage_v")[:, 0])


def rollups(session: Session, name: str = "voltage_v_mean") -> dict[int, float]:
    reader = EmbeddedReader(session.config.data_dir / "store")
    found = reader.series(EntityKind.SUPPLY, [name], start_ns=0, stop_ns=END_NS, resolution=Resolution.ROLLUP)
    reader.close()
    seconds = (found.time_ns - START_NS) // NS_PER_S
    return dict(zip(seconds.tolist(), found.signal(name)[:, 0].tolist(), strict=True))


def means(seconds: int) -> dict[int, float]:
    return {second: 20 * second + 9.5 for second in range(seconds)}


def test_rows_and_complete_seconds_go_to_the_store_and_the_open_one_at_the_end(
    session: Session, running: Running
) -> None:
    ring = a_ring(session)
    write_rows(ring, 0, 50)
    running.service.keep()
    assert raw(session) == [float(n) for n in range(50)]
    assert rollups(session) == means(2)
    write_rows(ring, 50, 10)
    running.service.keep(at_end=True)
    assert raw(session) == [float(n) for n in range(60)]
    assert rollups(session) == means(3)


class Remembering:
    """A server: it keeps what it is sent, and cannot say what it has."""

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper
        self.rows = 0

    def keep(self, raw: Sequence[Frame], rollups: Sequence[Frame], records: Sequence[Record]) -> None:
        self.rows += sum(len(frame) for frame in raw if frame.spec.name == "supply")
        self._keeper.keep(raw, rollups, records)

    def status(self) -> StoreStatus:
        return self._keeper.status()

    def errors(self) -> int:
        return self._keeper.errors()

    def newest_ns(self, spec: TableSpec) -> int | None:
        del spec
        return None

    def close(self) -> None:
        self._keeper.close()


def test_a_meter_that_comes_sends_no_row_of_the_main_ring_again(session: Session) -> None:
    keeper = open_keeper(session.config, node="node0", simulated=True, clock=FakeClock())
    server = Remembering(keeper)
    running = Running(session, server)
    ring = a_ring(session)
    write_rows(ring, 0, 50)
    running.service.keep()
    meter = TableSpec(name="sent_supply", kind=EntityKind.SUPPLY, entities=WIDE.entities, signals=("power_w",))
    Ring.create(
        session.readings_ring_path,
        [meter],
        node="node0",
        topology=Topology(entities=meter.entities),
        simulated=True,
        rows={"sent_supply": 8},
    ).close()
    write_rows(ring, 50, 10)
    running.service.keep()
    assert server.rows == 60
    assert rollups(session) == means(2), "the second that is open stays open"
    running.close()


def test_a_service_that_starts_again_keeps_each_row_once_and_whole_seconds(session: Session) -> None:
    ring = a_ring(session)
    write_rows(ring, 0, 50)
    first = Running(session)
    first.service.keep()
    first.close()  # as dead as by a kill: nothing was flushed
    write_rows(ring, 50, 35)
    second = Running(session)
    second.service.keep()
    assert raw(session) == [float(n) for n in range(85)]
    assert rollups(session) == means(4)
    second.close()


def test_rows_survive_a_kill_of_the_real_service(session: Session) -> None:
    start_ns = CLOCK.utc_ns() // NS_PER_S * NS_PER_S - 100 * NS_PER_S
    ring = a_ring(session)
    write_rows(ring, 0, 200, start_ns=start_ns)
    supervisor = Supervisor(session.run_dir, CLOCK)
    spec = ChildSpec(name="service", module="railwatch.processes.service", environ=dict(os.environ))
    try:
        address = supervisor.start(spec)["address"]
        _wait_for_rows(session, 100)
        page = HTTPConnection(urlsplit(address).netloc, timeout=5)
        page.request("GET", "/api/v1/health")
        assert page.getresponse().status == 200
        page.close()
        os.kill(supervisor._children["service"].process.pid, signal.SIGKILL)
        supervisor.stop("service")
        write_rows(ring, 200, 130, start_ns=start_ns)
        supervisor.start(spec)
        _wait_for_rows(session, 330)
        write_rows(ring, 330, 20, start_ns=start_ns)
        assert supervisor.stop("service") == 0
    finally:
        supervisor.stop_all()
    assert _raw_now(session) == [float(n) for n in range(350)]


def _raw_now(session: Session) -> list[float]:
    reader = EmbeddedReader(session.config.data_dir / "store")
    frames = [f for f in reader.frames(start_ns=0, stop_ns=1 << 62) if f.spec.name == "supply"]
    reader.close()
    return sorted(float(value) for frame in frames for value in frame.signal("voltage_v")[:, 0])


def _wait_for_rows(session: Session, count: int) -> None:
    end_s = CLOCK.monotonic_s() + 10
    while len(_raw_now(session)) < count:
        assert CLOCK.monotonic_s() < end_s, "the rows did not come"
        CLOCK.sleep_until(CLOCK.monotonic_s() + 0.1)


def test_a_ring_that_another_one_replaces_is_read_to_its_end(session: Session, running: Running) -> None:
    ring = a_ring(session)
    write_rows(ring, 0, 30)
    running.service.keep()
    write_rows(ring, 30, 7)
    ring.close()
    wider = a_ring(session, WIDE)
    write_rows(wider, 40, 15)
    running.service.keep()
    running.service.keep(at_end=True)
    assert raw(session) == [float(n) for n in (*range(37), *range(40, 55))]
    assert set(rollups(session)) == {0, 1, 2}
    assert rollups(session)[1] == np.mean(range(20, 37))


def test_a_table_that_counts_anew_is_read_from_its_beginning(session: Session, running: Running) -> None:
    ring = a_ring(session)
    write_rows(ring, 0, 5)
    running.service.keep()
    running.service._next["supply"] = 1000
    write_rows(ring, 5, 5)
    running.service.keep()
    assert set(raw(session)) == {float(n) for n in range(10)}


def test_without_a_ring_the_service_waits_and_says_how_the_store_does(session: Session, running: Running) -> None:
    running.service.keep()
    a_ring(session)
    running.service.keep()
    assert raw(session) == []
    assert running.service._rows_lost == 0


def test_rows_that_were_overwritten_are_counted(session: Session, running: Running) -> None:
    ring = a_ring(session, rows=20)
    write_rows(ring, 0, 10)
    running.service.keep()
    write_rows(ring, 10, 50)
    running.service.keep()
    assert running.service._rows_lost == 30
    assert len(raw(session)) == 30


def test_records_reach_the_record_file_and_the_page_once(session: Session, running: Running) -> None:
    journal = JournalWriter(session.journal_dir / "guard.jsonl")
    for number in range(3):
        journal.append(an_event(number))
    running.service.follow_journals()
    assert [record.id for record in running.page.records().events] == ["e2", "e1", "e0"]
    running.close()
    again = Running(session)
    again.service.follow_journals()
    journal.append(an_event(3))
    again.service.follow_journals()
    assert [len(again.records.history(f"e{n}")) for n in range(4)] == [1] * 4
    again.close()
    journal.close()


TROUBLE = "/data/records.sqlite: No space left on device"


class FullRecords:
    """A record file whose disk is full until it is not."""

    def __init__(self) -> None:
        self.full = True
        self.kept: list[Record] = []

    def append(self, records: Sequence[Record]) -> None:
        if self.full:
            raise TransientError(TROUBLE)
        self.kept += records


def test_records_that_cannot_be_written_are_told_once_and_kept_for_later(
    session: Session, caplog: pytest.LogCaptureFixture
) -> None:
    running, full = Running(session), FullRecords()
    service = Service(session, running.keeper, full, running.page, running.clock)  # type: ignore[arg-type]
    journal = JournalWriter(session.journal_dir / "guard.jsonl")
    for number in range(3):
        journal.append(an_event(number))
        service.follow_journals()
    assert caplog.text.count(f"records cannot be written: {TROUBLE}") == 1
    assert not (session.journal_dir / "guard.position").exists()
    assert [record.id for record in running.page.records().events] == ["e2", "e1", "e0"]
    assert said_in(session.service_status_path) == {"records_waiting": 3, "records_lost": 0, "trouble": TROUBLE}
    assert running.page.trouble == TROUBLE
    full.full = False
    service.follow_journals()
    assert said_in(session.service_status_path) == {"records_waiting": 0, "records_lost": 0, "trouble": ""}
    assert running.page.trouble == ""
    assert [record.id for record in full.kept] == ["e0", "e1", "e2"]
    service.follow_journals()
    assert len(full.kept) == 3
    journal.close()
    running.close()


def test_records_that_wait_are_bounded_and_what_is_dropped_is_counted(session: Session) -> None:
    running = Running(session)
    service = Service(session, running.keeper, FullRecords(), running.page, running.clock)  # type: ignore[arg-type]
    service._unwritten = [an_event(n) for n in range(MAX_UNWRITTEN + 5)]
    service.follow_journals()
    assert service.records_lost == 5
    assert service._unwritten[0].id == "e5"
    running.close()


def test_a_position_that_cannot_be_written_ends_nothing(session: Session, running: Running) -> None:
    journal = JournalWriter(session.journal_dir / "guard.jsonl")
    journal.append(an_event(0))
    (session.journal_dir / "guard.new").mkdir()
    running.service.follow_journals()
    assert running.records.get("e0") is not None
    journal.close()


class FullStore:
    """Stands for the embedded store on a full disk."""

    def write_raw(self, frames: Sequence[Frame]) -> None:
        raise TransientError("embedded store: samples not kept: database or disk is full")

    write_rollups = write_raw

    def newest_raw_ns(self, spec: TableSpec) -> int | None:
        return None

    def close(self) -> None:
        """Nothing to let go."""


def test_a_full_disk_is_told_and_counted_and_sampling_goes_on(session: Session) -> None:
    keeper = EmbeddedKeeper(session.config.data_dir / "store", session.config.store, FakeClock())
    keeper._store.close()
    keeper._store = FullStore()  # type: ignore[assignment]
    running = Running(session, keeper)
    ring = a_ring(session)
    write_rows(ring, 0, 50)
    running.service.keep()
    status: StoreStatus = keeper.status()
    assert "disk is full" in status.detail
    assert status.state.value == "refused"
    assert status.dropped_points >= 50
    assert keeper.errors() == 1
    write_rows(ring, 50, 5)
    assert ring.tables["supply"].count == 55
    running.close()


def test_a_kill_between_journal_and_store_loses_no_record(session: Session) -> None:
    with stub_store() as server:
        config = session.config
        store = config.store.model_copy(update={"kind": StoreKind.INFLUXDB1, "url": server.url})
        session = replace(session, config_json=config.model_copy(update={"store": store}).model_dump_json())
        journal = JournalWriter(session.journal_dir / "guard.jsonl")
        journal.append(an_event(0))
        first = Running(session)
        first.service.follow_journals()
        assert (session.journal_dir / "guard.position").exists()
        first.close()  # as dead as by a kill: `keep` was never called
        second = Running(session)
        second.service.follow_journals()
        second.service.keep()
        second.close()
        journal.close()
        assert len([line for line in server.lines() if b'id="e0"' in line]) == 1


class Unreadable:
    """Stands for an embedded store that cannot be read until it can."""

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper
        self.fails = True
        self.keep, self.status, self.errors, self.close = keeper.keep, keeper.status, keeper.errors, keeper.close

    def newest_ns(self, spec: TableSpec) -> int | None:
        if self.fails:
            raise TransientError("embedded store: cannot be read now: disk I/O error")
        return self._keeper.newest_ns(spec)


def test_rows_wait_in_the_ring_while_the_store_cannot_be_read(
    session: Session, running: Running, caplog: pytest.LogCaptureFixture
) -> None:
    keeper = Unreadable(running.keeper)
    service = Service(session, keeper, running.records, running.page, running.clock)
    write_rows(a_ring(session), 0, 30)
    service.keep()
    service.keep()
    assert caplog.text.count("disk I/O error") == 1
    keeper.fails = False
    service.keep()
    assert raw(session) == [float(n) for n in range(30)]


def test_rows_stamped_after_a_step_back_of_the_clock_are_counted_where_they_are_left_out(session: Session) -> None:
    ring = a_ring(session)
    write_rows(ring, 0, 40)
    first = Running(session)
    first.service.keep()
    first.close()
    write_rows(ring, 40, 5)
    write_rows(ring, 45, 7, start_ns=START_NS - 10 * NS_PER_S)
    second = Running(session)
    second.service.keep()
    assert raw(session) == [float(n) for n in range(45)]
    assert second.service._rows_lost == 7
    second.close()


def test_the_journal_of_an_earlier_run_is_not_shown_as_this_runs_past(tmp_path: Path) -> None:
    earlier = a_session(tmp_path)
    journal = JournalWriter(earlier.journal_dir / "guard.jsonl")
    journal.append(an_event(0))
    journal.append(an_event(1))
    now_ns = START_NS + NS_PER_S
    this = a_session(tmp_path, started_ns=now_ns)
    running = Running(this)
    running.service.follow_journals()
    journal.append(an_event(2, time_ns=now_ns))
    running.service.follow_journals()
    assert [record.id for record in running.page.records().events] == ["e2"]
    assert running.records.get("e0") is not None, "it is kept all the same"
    running.close()
    journal.close()


def test_on_real_hardware_the_past_of_the_node_is_shown(tmp_path: Path) -> None:
    session = a_session(tmp_path, simulated=False, started_ns=START_NS + NS_PER_S)
    journal = JournalWriter(session.journal_dir / "guard.jsonl")
    journal.append(an_event(0))
    running = Running(session)
    running.service.follow_journals()
    assert [record.id for record in running.page.records().events] == ["e0"]
    running.close()
    journal.close()


def test_the_page_goes_on_with_a_ring_that_replaced_another(session: Session, running: Running) -> None:
    ring = a_ring(session)
    write_rows(ring, 0, 30)
    assert len(running.page.updates({"supply": START_NS + 25 * ROW_NS})[0]) == 4
    ring.close()
    wider = a_ring(session, WIDE)
    write_rows(wider, 30, 3)
    (frame,) = running.page.updates({"supply": START_NS + 25 * ROW_NS})
    assert frame.spec.signals == WIDE.signals
    assert len(frame) == 3
