"""Readings of other programs: from their sockets into rows with their own times."""

import contextlib
import socket
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from agent.collectors.readings.listener import MAX_CONNECTIONS, ListenerSettings
from agent.collectors.readings.source import Readings, ReadingsSettings
from agent.collectors.readings.tables import MAX_ENTITIES
from agent.ring.ring import Ring
from telemetry.clock import NS_PER_S
from telemetry.errors import NotPermittedError, TransientError
from telemetry.frames import Frame
from tests.agent.fakes import START_NS, FakeClock

Maker = Callable[..., Readings]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def make(tmp_path: Path, clock: FakeClock) -> Iterator[Maker]:
    made: list[Readings] = []

    def make_it(*, group: str = "", tcp_port: int | None = None) -> Readings:
        listener = ListenerSettings(path=tmp_path / "readings.sock", group=group, tcp_port=tcp_port)
        settings = ReadingsSettings(listener=listener, ring_path=tmp_path / "ring", ring_s=60.0, simulated=False)
        source = Readings(settings, node="node0", clock=clock)
        made.append(source)
        return source

    yield make_it
    for source in made:
        source.close()


def _send(root: Path, *lines: str) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        for line in lines:
            sock.sendto(line.encode(), str(root / "readings.sock"))


def _fill(sock: socket.socket, line: bytes) -> int:
    """Send lines until the kernel takes no more; return how many."""
    sent_bytes = 0
    try:
        while True:
            sent_bytes += sock.send(line * 50)
    except BlockingIOError:
        return sent_bytes // len(line)


def _table(root: Path, name: str) -> Frame:
    ring = Ring.attach(root / "ring")
    frame = ring.tables[name].read(0).frame
    ring.close()
    return frame


def test_a_datagram_becomes_a_row_with_the_time_of_its_arrival(tmp_path: Path, clock: FakeClock, make: Maker) -> None:
    source = make()
    source.open()
    _send(tmp_path, "job,key=17 steps=5")
    assert source.poll(0.2) == ()
    frame = _table(tmp_path, "sent_job")
    assert [entity.key for entity in frame.spec.entities] == ["17"]
    assert frame.signal("steps").tolist() == [[5.0]]
    assert frame.time_ns.tolist() == [START_NS]


def test_own_times_are_kept_and_several_signals_are_one_row(tmp_path: Path, clock: FakeClock, make: Maker) -> None:
    source = make()
    source.open()
    times_ns = [START_NS - 2 * NS_PER_S, START_NS - NS_PER_S + 7, START_NS - 3]
    _send(tmp_path, *(f"supply,key=plug input_power_w={n},input_voltage_v=230 {t}" for n, t in enumerate(times_ns)))
    source.poll(0.2)
    frame = _table(tmp_path, "sent_supply")
    assert frame.time_ns.tolist() == times_ns
    assert frame.signal("input_power_w")[:, 0].tolist() == [0.0, 1.0, 2.0]
    assert frame.fresh.all()


def test_lines_of_one_fetch_are_all_kept_in_their_order(tmp_path: Path, clock: FakeClock, make: Maker) -> None:
    source = make()
    source.open()
    _send(tmp_path, "job,key=17 steps=5", "job,key=18 steps=1", "job,key=17 steps=6", "job,key=17 steps=7")
    source.poll(0.2)
    frame = _table(tmp_path, "sent_job")
    assert frame.values[:, 0, 0].tolist() == [5.0, 6.0, 7.0]
    assert frame.time_ns.tolist() == [START_NS, START_NS + 1, START_NS + 2]
    assert frame.fresh[:, 1, 0].tolist() == [True, False, False]


def test_values_are_held_and_only_new_ones_are_fresh(tmp_path: Path, clock: FakeClock, make: Maker) -> None:
    source = make()
    source.open()
    _send(tmp_path, "supply,key=a power_w=1", "supply,key=b power_w=2")
    source.poll(0.2)
    _send(tmp_path, "supply,key=b power_w=2")
    source.poll(0.2)
    frame = _table(tmp_path, "sent_supply")
    assert frame.values[-1, :, 0].tolist() == [1.0, 2.0]
    assert frame.fresh[-1, :, 0].tolist() == [False, True], "the same number sent again is a new update"


def test_a_late_line_is_a_row_of_its_time_and_changes_no_current_value(
    tmp_path: Path, clock: FakeClock, make: Maker
) -> None:
    source = make()
    source.open()
    late = f"job,key=17 steps=8 {START_NS - NS_PER_S}"
    for lines in ([f"job,key=17 steps=9 {START_NS}", "job,key=18 steps=1"], [late], ["job,key=18 steps=2"]):
        _send(tmp_path, *lines)
        source.poll(0.2)
    ring = Ring.attach(tmp_path / "ring")
    before, behind = ring.tables["sent_job"].read(0), ring.tables["sent_job"].read(1)
    ring.close()
    assert before.next == 1, "a frame ends where time goes back"
    assert behind.frame.time_ns[0] == START_NS - NS_PER_S
    assert behind.frame.values[:, :, 0].tolist() == [[8.0, 1.0], [9.0, 2.0]]
    assert behind.frame.fresh[:, :, 0].tolist() == [[True, False], [False, True]]


def test_a_new_entity_gets_a_column_and_nothing_of_the_ring_before_is_taken_from_its_readers(
    tmp_path: Path, clock: FakeClock, make: Maker
) -> None:
    source = make()
    source.open()
    _send(tmp_path, "supply,key=a power_w=1")
    source.poll(0.2)
    before = Ring.attach(tmp_path / "ring")
    _send(tmp_path, "supply,key=b input_power_w=9")
    source.poll(0.2)
    assert not before.current
    assert before.tables["sent_supply"].read(0).frame.values[:, 0, 0].tolist() == [1.0]
    before.close()
    frame = _table(tmp_path, "sent_supply")
    assert [entity.key for entity in frame.spec.entities] == ["a", "b"]
    assert np.array_equal(frame.signal("power_w")[-1], [1.0, np.nan], equal_nan=True)
    assert frame.signal("input_power_w")[-1, 1] == 9.0


def test_who_falls_silent_is_absent_after_a_minute(tmp_path: Path, clock: FakeClock, make: Maker) -> None:
    source = make()
    source.open()
    _send(tmp_path, "job,key=17 steps=5")
    source.poll(0.2)
    clock.advance(61.0)
    source.poll(1.1)
    frame = _table(tmp_path, "sent_job")
    assert np.isnan(frame.values[-1]).all()
    assert frame.fresh[-1].all()
    rows = len(frame)
    clock.advance(5.0)
    source.poll(1.1)
    assert len(_table(tmp_path, "sent_job")) == rows, "expired once"


@pytest.mark.parametrize(
    ("offset_ns", "reason"),
    [(-6 * NS_PER_S, "6.0 s old"), (2 * NS_PER_S, "2.0 s ahead"), (-START_NS + 1_769_860_800, "expected nanoseconds")],
)
def test_a_time_that_is_not_near_now_is_refused(
    tmp_path: Path, clock: FakeClock, make: Maker, offset_ns: int, reason: str
) -> None:
    source = make()
    source.open()
    _send(tmp_path, f"job,key=17 steps=5 {START_NS + offset_ns}")
    (event,) = source.poll(0.2)
    assert reason in event.message
    assert source.kept == 0


def test_refused_lines_are_counted_and_reported_once(tmp_path: Path, clock: FakeClock, make: Maker) -> None:
    source = make()
    source.open()
    _send(tmp_path, "nonsense", "job,key=17 steps=5")
    (event,) = source.poll(0.2)
    assert event.message.startswith("1 sent line refused, the last one: 'nonsense'")
    _send(tmp_path, "nonsense", "nonsense")
    assert source.poll(1.2) == ()
    assert source.refused == 3
    counts = _table(tmp_path, "readings")
    assert counts.values[-1, 0].tolist() == [1.0, 3.0]
    clock.advance(700.0)
    (event,) = source.poll(0.2)
    assert event.message.startswith("2 sent lines refused")


def test_a_stream_carries_many_lines_and_receives_why_one_is_refused(
    tmp_path: Path, clock: FakeClock, make: Maker
) -> None:
    source = make(tcp_port=0)
    source.open()
    tcp = socket.create_connection(("127.0.0.1", source.listener.tcp_port or 0))
    unix = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    unix.connect(str(tmp_path / "readings-stream.sock"))
    with tcp, unix:
        tcp.sendall(b"job,key=17 steps=5\njob,key=17 ste")
        unix.sendall(b"nonsense\njob,key=18 steps=7")
        source.poll(0.3)
        assert unix.recv(200).startswith(b"refused: 'nonsense'")
        tcp.sendall(b"ps=6\n")
        unix.shutdown(socket.SHUT_WR)
        source.poll(0.3)
    frame = _table(tmp_path, "sent_job")
    assert [entity.key for entity in frame.spec.entities] == ["17", "18"]
    assert frame.signal("steps")[-1].tolist() == [6.0, 7.0], "the last line may end with the connection"


def test_a_line_without_end_is_refused_and_its_connection_closed(tmp_path: Path, clock: FakeClock, make: Maker) -> None:
    source = make()
    source.open()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as unix:
        unix.connect(str(tmp_path / "readings-stream.sock"))
        unix.sendall(b"x" * 6000)
        source.poll(1.0)
        assert b"expected at most 4096" in unix.recv(200)
        source.poll(0.1)
        with pytest.raises(BrokenPipeError):
            unix.sendall(b"x")
    assert source.refused == 1


def test_a_flood_costs_a_bounded_number_of_lines_a_fetch_and_the_rest_waits(
    tmp_path: Path, clock: FakeClock, make: Maker
) -> None:
    source = make()
    source.open()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as unix:
        unix.connect(str(tmp_path / "readings-stream.sock"))
        unix.settimeout(0)
        sent = _fill(unix, b"job,key=17 steps=5\n")
        source.poll(0.3)
    assert 0 < source.kept <= 3 * 400, "three fetches of some hundred short lines"
    assert sent > 3 * 400, "there was more"


def test_datagrams_full_of_lines_are_fetched_one_at_a_time(tmp_path: Path, clock: FakeClock, make: Maker) -> None:
    source = make()
    source.open()
    _send(tmp_path, *["job,key=17 steps=5\n" * 200] * 5)
    source.poll(0.1)
    assert source.kept == 200
    source.poll(0.4)
    assert source.kept == 1000, "the rest waited"


def test_entities_and_connections_are_bounded(tmp_path: Path, clock: FakeClock, make: Maker) -> None:
    source = make()
    source.open()
    for number in range(MAX_ENTITIES + 1):
        _send(tmp_path, f"job,key=j{number} steps=1")
        source.poll(0.1)
    assert (source.kept, source.refused) == (MAX_ENTITIES, 1)
    clock.advance(61.0)
    _send(tmp_path, "job,key=late steps=1")
    source.poll(0.1)
    keys = [entity.key for entity in _table(tmp_path, "sent_job").spec.entities]
    assert "late" in keys
    assert "j0" not in keys, "the oldest one is replaced"
    connections = []
    for _ in range(MAX_CONNECTIONS + 3):
        unix = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        unix.connect(str(tmp_path / "readings-stream.sock"))
        connections.append(unix)
        source.poll(0.1)
    assert source.listener.rejected_connections == 3
    for unix in connections:
        unix.close()


def test_a_killed_process_s_columns_and_sockets_are_taken_over(tmp_path: Path, clock: FakeClock, make: Maker) -> None:
    first = make()
    first.open()
    _send(tmp_path, "supply,key=a power_w=1")
    first.poll(0.2)
    left = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    first.close()
    left.bind(str(tmp_path / "readings.sock"))
    left.close()  # its file stays, as after a kill
    second = make()
    second.open()
    _send(tmp_path, "supply,key=a power_w=2")
    second.poll(0.2)
    assert _table(tmp_path, "sent_supply").signal("power_w")[:, 0].tolist() == [1.0, 2.0]


def test_only_this_user_may_send_unless_a_group_is_named(tmp_path: Path, make: Maker) -> None:
    source = make()
    source.open()
    assert stat.S_IMODE((tmp_path / "readings.sock").stat().st_mode) == 0o600
    source.close()
    source = make(group="root")
    source.open()
    assert stat.S_IMODE((tmp_path / "readings-stream.sock").stat().st_mode) == 0o660
    source.close()
    with pytest.raises(NotPermittedError, match="there is no group missing-group"):
        make(group="missing-group").open()


def test_a_place_that_is_taken_is_named(tmp_path: Path, make: Maker) -> None:
    (tmp_path / "readings.sock").write_text("")
    with pytest.raises(TransientError, match=r"readings\.sock: Address already in use"):
        make().open()


@pytest.mark.timeout(60)
def test_a_socket_of_a_process_that_accepts_no_connection_is_kept_without_waiting(tmp_path: Path, make: Maker) -> None:
    path = tmp_path / "readings-stream.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stuck, contextlib.ExitStack() as senders:
        stuck.bind(str(path))
        stuck.listen(0)
        with contextlib.suppress(BlockingIOError):
            while True:
                sender = senders.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
                sender.settimeout(0)
                sender.connect(str(path))
        with pytest.raises(TransientError, match=r"readings-stream\.sock: Address already in use"):
            make().open()
