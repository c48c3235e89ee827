"""Real ``railwatch`` command as a sub-process: started, read from, and ended whatever the test does."""

import contextlib
import json
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import urllib3

import simulator
from agent.guard.foresight import is_reflex
from railwatch.run_context import RunContext, run_dir_of
from telemetry.clock import SystemClock

COMMAND = str(Path(sys.executable).with_name("railwatch"))
# What takes seconds here may take ten times that on a machine that does much else; a test that passes does not wait
# for longer than it must, so that patience costs only a failing one. heuristic.
PATIENCE_S = 90.0
# The joints give way within a second: the first half minute of psu-sag in six.
QUICK_SAG = """\
name: quick-sag
description: The joints of both supplies give way at once, so that a test sees the cap within seconds.
changes:
  - {{at: {at_s}s, what: psu0.joint_mohm, to: 13.1, over: 1s}}
  - {{at: {at_s}s, what: psu1.joint_mohm, to: 12.1, over: 1s}}
truth:
  - {{cause: joint_ageing, entities: [psu0, psu1], onset: {at_s}s}}
"""
# Keys of a record that the log of a failing test prints, where the record has them.
REPORTED = (
    "time",
    "type",
    "state",
    "status",
    "cause",
    "entity_id",
    "id",
    "incident_id",
    "detector",
    "summary",
    "reason",
)

Fields = dict[str, Any]


@dataclass(slots=True)
class Node:
    """Run of ``railwatch up --json``: `lines` from standard output, `output` from standard error."""

    process: subprocess.Popen[str]
    data_dir: Path
    run_dir: Path
    started_s: float
    lines: list[Fields] = field(default_factory=list)
    not_json: list[str] = field(default_factory=list)
    output: list[str] = field(default_factory=list)
    _news: threading.Condition = field(default_factory=threading.Condition)
    _readers: tuple[threading.Thread, ...] = ()

    def listen(self) -> None:
        self._readers = tuple(
            threading.Thread(target=target, daemon=True) for target in (self._read_lines, self._read_output)
        )
        for reader in self._readers:
            reader.start()

    def _read_lines(self) -> None:
        assert self.process.stdout is not None
        for text in self.process.stdout:
            with self._news:
                try:
                    self.lines.append(json.loads(text))
                except ValueError:
                    self.not_json.append(text)
                self._news.notify_all()

    def _read_output(self) -> None:
        assert self.process.stderr is not None
        for text in self.process.stderr:
            with self._news:
                self.output.append(text.rstrip("\n"))
                self._news.notify_all()

    def until(self, is_so: Callable[[], Any], *, what: str, within_s: float = PATIENCE_S) -> Any:
        """Poll with every line and ten times a second until the result is true; return that result."""
        end_s = SystemClock().monotonic_s() + within_s
        with self._news:
            while SystemClock().monotonic_s() < end_s:
                found = is_so()
                if found:
                    return found
                assert self.process.poll() is None or any(reader.is_alive() for reader in self._readers), self.story()
                self._news.wait(0.1)
        raise AssertionError(f"not within {within_s:.0f} s: {what}\n{self.story()}")

    def line(self, within_s: float = PATIENCE_S, **wanted: Any) -> Fields:
        """Wait for the first line with these fields."""
        found: Fields = self.until(lambda: next(iter(self.of(**wanted)), None), within_s=within_s, what=str(wanted))
        return found

    def of(self, **wanted: Any) -> list[Fields]:
        """Return the lines so far with these fields."""
        return [line for line in self.lines if all(line.get(key) == value for key, value in wanted.items())]

    def acts(self, **wanted: Any) -> list[Fields]:
        """Return actions so far with these fields that belong to an incident; a reflex precedes every incident."""
        return [line for line in self.of(type="action", **wanted) if not is_reflex(line["incident_id"])]

    @property
    def url(self) -> str:
        """The page's address, without a slash at its end."""
        return str(
            self.until(
                lambda: next((text[6:].rstrip("/") for text in self.output if text.startswith("page: ")), None),
                what="the page's address",
            )
        )

    @property
    def context(self) -> RunContext:
        return RunContext.load(self.run_dir)

    def api(self, path: str) -> Any:
        answer = urllib3.request("GET", f"{self.url}/api/v1/{path}", timeout=30, retries=False)
        assert answer.status == 200, answer.data
        return json.loads(answer.data)

    def pids(self, module: str = "railwatch.processes.") -> list[int]:
        """Return the processes of this run whose module begins with a prefix."""
        return [
            process.pid
            for process in psutil.process_iter()
            if any(part.startswith(module) for part in _text(process)) and str(self.run_dir) in _text(process)
        ]

    def end(self, number: signal.Signals = signal.SIGINT) -> int:
        """Stop the process and return its exit status."""
        self.process.send_signal(number)
        return self.wait()

    def wait(self, within_s: float = PATIENCE_S) -> int:
        """Wait until it has ended by itself; return its exit status once all its output is read."""
        status = self.process.wait(within_s)
        for reader in self._readers:
            reader.join(30.0)
        return status

    def leftovers(self) -> list[str]:
        """Return what a run left behind: processes, its run folder, its port. The data folder is to stay."""
        found = [f"process {pid}" for pid in self.pids()]
        found += [str(self.run_dir)] if self.run_dir.exists() else []
        try:
            urllib3.request("GET", f"{self.url}/api/v1/status", timeout=1, retries=False)
            found.append(self.url)
        except urllib3.exceptions.HTTPError:
            pass
        return found

    def story(self) -> str:
        """Return all output, for a failing test."""
        lines = [" ".join(str(line[key]) for key in REPORTED if line.get(key) is not None) for line in self.lines]
        return "\n".join([*lines[-60:], *self.not_json, *self.output[-60:]])


def _text(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def environment(**changes: str | None) -> dict[str, str]:
    """Return the environment of a child: ours without railwatch's variables, with changes; None removes a name."""
    ours = {key: value for key, value in os.environ.items() if not key.startswith("RAILWATCH_")}
    return {key: value for key, value in (ours | changes).items() if value is not None}


@contextlib.contextmanager
def node_up(data_dir: Path, *options: str, env: Mapping[str, str] | None = None) -> Iterator[Node]:
    """Run ``railwatch up`` with its own data folder and a free port; end all its processes in any case."""
    clock = SystemClock()
    started_s = clock.monotonic_s()
    process = subprocess.Popen(
        [COMMAND, "up", "--json", "--port", "0", "--data-dir", str(data_dir), *options],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment() if env is None else dict(env),
        cwd=tempfile.gettempdir(),
        start_new_session=True,
    )
    node = Node(process=process, data_dir=data_dir, run_dir=run_dir_of(data_dir), started_s=started_s)
    node.listen()
    try:
        yield node
    finally:
        _end_for_sure(node)


def _end_for_sure(node: Node) -> None:
    process = node.process
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
    node.wait()
    for pid in node.pids():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    shutil.rmtree(node.run_dir, ignore_errors=True)
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()


def quick_sag(folder: Path, *, at_s: int = 3) -> tuple[str, ...]:
    """Return the options that simulate a sag within seconds; its node and scenario are written into the folder."""
    path = folder / "quick-sag.yaml"
    path.write_text(QUICK_SAG.format(at_s=at_s))
    return ("--simulate", str(_steadfast(folder)), "--scenario", str(path))


def _steadfast(folder: Path) -> Path:
    """Write a node whose GPUs stay on their bus however low the voltage.

    On a slow machine the cap comes late, and every second at 11.3 V a V100 leaves the bus with a chance of a percent.
    """
    part = (Path(simulator.__file__).parent / "gpus" / "v100-sxm2-16gb.yaml").read_text(encoding="utf-8")
    steadfast, count = re.subn(r"(?m)^  rate_per_s: .*$", "  rate_per_s: 0", part)
    assert count == 1
    (folder / "steadfast.yaml").write_text(steadfast, encoding="utf-8")
    node = folder / "steadfast-node.yaml"
    node.write_text("extends: v100x4\nname: v100x4-steadfast\ngpu: steadfast.yaml\n", encoding="utf-8")
    return node


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """Command that has ended."""

    status: int
    out: str
    err: str

    @property
    def rows(self) -> list[Fields]:
        return [json.loads(line) for line in self.out.splitlines()]


def railwatch(*arguments: str, env: Mapping[str, str] | None = None, within_s: float = PATIENCE_S) -> Done:
    """Run one command to its end."""
    done = subprocess.run(
        [COMMAND, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=within_s,
        check=False,
        env=environment() if env is None else dict(env),
        cwd=tempfile.gettempdir(),
    )
    return Done(status=done.returncode, out=done.stdout, err=done.stderr)


class LiveStream:
    """The page's server-sent events, read in a thread; `messages` are ``(seconds since the start, event, data)``."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._clock = SystemClock()
        self._queue: queue.Queue[tuple[float, str, Fields]] = queue.Queue()
        self._enough = threading.Event()
        self._answer = urllib3.request(
            "GET", f"{node.url}/api/v1/live?history_s=5", preload_content=False, timeout=10, retries=False
        )
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        event, waiting = "", b""
        with contextlib.suppress(urllib3.exceptions.HTTPError), contextlib.closing(self._answer):
            for piece in self._answer.stream():
                if self._enough.is_set():
                    break
                *whole, waiting = (waiting + piece).split(b"\n")
                for text in whole:
                    if text.startswith(b"event: "):
                        event = text[7:].decode()
                    elif text.startswith(b"data: "):
                        now_s = self._clock.monotonic_s() - self._node.started_s
                        self._queue.put((now_s, event, json.loads(text[6:])))

    def next(self, event: str, *, within_s: float = PATIENCE_S) -> tuple[float, Fields]:
        """Wait for the next message of one kind."""
        while True:
            now_s, name, data = self._queue.get(timeout=within_s)
            if name == event:
                return now_s, data

    def close(self) -> None:
        """Stop reading; the next message, at most a fifth of a second away, ends the thread."""
        self._enough.set()
        self._thread.join(30.0)
