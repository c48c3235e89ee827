"""Starts, watches and stops the processes of a node, in order.

A process that dies, or is not ready in time, is started again with a growing pause; the others do not notice. The
end is in the reverse order of dependence, given by the caller: whoever decides stops first, whoever acts undoes its
acts, whoever stores flushes.
"""

import json
import logging
import queue
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from railwatch.launcher import ChildProcess, Launcher
from telemetry.clock import Clock
from telemetry.errors import EnvironmentLacksError

logger = logging.getLogger(__name__)

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 30.0
# Whoever closed its output gets this long to end by itself, and as long again once it is killed.
LEAVE_S = 5.0
# Heuristic: between the end of its output and its own a process that dies needs milliseconds.
_REAP_S = 0.2
# Stands for the status of a process that cannot end, since a thread of it is stuck in the kernel.
LINGERS = -1000
# A process that ran this long before it died starts again at the first pause.
SETTLED_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildSpec:
    """One process: the module to run, its environment, and how long its start and stop may take."""

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
    """The processes of one run."""

    def __init__(self, run_dir: Path, clock: Clock, launcher: Launcher | None = None) -> None:
        self._run_dir = run_dir
        self._launcher = launcher
        self._clock = clock
        self._children: dict[str, _Child] = {}
        self.restarts = 0

    def start(self, spec: ChildSpec) -> dict[str, Any]:
        """Start a process and give what it said when it was ready; raises as `start_together`."""
        return self.start_together((spec,))[0]

    def start_together(self, specs: Sequence[ChildSpec]) -> tuple[dict[str, Any], ...]:
        """Start processes side by side, since each spends its start on loading its code; give what each said.

        Raises
        ------
        EnvironmentLacksError
            One said why it cannot run, died, or was not ready in time. The others are left to `stop_all`.
        """
        for spec in specs:
            self._children[spec.name] = self._spawn(spec)
        return tuple(self._ready(self._children[spec.name]) for spec in specs)

    def _ready(self, child: _Child) -> dict[str, Any]:
        """Wait until a process says that it is ready; one that is not is ended."""
        spec = child.spec
        try:
            line = child.first_line.get(timeout=spec.start_timeout_s)
            facts = _facts(child, line, within_s=LEAVE_S)
        except queue.Empty:
            self._give_up(spec.name)
            raise EnvironmentLacksError(f"process {spec.name}: not ready within {spec.start_timeout_s:.0f} s") from None
        except EnvironmentLacksError:
            self._give_up(spec.name)
            raise
        child.is_ready = True
        return facts

    def watch(self) -> tuple[str, ...]:
        """Look once at every process, start again what died; gives the names of those that died since.

        It waits for none of them: one that was started again says that it is ready while the others are looked at.
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
                logger.error("process %s ended with status %s; it starts again in %.1f s", name, status, child.pause_s)
            elif now_s >= child.restart_at_s:
                self._restart(child)
        return tuple(died)

    def stop(self, name: str) -> int | None:
        """Ask one process to end, kill it if it does not in time; gives its exit status, None where there is none.

        It waits for a limited time, even for a process that a kill does not end: the others are to be told to stop.
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
                logger.error("process %s did not stop within %.0f s and is killed", name, child.spec.stop_timeout_s)  # noqa: TRY400 -- the traceback says nothing
        return _end(name, process)

    def stop_all(self) -> None:
        """Stop what is left, last started first."""
        for name in reversed(list(self._children)):
            self.stop(name)

    def _cannot_end(self, child: _Child, now_s: float) -> bool:
        """Return whether a process is to end, it closed its output or was killed, and even a kill does not make it end.

        A thread that is stuck in the kernel holds it; nothing can be done about that, and nothing waits for it.
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
        _let_go(child.process)
        self.restarts += 1
        fresh = self._spawn(child.spec)
        child.process, child.started_s, child.first_line = fresh.process, fresh.started_s, fresh.first_line
        child.is_ready, child.restart_at_s = False, None
        child.left, child.left_at_s = fresh.left, None

    def _see_ready(self, child: _Child, now_s: float) -> None:
        """Take what a process says that was started again; one that says nothing in time is killed, once."""
        if child.is_ready or child.left_at_s is not None:
            return
        try:
            _facts(child, child.first_line.get_nowait(), within_s=_REAP_S)
            child.is_ready = True
        except queue.Empty:
            if now_s - child.started_s > child.spec.start_timeout_s:
                logger.error("process %s is not ready within %.0f s", child.spec.name, child.spec.start_timeout_s)  # noqa: TRY400 -- the traceback says nothing
                self._kill(child, now_s)
        except EnvironmentLacksError as err:
            logger.error("process %s cannot run: %s", child.spec.name, err)  # noqa: TRY400 -- the reason says it all
            self._kill(child, now_s)

    def _kill(self, child: _Child, now_s: float) -> None:
        """Kill it and count it as leaving from now on, so that it is replaced though it may not end."""
        child.process.kill()
        child.left_at_s = now_s

    def _give_up(self, name: str) -> None:
        """Leave nothing of a process that did not come up."""
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
        threading.Thread(target=_listen, args=(process, first_line, left), daemon=True).start()
        return _Child(spec=spec, process=process, started_s=self._clock.monotonic_s(), first_line=first_line, left=left)

    def _forked(self, spec: ChildSpec) -> ChildProcess | None:
        """Return the process forked by the launcher; None without one, and once it has failed."""
        if self._launcher is None:
            return None
        try:
            return self._launcher.start(spec.module, [str(self._run_dir)], spec.environ)
        except OSError as err:
            logger.warning("launcher of processes failed, processes load their code themselves from now on: %s", err)
            self._launcher.close()
            self._launcher = None
            return None


def _listen(process: ChildProcess, first_line: queue.Queue[bytes], left: threading.Event) -> None:
    """Pass on the first line, and tell when there will be no other.

    Nobody else closes this pipe. Were it closed beside a read, the pipe of the next process could get its number in
    between, and this thread would take away what that process says first.
    """
    if process.stdout is None:
        return
    try:
        with process.stdout as output:
            first_line.put(output.readline())
            while output.read(4096):
                pass
    finally:
        left.set()


def _facts(child: _Child, line: bytes, *, within_s: float) -> dict[str, Any]:
    """Read what a process said first; EnvironmentLacksError where it cannot run.

    One that said nothing is given some time to end, so that its status can be told.
    """
    name = child.spec.name
    if not line:
        try:
            status = child.process.wait(within_s)
        except subprocess.TimeoutExpired:
            raise EnvironmentLacksError(f"process {name}: closed its output before it was ready") from None
        raise EnvironmentLacksError(f"process {name}: ended with status {status} before it was ready")
    try:
        said: dict[str, Any] = json.loads(line)
    except ValueError:
        raise EnvironmentLacksError(f"process {name}: said {line[:80]!r} instead of being ready") from None
    if "failed" in said:
        raise EnvironmentLacksError(said["failed"])
    facts: dict[str, Any] = said["ready"]
    return facts


def _end(name: str, process: ChildProcess) -> int:
    """Kill a process that still runs; gives its exit status, `LINGERS` where not even that ends it in time."""
    if process.poll() is None:
        process.kill()
    try:
        process.wait(LEAVE_S)
    except subprocess.TimeoutExpired:
        logger.error("process %s cannot be ended; it is left behind", name)  # noqa: TRY400 -- the traceback says nothing
    _let_go(process)
    return LINGERS if process.returncode is None else process.returncode


def _let_go(process: ChildProcess) -> None:
    """Close what it is told to end by; what it says is read to its end, which is when nobody can write it any more."""
    if process.stdin is not None:
        process.stdin.close()
