import http.client
import json
import os
import signal
import socket
import threading
from collections.abc import Iterator
from typing import Never
from urllib.parse import urlsplit

import pytest

from dashboards.page import server as server_module
from dashboards.page.app import MOST_WATCHERS, create_app
from dashboards.page.server import PageServer, bind, url_of
from telemetry.clock import NS_PER_S, SystemClock
from telemetry.errors import EnvironmentLacksError
from tests.dashboards.fakes import FakeSource
from tests.waiting import wait_for


@pytest.fixture
def source() -> FakeSource:
    clock = SystemClock()
    return FakeSource(clock=clock, started_ns=clock.utc_ns() - 90 * NS_PER_S)


@pytest.fixture
def server(source: FakeSource) -> Iterator[PageServer]:
    server = PageServer(lambda: create_app(source, clock=source.clock), bind("127.0.0.1", 0))
    server.start()
    yield server
    server.stop()


def open_live(url: str) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=10)
    connection.request("GET", "/api/v1/live?history_s=5")
    return connection, connection.getresponse()


def next_event(reply: http.client.HTTPResponse, name: str) -> dict[str, object]:
    while True:
        line = reply.readline().decode().rstrip()
        if line == f"event: {name}":
            data: dict[str, object] = json.loads(reply.readline().decode().removeprefix("data: "))
            return data


def test_the_live_stream_goes_on_until_the_server_stops(server: PageServer) -> None:
    connection, reply = open_live(server.url)
    assert reply.status == 200
    assert reply.headers["content-type"].startswith("text/event-stream")
    assert next_event(reply, "hello")["tables"]
    assert next_event(reply, "samples")["tables"]
    server.stop()
    assert isinstance(reply.read(), bytes)  # the stream ends rather than hangs
    connection.close()


def test_a_source_that_goes_away_is_reported_and_comes_back(server: PageServer, source: FakeSource) -> None:
    connection, reply = open_live(server.url)
    next_event(reply, "hello")
    source.failing = True
    assert next_event(reply, "away")["problem"] == "the ring of the sampler is not there"
    source.failing = False
    assert next_event(reply, "samples")
    connection.close()


def test_too_many_watchers_are_asked_to_come_later(server: PageServer) -> None:
    held = [open_live(server.url) for _ in range(MOST_WATCHERS)]
    for _, reply in held:
        reply.readline()
    connection, refused = open_live(server.url)
    assert refused.status == 503
    connection.close()
    for connection, reply in held:
        reply.close()
        connection.close()


def test_a_port_in_use_is_named() -> None:
    with bind("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        assert url_of(taken) == f"http://127.0.0.1:{port}/"
        with pytest.raises(EnvironmentLacksError, match=f"port {port}"):
            bind("127.0.0.1", port)


def test_an_address_of_another_machine_is_named() -> None:
    with pytest.raises(EnvironmentLacksError, match=r"192\.0\.2\.1"):
        bind("192.0.2.1", 0)


def test_a_server_that_was_never_asked_stops_at_once(source: FakeSource) -> None:
    before = set(threading.enumerate())
    server = PageServer(lambda: create_app(source, clock=source.clock), bind("127.0.0.1", 0))
    server.start()
    server.stop()
    assert set(threading.enumerate()) <= before


def test_a_page_that_cannot_be_built_ends_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: ended.append((pid, number)))

    def broken() -> Never:
        raise ImportError("no module named echarts")

    server = PageServer(broken, bind("127.0.0.1", 0))
    server.start()
    with socket.create_connection((urlsplit(server.url).hostname or "", urlsplit(server.url).port or 0)):
        wait_for(lambda: ended)
    assert ended == [(os.getpid(), signal.SIGTERM)]
    server.stop()


def test_a_missing_web_framework_is_named_at_the_start(monkeypatch: pytest.MonkeyPatch, source: FakeSource) -> None:
    monkeypatch.setattr(server_module, "find_spec", lambda name: None if name == "uvicorn" else object())
    with bind("127.0.0.1", 0) as sock, pytest.raises(EnvironmentLacksError, match="uvicorn not installed"):
        PageServer(lambda: create_app(source, clock=source.clock), sock)
