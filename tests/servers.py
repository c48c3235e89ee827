"""Real time-series servers for integration tests, as plain processes on free loopback ports in a temporary directory.

::

    with influxd() as server:
        server.query("CREATE DATABASE railwatch")

A test that takes the server down and up again enters `influxd` twice with the same `directory` and `port`.
"""

import contextlib
import json
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import urllib3

from tests.services import free_port, require

START_LIMIT_S = 60.0
POLL_S = 0.05

_INFLUXD_CONFIG = """\
reporting-enabled = false
bind-address = "127.0.0.1:{rpc_port}"
[meta]
  dir = "{directory}/meta"
[data]
  dir = "{directory}/data"
  wal-dir = "{directory}/wal"
  index-version = "tsi1"
[monitor]
  store-enabled = false
[http]
  bind-address = "127.0.0.1:{port}"
  log-enabled = false
  auth-enabled = {auth}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """One running server; `url` has no slash at its end."""

    url: str
    port: int
    directory: Path
    process: subprocess.Popen[bytes]

    def get(self, path: str, *, method: str = "GET", **fields: str) -> str:
        """Return the text of one answer; AssertionError where the status is not 2xx."""
        answer = urllib3.request(method, self.url + path, fields=fields, timeout=20, retries=False)
        text: str = answer.data.decode()
        assert 200 <= answer.status < 300, f"{path}: {answer.status} {text}"
        return text

    def query(self, statement: str, *, db: str | None = None, **more: str) -> list[dict[str, Any]]:
        """Run InfluxQL (InfluxDB only) and return the series of all its statements, times in ns."""
        fields = {"q": statement, "epoch": "ns", **more} | ({} if db is None else {"db": db})
        results = json.loads(self.get("/query", method="POST", **fields))["results"]
        for result in results:
            assert "error" not in result, result["error"]
        return [series for result in results for series in result.get("series", [])]

    def export(self, match: str, *, samples: int = 1, auth: str | None = None) -> list[dict[str, Any]]:
        """Return the series that a selector matches (VictoriaMetrics only): metric, values, timestamps in ms.

        New series show up within a second or so: asks again until there are as many samples as expected.
        """
        headers = {} if auth is None else urllib3.make_headers(basic_auth=auth)
        series: list[dict[str, Any]] = []
        for _ in range(int(60 / POLL_S)):
            for path, fields in (("/internal/force_flush", {}), ("/api/v1/export", {"match[]": match})):
                answer = urllib3.request(
                    "GET", self.url + path, fields=fields, headers=headers, timeout=20, retries=False
                )
                assert answer.status == 200, answer.data
            series = [json.loads(line) for line in answer.data.decode().splitlines()]
            if sum(len(item["values"]) for item in series) >= samples:
                break
            threading.Event().wait(POLL_S)
        return series


@contextlib.contextmanager
def influxd(
    *, directory: Path | None = None, port: int | None = None, auth: bool = False, tmp: Path | None = None
) -> Iterator[Server]:
    """Run InfluxDB 1.x until the block ends."""
    program = require("influxd")
    with _home(directory, tmp) as home:
        port = port or free_port()
        config = home / "influxdb.conf"
        config.write_text(
            _INFLUXD_CONFIG.format(directory=home, port=port, rpc_port=free_port(), auth=str(auth).lower())
        )
        with _running([program, "-config", str(config)], home=home, port=port, ready="/ping") as server:
            yield server


@contextlib.contextmanager
def victoria_metrics(
    *,
    directory: Path | None = None,
    port: int | None = None,
    basic_auth: tuple[str, str] | None = None,
    tmp: Path | None = None,
) -> Iterator[Server]:
    """Run VictoriaMetrics until the block ends; `basic_auth` is (user, password)."""
    program = require("victoria-metrics")
    with _home(directory, tmp) as home:
        port = port or free_port()
        command = [
            program,
            f"-storageDataPath={home / 'vm'}",
            f"-httpListenAddr=127.0.0.1:{port}",
            "-retentionPeriod=12",
            "-search.latencyOffset=1ms",
        ]
        if basic_auth is not None:
            command += [f"-httpAuth.username={basic_auth[0]}", f"-httpAuth.password={basic_auth[1]}"]
        with _running(command, home=home, port=port, ready="/health") as server:
            yield server


@contextlib.contextmanager
def _home(directory: Path | None, tmp: Path | None) -> Iterator[Path]:
    if directory is not None:
        directory.mkdir(parents=True, exist_ok=True)
        yield directory
        return
    with tempfile.TemporaryDirectory(prefix="railwatch-server-", dir=tmp) as made:
        yield Path(made)


@contextlib.contextmanager
def _running(command: list[str], *, home: Path, port: int, ready: str) -> Iterator[Server]:
    log = home / "server.log"
    with log.open("ab") as sink:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink)
    server = Server(url=f"http://127.0.0.1:{port}", port=port, directory=home, process=process)
    try:
        _await_ready(server, ready, log)
        yield server
    finally:
        process.terminate()
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _await_ready(server: Server, path: str, log: Path) -> None:
    pause = threading.Event()
    for _ in range(int(START_LIMIT_S / POLL_S)):
        if server.process.poll() is not None:
            break
        try:
            # 401 is an answer too: a server with passwords is up.
            if urllib3.request("GET", server.url + path, timeout=2, retries=False).status in (200, 204, 401):
                return
        except urllib3.exceptions.HTTPError:
            pass
        pause.wait(POLL_S)
    raise AssertionError(f"{server.process.args!r} did not start: {log.read_text(errors='replace')[-2000:]}")
