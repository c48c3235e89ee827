"""Starts, watches and stops the processes of a node, in order.

A process that dies is started again with a growing pause; the others do not notice. The end is in the reverse order
of dependence, given by the caller: whoever decides stops first, whoever acts undoes its acts, whoever stores flushes.
"""

import json
import logging
import queue
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from telemetry.clock import Clock
from telemetry.errors import EnvironmentLacksError

logger = logging.getLogger(__name__)

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 30.0
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
    process: subprocess.Popen[bytes]
    started_s: float
    facts: dict[str, Any] = field(default_factory=dict)
    pause_s: float = FIRST_PAUSE_S
    restart_at_s: float | None = None


class Supervisor:
    """The processes of one run."""

    def __init__(self, run_dir: Path, clock: Clock) -> None:
        self._run_dir = run_dir
        self._clock = clock
        self._children: dict[str, _Child] = {}
        self.restarts = 0

    def start(self, spec: ChildSpec) -> dict[str, Any]:
        """Start a process and give what it said when it was ready.

        Raises
        ------
        EnvironmentLacksError
            It said why it cannot run, died, or was not ready in time.
        """
        child = self._spawn(spec)
        self._children[spec.name] = child
        child.facts = self._await_ready(child)
        return child.facts

    def watch(self) -> tuple[str, ...]:
        """Look once at every process, start again what died; gives the names of those that died since."""
        died = []
        now_s = self._clock.monotonic_s()
        for name, child in self._children.items():
            status = child.process.poll()
            if status is None:
                continue
            if child.restart_at_s is None:
                settled = now_s - child.started_s > SETTLED_S
                child.pause_s = FIRST_PAUSE_S if settled else min(child.pause_s * 2, LONGEST_PAUSE_S)
                child.restart_at_s = now_s + child.pause_s
                died.append(name)
                logger.error("process %s ended with status %s; it starts again in %.1f s", name, status, child.pause_s)
            elif now_s >= child.restart_at_s:
                self._restart(child)
        return tuple(died)

    def stop(self, name: str) -> int | None:
        """Ask one process to end, kill it if it does not in time; gives its exit status, None where there is none."""
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
                process.kill()
                process.wait()
        _close_pipes(process)
        return process.returncode

    def stop_all(self) -> None:
        """Stop what is left, last started first."""
        for name in reversed(list(self._children)):
            self.stop(name)

    def _restart(self, child: _Child) -> None:
        _close_pipes(child.process)
        self.restarts += 1
        fresh = self._spawn(child.spec)
        child.process, child.started_s, child.restart_at_s = fresh.process, fresh.started_s, None
        try:
            child.facts = self._await_ready(child)
        except EnvironmentLacksError:
            logger.exception("process %s could not be started again", child.spec.name)

    def _spawn(self, spec: ChildSpec) -> _Child:
        process = subprocess.Popen(
            [sys.executable, "-m", spec.module, str(self._run_dir)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=dict(spec.environ),
            start_new_session=True,
        )
        return _Child(spec=spec, process=process, started_s=self._clock.monotonic_s())

    def _await_ready(self, child: _Child) -> dict[str, Any]:
        lines: queue.Queue[bytes] = queue.Queue()
        pipe = child.process.stdout
        if pipe is None:
            raise ValueError(f"process {child.spec.name} has no standard output")
        threading.Thread(target=lambda: lines.put(pipe.readline()), daemon=True).start()
        try:
            line = lines.get(timeout=child.spec.start_timeout_s)
        except queue.Empty:
            child.process.kill()
            raise EnvironmentLacksError(
                f"process {child.spec.name}: not ready within {child.spec.start_timeout_s:.0f} s"
            ) from None
        if not line:
            status = child.process.wait()
            raise EnvironmentLacksError(f"process {child.spec.name}: ended with status {status} before it was ready")
        said: dict[str, Any] = json.loads(line)
        if "failed" in said:
            child.process.wait()
            raise EnvironmentLacksError(said["failed"])
        facts: dict[str, Any] = said["ready"]
        return facts


def _close_pipes(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
