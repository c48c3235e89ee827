import contextlib
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from telemetry.clock import SystemClock
from telemetry.rollup import Resolution
from telemetry.spool.spool import Spool
from telemetry.uplink.influx_v1 import InfluxV1, InfluxV1Settings
from telemetry.uplink.influx_v2 import InfluxV2, InfluxV2Settings
from telemetry.uplink.port import Destination, WriteReply, WriteStatus
from telemetry.uplink.sender import Sender, SenderSettings, UplinkState
from tests.services import free_port
from tests.telemetry.uplink.stub import StubStore, stub_store
from tests.waiting import wait_for

QUICK = SenderSettings(max_points=50, first_wait_s=0.02, longest_wait_s=0.1, refused_wait_s=0.05)

Connect = Callable[[str], Destination]


def by_v1(url: str) -> Destination:
    return InfluxV1(InfluxV1Settings(url=url, timeout_s=119.0))


def by_v2(url: str) -> Destination:
    return InfluxV2(InfluxV2Settings(url=url, token="t", org="o", timeout_s=119.0))


@pytest.fixture(params=[by_v1, by_v2], ids=["v1", "v2"])
def connect(request: pytest.FixtureRequest) -> Connect:
    chosen: Connect = request.param
    return chosen


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    made = Spool(tmp_path / "spool")
    yield made
    made.close()


@pytest.fixture
def store() -> Iterator[StubStore]:
    with stub_store() as made:
        yield made


def line(number: int) -> bytes:
    return b"gpu,entity=a power_w=%d %d\n" % (number, number)


def put(spool: Spool, numbers: range, resolution: Resolution = Resolution.RAW) -> None:
    spool.append(resolution, b"".join(map(line, numbers)), newest_ns=numbers[-1])


@contextlib.contextmanager
def sending(spool: Spool, destination: Destination, settings: SenderSettings = QUICK) -> Iterator[Sender]:
    sender = Sender(spool, destination, SystemClock(), settings)
    sender.start()
    try:
        yield sender
    finally:
        sender.stop(drain_s=5.0)


def test_what_is_spooled_arrives_in_order_and_once(spool: Spool, store: StubStore, connect: Connect) -> None:
    for first in range(0, 300, 30):
        put(spool, range(first, first + 30))
    with sending(spool, connect(store.url)) as sender:
        wait_for(lambda: len(store.lines()) == 300, "300 lines")
        put(spool, range(300, 310))
        wait_for(lambda: sender.status().sent_points == 310, "ten more")
    assert store.lines() == [line(number).strip() for number in range(310)]
    assert sender.status().state is UplinkState.STOPPED
    assert sender.status().waiting_points == 0


def test_each_resolution_goes_to_its_own_place(spool: Spool, store: StubStore, connect: Connect) -> None:
    put(spool, range(5), Resolution.ROLLUP)
    put(spool, range(5, 10), Resolution.RAW)
    with sending(spool, connect(store.url)):
        wait_for(lambda: len(store.lines()) == 10, "ten lines")
    places = {("raw" if b"power_w=5" in body else "rollup"): path for path, body in store.requests}
    assert "=raw" in places["raw"]
    assert "=rollup" in places["rollup"]
    assert all("precision=ns" in path for path, _ in store.requests)


def test_a_store_in_trouble_keeps_the_data_waiting(spool: Spool, store: StubStore, connect: Connect) -> None:
    store.decide = lambda _: (503, '{"error":"timeout"}')
    put(spool, range(20))
    with sending(spool, connect(store.url)) as sender:
        wait_for(lambda: sender.status().errors >= 3, "three tries")
        status = sender.status()
        assert status.state is UplinkState.AWAY
        assert "HTTP 503: timeout" in status.last_error
        assert status.waiting_points == 20
        assert status.behind_s > 0
        store.decide = lambda _: (204, "")
        wait_for(lambda: sender.status().state is UplinkState.FLOWING, "flowing again")
    assert store.lines() == [line(number).strip() for number in range(20)]
    assert sender.status().refused_points == 0


def test_without_a_server_the_data_waits_in_the_spool(spool: Spool, connect: Connect) -> None:
    put(spool, range(20))
    with sending(spool, connect(f"http://127.0.0.1:{free_port()}")) as sender:
        wait_for(lambda: sender.status().errors >= 2, "two tries")
        assert sender.status().state is UplinkState.AWAY
        assert "not reached" in sender.status().last_error
    assert spool.status().waiting_points == 20


@pytest.mark.parametrize(
    ("status", "text"), [(401, '{"error":"authorization failed"}'), (403, ""), (404, '{"error":"database not found"}')]
)
def test_a_refusal_keeps_the_data_and_states_so(
    spool: Spool, store: StubStore, connect: Connect, status: int, text: str
) -> None:
    store.decide = lambda _: (status, text)
    put(spool, range(20))
    with sending(spool, connect(store.url)) as sender:
        wait_for(lambda: sender.status().errors >= 2, "two tries")
        assert sender.status().state is UplinkState.REFUSED
        assert f"HTTP {status}" in sender.status().last_error
        assert sender.status().waiting_points == 20
        store.decide = lambda _: (204, "")
        wait_for(lambda: sender.status().sent_points == 20, "sent in the end")
    assert len(store.lines()) == 20


def test_one_bad_line_does_not_hold_up_the_others(spool: Spool, store: StubStore, connect: Connect) -> None:
    bad = {line(3), line(77), line(78)}
    store.decide = lambda body: (
        (400, '{"code":"invalid","message":"unable to parse something"}')
        if any(item in body for item in bad)
        else (204, "")
    )
    for first in range(0, 100, 25):
        put(spool, range(first, first + 25))
    with sending(spool, connect(store.url)) as sender:
        wait_for(lambda: not spool.status().waiting_points, "all dealt with")
    assert store.lines() == [line(number).strip() for number in range(100) if line(number) not in bad]
    status = sender.status()
    assert (status.sent_points, status.refused_points) == (97, 3)
    assert "unable to parse" in status.last_error


def test_a_partial_write_is_not_sent_again(spool: Spool, store: StubStore, connect: Connect) -> None:
    store.decide = lambda _: (400, '{"error":"partial write: points beyond retention policy dropped=4"}')
    put(spool, range(20))
    with sending(spool, connect(store.url)) as sender:
        wait_for(lambda: not spool.status().waiting_points, "all dealt with")
    assert len(store.requests) == 1
    assert (sender.status().sent_points, sender.status().refused_points) == (16, 4)


def test_a_body_that_is_too_large_is_sent_in_parts(spool: Spool, store: StubStore, connect: Connect) -> None:
    store.decide = lambda body: (413, "too large") if body.count(b"\n") > 8 else (204, "")
    put(spool, range(50))
    with sending(spool, connect(store.url)) as sender:
        wait_for(lambda: sender.status().sent_points == 50, "all sent")
    assert store.lines() == [line(number).strip() for number in range(50)]


def test_a_store_that_asks_for_time_gets_it(spool: Spool, store: StubStore, connect: Connect) -> None:
    clock, asked_s = SystemClock(), list[float]()

    def decide(_: bytes) -> tuple[int, str]:
        asked_s.append(clock.monotonic_s())
        return (429, "slow down") if len(asked_s) == 1 else (204, "")

    store.headers = {"Retry-After": "3600"}
    store.decide = decide
    put(spool, range(5))
    patient = SenderSettings(max_points=50, first_wait_s=0.01, longest_wait_s=0.3, refused_wait_s=0.05)
    with sending(spool, connect(store.url), patient) as sender:
        wait_for(lambda: sender.status().sent_points == 5, "sent after the wait, cut to the longest")
    assert asked_s[1] - asked_s[0] >= 0.3


def test_a_stop_with_a_store_that_is_away_does_not_wait(spool: Spool) -> None:
    put(spool, range(5))
    sender = Sender(spool, by_v1(f"http://127.0.0.1:{free_port()}"), SystemClock(), SenderSettings(first_wait_s=60))
    sender.start()
    wait_for(lambda: sender.status().state is UplinkState.AWAY, "away")
    clock = SystemClock()
    began_s = clock.monotonic_s()
    sender.stop(drain_s=30.0)
    assert clock.monotonic_s() - began_s < 25


class Defective:
    """Destination with a defect: raises, though it may not, until it is repaired."""

    name = "a defective one"

    def __init__(self) -> None:
        self.defect: Exception | None = RuntimeError("boom")
        self.bodies: list[bytes] = []

    def prepare(self) -> WriteReply:
        return WriteReply(status=WriteStatus.STORED)

    def write(self, resolution: Resolution, body: bytes) -> WriteReply:
        del resolution
        if self.defect is not None:
            raise self.defect
        self.bodies.append(body)
        return WriteReply(status=WriteStatus.STORED)

    def close(self) -> None:
        """Do nothing: nothing is open."""


def test_a_defect_is_counted_and_reported_and_does_not_end_the_sending(
    spool: Spool, caplog: pytest.LogCaptureFixture
) -> None:
    put(spool, range(3))
    destination = Defective()
    with sending(spool, destination) as sender:
        wait_for(lambda: sender.status().errors >= 2, "two tries")
        assert sender.status().state is UplinkState.AWAY
        assert sender.status().last_error == "internal error: RuntimeError: boom"
        assert "Traceback" in caplog.text
        destination.defect = None
        wait_for(lambda: sender.status().sent_points == 3, "sent in the end")
    assert destination.bodies == [b"".join(map(line, range(3)))]


def test_a_stop_does_not_wait_for_a_store_that_takes_and_never_answers(
    spool: Spool, connect: Callable[[str], Destination], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("telemetry.uplink.sender._STOP_REQUEST_S", 0.2)
    put(spool, range(5))
    clock = SystemClock()
    with socket.create_server(("127.0.0.1", 0)) as hole:
        sender = Sender(spool, connect(f"http://127.0.0.1:{hole.getsockname()[1]}"), clock, QUICK)
        sender.start()
        taken, _ = hole.accept()
        with taken:
            began_s = clock.monotonic_s()
            sender.stop(drain_s=0.3)
            assert clock.monotonic_s() - began_s < 60  # a request may take two minutes
            assert sender.status().state is UplinkState.STOPPED
    wait_for(lambda: not sender._thread.is_alive(), "the abandoned request ends with its connection")
    assert sender.status().state is UplinkState.STOPPED
    assert spool.status().waiting_points == 5
