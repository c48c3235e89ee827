"""Starts, watches and stops the processes of a node, in order.

A process that exits, or is not ready in time, is restarted after a growing pause; the others are not affected. The
caller stops processes in the reverse order of dependence: those that decide first, then those that act, which undo
their actions, then those that store, which flush.
"""

import json
import logging
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from railwatch.launcher import ChildProcess, ForkedProcess, Launcher
from telemetry.clock import Clock
from telemetry.errors import EnvironmentLacksError

logger = logging.getLogger(__name__)

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 30.0
# Time for a process that closed its output to exit, and as long again once it is killed.
LEAVE_S = 5.0
# heuristic: a process that exits takes milliseconds from the end of its output to its own.
_REAP_S = 0.2
# Status of a process that does not exit after SIGKILL, since a thread of it is stuck in the kernel.
LINGERS = -1000
# A process that ran this long before it exited restarts after the first pause.
SETTLED_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildSpec:
    """One process: module, environment, and time limits of its start and stop."""

    name: str
    module: str
    environ: Mapping[str, str]
    start_timeout_s: float = 15.0
    stop_timeout_s: float = 10.0


@dataclass(slots=True)
class _Child:
    spec: ChildSpec
    process: ChildProcess
    started_s: float
    first_line: queue.Queue[bytes]
    is_ready: bool = False
    pause_s: float = 0.0
    restart_at_s: float | None = None
    left: threading.Event = field(default_factory=threading.Event)
    left_at_s: float | None = None


class Supervisor:
    """The processes of one run.

    `on_change` is called from another thread when a process is ready or closes its output.
    """

    def __init__(
        self,
        run_dir: Path,
        clock: Clock,
        launcher: Launcher | None = None,
        *,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self._run_dir = run_dir
        self._launcher = launcher
        self._on_change = on_change
        self._clock = clock
        self._children: dict[str, _Child] = {}
        self.restarts = 0

    def start(self, spec: ChildSpec) -> dict[str, Any]:
        """Start a process and return the facts that it reports when ready; raises as `start_together`."""
        return self.start_together((spec,))[0]

    def start_together(self, specs: Sequence[ChildSpec]) -> tuple[dict[str, Any], ...]:
        """Start processes in parallel and return the facts that each reports when ready.

        Raises
        ------
        EnvironmentLacksError
            One reported that it cannot run, exited, or was not ready in time. `stop_all` stops the others.
        """
        for spec in specs:
            self.spawn(spec)
        return tuple(self.wait_until_ready(spec.name) for spec in specs)

    def spawn(self, spec: ChildSpec) -> None:
        """Start a process without waiting for it."""
        self._children[spec.name] = self._spawn(spec)

    def wait_until_ready(self, name: str) -> dict[str, Any]:
        """Return the facts that a process reports when it is ready; kill one that does not, and raise as `start`."""
        child = self._children[name]
        spec = child.spec
        try:
            line = child.first_line.get(timeout=spec.start_timeout_s)
            facts = _facts(child, line, within_s=LEAVE_S)
        except queue.Empty:
            self._discard(spec.name)
            raise EnvironmentLacksError(f"{spec.name}: not ready within {spec.start_timeout_s:.0f} s") from None
        except EnvironmentLacksError:
            self._discard(spec.name)
            raise
        child.is_ready = True
        return facts

    @property
    def is_settled(self) -> bool:
        """True while every process is ready and none ends: the next change calls `on_change`."""
        return all(child.is_ready and not child.left.is_set() for child in self._children.values())

    def watch(self) -> tuple[str, ...]:
        """Check every process and restart those that exited; return the names of those that exited since the last call.

        It waits for no process: a restarted one reports that it is ready during a later call. A launcher that does
        not answer holds it up once, for a limited time.
        """
        died = []
        now_s = self._clock.monotonic_s()
        for name, child in self._children.items():
            status = child.process.poll()
            if status is None and self._cannot_end(child, now_s):
                status = LINGERS
            if status is None:
                self._see_ready(child, now_s)
            elif child.restart_at_s is None:
                self._schedule(child, now_s)
                died.append(name)
                logger.error("%s exited with status %s; restarting in %.1f s", name, status, child.pause_s)
            elif now_s >= child.restart_at_s:
                self._restart(child)
        return tuple(died)

    def stop(self, name: str) -> int | None:
        """Send SIGTERM to a process, SIGKILL if it does not exit in time; return its status, None if there is none.

        The wait is limited even for a process that SIGKILL does not end: the others must be stopped too.
        """
        child = self._children.pop(name, None)
        if child is None:
            return None
        process = child.process
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(child.spec.stop_timeout_s)
            except subprocess.TimeoutExpired:
                logger.error("%s did not stop within %.0f s; sending SIGKILL", name, child.spec.stop_timeout_s)  # noqa: TRY400 -- the traceback adds nothing
        return _end(name, process)

    def stop_all(self) -> None:
        """Stop the remaining processes, the last started first."""
        for name in reversed(list(self._children)):
            self.stop(name)

    def _cannot_end(self, child: _Child, now_s: float) -> bool:
        """Return True if a process closed its output or was killed, and did not exit even after SIGKILL.

        A thread that is stuck in the kernel holds such a process; nothing waits for it.
        """
        if child.left_at_s is None:
            if not child.left.is_set():
                return False
            child.left_at_s = now_s
        if child.restart_at_s is None and now_s - child.left_at_s > LEAVE_S:
            child.process.kill()
        return now_s - child.left_at_s > 2 * LEAVE_S

    def _schedule(self, child: _Child, now_s: float) -> None:
        settled = now_s - child.started_s > SETTLED_S
        doubled_s = min(2.0 * child.pause_s, LONGEST_PAUSE_S)
        child.pause_s = FIRST_PAUSE_S if settled else max(doubled_s, FIRST_PAUSE_S)
        child.restart_at_s = now_s + child.pause_s

    def _restart(self, child: _Child) -> None:
        _release(child.process)
        self.restarts += 1
        fresh = self._spawn(child.spec)
        child.process, child.started_s, child.first_line = fresh.process, fresh.started_s, fresh.first_line
        child.is_ready, child.restart_at_s = False, None
        child.left, child.left_at_s = fresh.left, None

    def _see_ready(self, child: _Child, now_s: float) -> None:
        """Read the first line of a restarted process; kill it, once, if there is none in time."""
        if child.is_ready or child.left_at_s is not None:
            return
        try:
            _facts(child, child.first_line.get_nowait(), within_s=_REAP_S)
            child.is_ready = True
        except queue.Empty:
            if now_s - child.started_s > child.spec.start_timeout_s:
                logger.error("%s not ready within %.0f s; sending SIGKILL", child.spec.name, child.spec.start_timeout_s)  # noqa: TRY400 -- the traceback adds nothing
                self._kill(child, now_s)
        except EnvironmentLacksError as err:
            logger.error("%s cannot run: %s", child.spec.name, err)  # noqa: TRY400 -- the traceback adds nothing
            self._kill(child, now_s)

    def _kill(self, child: _Child, now_s: float) -> None:
        """Kill it, and restart it after a while even if it does not exit."""
        child.process.kill()
        child.left_at_s = now_s

    def _discard(self, name: str) -> None:
        """Kill and forget a process that did not become ready."""
        _end(name, self._children.pop(name).process)

    def _spawn(self, spec: ChildSpec) -> _Child:
        process = self._forked(spec) or subprocess.Popen(
            [sys.executable, "-m", spec.module, str(self._run_dir)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=dict(spec.environ),
            start_new_session=True,
            bufsize=0,
        )
        first_line: queue.Queue[bytes] = queue.Queue()
        left = threading.Event()
        threading.Thread(target=_listen, args=(process, first_line, left, self._on_change), daemon=True).start()
        return _Child(spec=spec, process=process, started_s=self._clock.monotonic_s(), first_line=first_line, left=left)

    def _forked(self, spec: ChildSpec) -> ChildProcess | None:
        """Return the process forked by the launcher; None without one, and once it has failed."""
        if self._launcher is None:
            return None
        try:
            return self._launcher.start(spec.module, [str(self._run_dir)], spec.environ)
        except OSError as err:
            logger.warning("launcher failed: %s; starting processes without it from now on", err)
            self._launcher.close()
            self._launcher = None
            return None


def _listen(
    process: ChildProcess, first_line: queue.Queue[bytes], left: threading.Event, on_change: Callable[[], None]
) -> None:
    """Pass on the first line, set `left` at the end of the output, and call `on_change` after each.

    Only this thread closes the pipe. If another closed it during a read, the pipe of the next process could get its
    number, and this thread would take the first line of that process.
    """
    if process.stdout is None:
        return
    try:
        with process.stdout as output:
            first_line.put(output.readline())
            on_change()
            while output.read(4096):
                pass
    finally:
        left.set()
        on_change()


def _facts(child: _Child, line: bytes, *, within_s: float) -> dict[str, Any]:
    """Parse the first line of a process; EnvironmentLacksError if it cannot run.

    A process that closed its output without a line gets some time to exit, so that its status can be reported.
    """
    name = child.spec.name
    if not line:
        try:
            status = child.process.wait(within_s)
        except subprocess.TimeoutExpired:
            raise EnvironmentLacksError(f"{name}: closed its output before it was ready") from None
        raise EnvironmentLacksError(f"{name}: exited with status {status} before it was ready")
    try:
        message: dict[str, Any] = json.loads(line)
    except ValueError:
        raise EnvironmentLacksError(
            f"{name}: printed {line[:80]!r}; expected one line of JSON that reports it is ready"
        ) from None
    if "failed" in message:
        raise EnvironmentLacksError(message["failed"])
    facts: dict[str, Any] = message["ready"]
    return facts


def _end(name: str, process: ChildProcess) -> int:
    """Kill a process that still runs; return its exit status, `LINGERS` if it does not exit in time."""
    if process.poll() is None:
        process.kill()
    try:
        process.wait(LEAVE_S)
    except subprocess.TimeoutExpired:
        logger.error("%s did not exit after SIGKILL; leaving it behind", name)  # noqa: TRY400 -- the traceback adds nothing
    status = LINGERS if process.returncode is None else process.returncode
    _release(process)
    return status


def _release(process: ChildProcess) -> None:
    """Close the standard input of a process, which requests its end, and what watches it; the reader closes its output.

    It may still run, where not even SIGKILL ends it.
    """
    if process.stdin is not None:
        process.stdin.close()
    if isinstance(process, ForkedProcess):
        process.close()
