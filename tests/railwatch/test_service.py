"""The service: every row once, whatever is killed, on a full disk too; its records stand in `test_service_records`."""

import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest

from agent.ring.ring import Ring
from dashboards.page.source import StoreStatus
from railwatch.processes.service import Service
from railwatch.run_context import RunContext
from railwatch.supervisor import ChildSpec, Supervisor
from railwatch.wiring.sample_store import EmbeddedWriter, StoreWriter, open_store_writer
from telemetry.clock import NS_PER_S, SystemClock
from telemetry.entities import EntityKind, Topology
from telemetry.errors import TransientError
from telemetry.frames import Frame, TableSpec
from telemetry.records import Record
from telemetry.store.embedded import EmbeddedReader
from tests.agent.fakes import START_NS, FakeClock
from tests.railwatch.a_run import ROW_NS, WIDE, a_ring, a_run_context, write_rows
from tests.railwatch.a_service import Running

END_NS = START_NS + 3600 * NS_PER_S
CLOCK = SystemClock()


@pytest.fixture
def context(tmp_path: Path) -> RunContext:
    return a_run_context(tmp_path)


@pytest.fixture
def running(context: RunContext) -> Iterator[Running]:
    made = Running(context)
    yield made
    made.close()


def raw(context: RunContext) -> list[float]:
    """The numbers of the rows in the store, in order of time; a row that is there twice shows twice."""
    reader = EmbeddedReader(context.config.data_dir / "store")
    frames = [f for f in reader.frames(start_ns=0, stop_ns=END_NS) if f.spec.name == "supply"]
    reader.close()
    return sorted(float(value) for frame in frames for value in frame.signal("voltage_v")[:, 0])


def rollups(context: RunContext, name: str = "voltage_v_mean") -> dict[int, float]:
    reader = EmbeddedReader(context.config.data_dir / "store")
    signals = [name.rpartition("_")[0]]
    found = reader.series(EntityKind.SUPPLY, signals, start_ns=0, stop_ns=END_NS, step_ns=NS_PER_S)
    reader.close()
    seconds = (found.time_ns - START_NS) // NS_PER_S
    return dict(zip(seconds.tolist(), found.signal(name)[:, 0].tolist(), strict=True))


def means(seconds: int) -> dict[int, float]:
    return {second: 20 * second + 9.5 for second in range(seconds)}


def test_rows_and_complete_seconds_go_to_the_store_and_the_open_one_at_the_end(
    context: RunContext, running: Running
) -> None:
    ring = a_ring(context)
    write_rows(ring, 0, 50)
    running.service.store_rows()
    assert raw(context) == [float(n) for n in range(50)]
    assert rollups(context) == means(2)
    write_rows(ring, 50, 10)
    running.service.store_rows(at_end=True)
    assert raw(context) == [float(n) for n in range(60)]
    assert rollups(context) == means(3)


class Remembering:
    """Server: keeps what it receives, and cannot report what it has."""

    interval_s = 1.0

    def __init__(self, writer: StoreWriter) -> None:
        self._writer = writer
        self.rows = 0

    def write(self, raw: Sequence[Frame], rollups: Sequence[Frame], records: Sequence[Record]) -> None:
        self.rows += sum(len(frame) for frame in raw if frame.spec.name == "supply")
        self._writer.write(raw, rollups, records)

    def describe(self, measurement: str, fields: Mapping[str, float | str]) -> None:
        self._writer.describe(measurement, fields)

    def status(self) -> StoreStatus:
        return self._writer.status()

    def errors(self) -> int:
        return self._writer.errors()

    def newest_ns(self, spec: TableSpec) -> int | None:
        del spec
        return None

    def close(self) -> None:
        self._writer.close()


def test_a_meter_that_comes_sends_no_row_of_the_main_ring_again(context: RunContext) -> None:
    writer = open_store_writer(context.config, node="node0", simulated=True, clock=FakeClock())
    server = Remembering(writer)
    running = Running(context, server)
    ring = a_ring(context)
    write_rows(ring, 0, 50)
    running.service.store_rows()
    meter = TableSpec(name="sent_supply", kind=EntityKind.SUPPLY, entities=WIDE.entities, signals=("power_w",))
    Ring.create(
        context.readings_ring_path,
        [meter],
        node="node0",
        topology=Topology(entities=meter.entities),
        simulated=True,
        rows={"sent_supply": 8},
    ).close()
    write_rows(ring, 50, 10)
    running.service.store_rows()
    assert server.rows == 60
    assert rollups(context) == means(2), "the second that is open stays open"
    running.close()


def test_a_service_that_starts_again_keeps_each_row_once_and_whole_seconds(context: RunContext) -> None:
    ring = a_ring(context)
    write_rows(ring, 0, 50)
    first = Running(context)
    first.service.store_rows()
    first.close()  # as dead as by a kill: nothing was flushed
    write_rows(ring, 50, 35)
    second = Running(context)
    second.service.store_rows()
    assert raw(context) == [float(n) for n in range(85)]
    assert rollups(context) == means(4)
    second.close()


def test_rows_survive_a_kill_of_the_real_service(context: RunContext) -> None:
    start_ns = CLOCK.utc_ns() // NS_PER_S * NS_PER_S - 100 * NS_PER_S
    ring = a_ring(context)
    write_rows(ring, 0, 200, start_ns=start_ns)
    supervisor = Supervisor(context.run_dir, CLOCK)
    spec = ChildSpec(name="service", module="railwatch.processes.service", environ=dict(os.environ))
    try:
        address = supervisor.start(spec)["address"]
        _wait_for_rows(context, 100)
        page = HTTPConnection(urlsplit(address).netloc, timeout=5)
        page.request("GET", "/api/v1/health")
        assert page.getresponse().status == 200
        page.close()
        os.kill(supervisor._children["service"].process.pid, signal.SIGKILL)
        supervisor.stop("service")
        write_rows(ring, 200, 130, start_ns=start_ns)
        supervisor.start(spec)
        _wait_for_rows(context, 330)
        write_rows(ring, 330, 20, start_ns=start_ns)
        assert supervisor.stop("service") == 0
    finally:
        supervisor.stop_all()
    assert _raw_now(context) == [float(n) for n in range(350)]


def _raw_now(context: RunContext) -> list[float]:
    reader = EmbeddedReader(context.config.data_dir / "store")
    frames = [f for f in reader.frames(start_ns=0, stop_ns=1 << 62) if f.spec.name == "supply"]
    reader.close()
    return sorted(float(value) for frame in frames for value in frame.signal("voltage_v")[:, 0])


def _wait_for_rows(context: RunContext, count: int) -> None:
    end_s = CLOCK.monotonic_s() + 60
    while len(_raw_now(context)) < count:
        assert CLOCK.monotonic_s() < end_s, "the rows did not come"
        CLOCK.sleep_until(CLOCK.monotonic_s() + 0.1)


def test_a_ring_that_another_one_replaces_is_read_to_its_end(context: RunContext, running: Running) -> None:
    ring = a_ring(context)
    write_rows(ring, 0, 30)
    running.service.store_rows()
    write_rows(ring, 30, 7)
    ring.close()
    wider = a_ring(context, WIDE)
    write_rows(wider, 40, 15)
    running.service.store_rows()
    running.service.store_rows(at_end=True)
    assert raw(context) == [float(n) for n in (*range(37), *range(40, 55))]
    assert set(rollups(context)) == {0, 1, 2}
    assert rollups(context)[1] == np.mean(range(20, 37))


def test_a_table_that_counts_again_is_read_from_its_beginning(context: RunContext, running: Running) -> None:
    ring = a_ring(context)
    write_rows(ring, 0, 5)
    running.service.store_rows()
    running.service._next["supply"] = 1000
    write_rows(ring, 5, 5)
    running.service.store_rows()
    assert set(raw(context)) == {float(n) for n in range(10)}


def test_without_a_ring_the_service_waits_and_states_how_the_store_does(context: RunContext, running: Running) -> None:
    running.service.store_rows()
    a_ring(context)
    running.service.store_rows()
    assert raw(context) == []
    assert running.service._rows_lost == 0


def test_rows_that_were_overwritten_are_counted(context: RunContext, running: Running) -> None:
    ring = a_ring(context, rows=20)
    write_rows(ring, 0, 10)
    running.service.store_rows()
    write_rows(ring, 10, 50)
    running.service.store_rows()
    assert running.service._rows_lost == 30
    assert len(raw(context)) == 30


class FullStore:
    """Stands for the embedded store on a full disk."""

    def write_raw(self, frames: Sequence[Frame]) -> None:
        raise TransientError("embedded store: cannot write samples: database or disk is full")

    write_rollups = write_raw

    def newest_raw_ns(self, spec: TableSpec) -> int | None:
        return None

    def close(self) -> None:
        """Nothing to let go."""


def test_a_full_disk_is_reported_and_counted_and_sampling_goes_on(context: RunContext) -> None:
    writer = EmbeddedWriter(context.config.data_dir / "store", context.config.store, FakeClock())
    writer._store.close()
    writer._store = FullStore()  # type: ignore[assignment]
    running = Running(context, writer)
    ring = a_ring(context)
    write_rows(ring, 0, 50)
    running.service.store_rows()
    status: StoreStatus = writer.status()
    assert "disk is full" in status.detail
    assert status.state.value == "refused"
    assert status.dropped_points == 0  # they are written again with the next rows
    assert writer.errors() == 1
    running.service.store_rows()
    assert writer.status().dropped_points >= 50
    assert writer.errors() == 2
    write_rows(ring, 50, 5)
    assert ring.tables["supply"].count == 55
    running.close()


def test_rows_of_a_failed_write_are_written_with_the_next(context: RunContext) -> None:
    writer = EmbeddedWriter(context.config.data_dir / "store", context.config.store, FakeClock())
    running, real = Running(context, writer), writer._store
    writer._store = FullStore()  # type: ignore[assignment]
    ring = a_ring(context)
    write_rows(ring, 0, 30)
    running.service.store_rows()
    writer._store = real
    write_rows(ring, 30, 10)
    running.service.store_rows()
    assert raw(context) == [float(n) for n in range(40)]
    assert writer.status().dropped_points == 0
    running.close()


class Unreadable:
    """Stands for an embedded store that cannot be read until it can."""

    interval_s = 1.0

    def __init__(self, writer: StoreWriter) -> None:
        self._writer = writer
        self.fails = True
        self.write, self.status, self.errors, self.close = writer.write, writer.status, writer.errors, writer.close
        self.describe = writer.describe

    def newest_ns(self, spec: TableSpec) -> int | None:
        if self.fails:
            raise TransientError("embedded store: cannot be read now: disk I/O error")
        return self._writer.newest_ns(spec)


def test_rows_wait_in_the_ring_while_the_store_cannot_be_read(
    context: RunContext, running: Running, caplog: pytest.LogCaptureFixture
) -> None:
    writer = Unreadable(running.writer)
    service = Service(context, writer, running.records, running.page, running.clock)
    write_rows(a_ring(context), 0, 30)
    service.store_rows()
    service.store_rows()
    assert caplog.text.count("disk I/O error") == 1
    writer.fails = False
    service.store_rows()
    assert raw(context) == [float(n) for n in range(30)]


def test_rows_stamped_after_a_step_back_of_the_clock_are_counted_where_they_are_left_out(context: RunContext) -> None:
    ring = a_ring(context)
    write_rows(ring, 0, 40)
    first = Running(context)
    first.service.store_rows()
    first.close()
    write_rows(ring, 40, 5)
    write_rows(ring, 45, 7, start_ns=START_NS - 10 * NS_PER_S)
    second = Running(context)
    second.service.store_rows()
    assert raw(context) == [float(n) for n in range(45)]
    assert second.service._rows_lost == 7
    second.close()


def test_the_page_goes_on_with_a_ring_that_replaced_another(context: RunContext, running: Running) -> None:
    ring = a_ring(context)
    write_rows(ring, 0, 30)
    assert len(running.page.updates({"supply": START_NS + 25 * ROW_NS})[0]) == 4
    ring.close()
    wider = a_ring(context, WIDE)
    write_rows(wider, 30, 3)
    (frame,) = running.page.updates({"supply": START_NS + 25 * ROW_NS})
    assert frame.spec.signals == WIDE.signals
    assert len(frame) == 3
