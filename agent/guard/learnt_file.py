"""Where a guard keeps what its detectors learnt, so that a restart does not begin to learn a fault as normal.

The guard only hands over what it holds; a thread packs it and waits for the disk, for the guard waits for neither.
"""

import contextlib
import logging
import math
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from analytics.shards.learnt import Resumed
from telemetry.atomic_files import replace_file
from telemetry.clock import Clock

logger = logging.getLogger(__name__)

# Heuristic: no more than this is learnt anew where the process is killed, of baselines that take minutes to a week.
KEEP_EVERY_S = 300.0
# Heuristic: it is tried again this soon after it failed, for a finding or the word of a person may wait for it.
RETRY_S = 5.0
# Heuristic: a node of sixteen GPUs keeps a tenth of a MiB; what is longer is another file.
MOST_BYTES = 64 * 2**20
# Heuristic: at its end a guard waits so long for a write that goes on; a disk that hangs must not hold it up.
_END_S = 1.0
_HANGS = "the disk does not answer"


class Learner(Protocol):
    """Whoever learns: the pipeline."""

    def learnt(self, now_ns: int) -> Callable[[], bytes]:
        """Return what packs that which was learnt so far; another thread calls it."""
        ...

    def take_learnt(self, blob: bytes, now_ns: int) -> Resumed:
        """Go on with what was learnt; ValueError where it is damaged, and nothing is changed."""
        ...


class LearntFile:
    """One file, written whole or not at all, now and then and at the end; one thread owns it, another one writes.

    Attributes
    ----------
    failures
        Times that it could not be written, or was still being written when it was due again.
    """

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._keep_at_s = clock.monotonic_s() + KEEP_EVERY_S
        self._writer: threading.Thread | None = None
        self._hangs_at_s = math.inf
        self._is_said = False
        self.failures = 0

    def restore(self, learner: Learner, now_ns: int) -> None:
        """Let it go on from the file, and say what begins anew; one that cannot be used is put aside."""
        try:
            resumed = learner.take_learnt(_read(self._path), now_ns)
        except FileNotFoundError:
            return
        except Exception as err:  # noqa: BLE001 -- supervisor of what is kept: a file must not keep the guard from starting
            logger.warning("what was learnt before cannot be used, and is learnt anew: %s: %s", self._path, err)
            with contextlib.suppress(OSError):
                self._path.replace(self._path.with_suffix(".bad"))
            return
        level = logging.INFO if resumed.is_whole else logging.WARNING
        logger.log(level, "what was learnt before goes on: %s: %s", self._path, resumed.summary)

    def keep(self, learner: Learner, now_ns: int, *, now: bool = False) -> None:
        """Have it written down, at most once in `KEEP_EVERY_S` unless it is asked for now; it returns at once."""
        now_s = self._clock.monotonic_s()
        if now:
            self._keep_at_s = now_s
        if now_s < self._keep_at_s:
            return
        if not self.wait(0.0):
            if now_s >= self._hangs_at_s:
                self._hangs_at_s = now_s + KEEP_EVERY_S
                self._fail("what is learnt cannot be kept for a restart: %s: %s", _HANGS)
            return
        self._keep_at_s, self._hangs_at_s = now_s + KEEP_EVERY_S, now_s + KEEP_EVERY_S
        writer = threading.Thread(target=self._write, args=(learner.learnt(now_ns),), name="learnt", daemon=True)
        try:
            writer.start()
        except RuntimeError as err:  # one that never began cannot be waited for
            self._fail("what is learnt cannot be kept for a restart: %s: %s", err)
        else:
            self._writer = writer

    def end(self, learner: Learner, now_ns: int) -> None:
        """Write it down for the last time; it waits for the disk, unless that hangs already."""
        if self.wait(_END_S):
            self._write(learner.learnt(now_ns))
        else:
            self._fail("what is learnt cannot be kept for a restart: %s: %s", _HANGS)

    def wait(self, limit_s: float) -> bool:
        """Wait until nothing is being written; False where that takes too long."""
        if self._writer is not None:
            self._writer.join(limit_s)
        return self._writer is None or not self._writer.is_alive()

    def _write(self, pack: Callable[[], bytes]) -> None:
        try:
            replace_file(self._path, pack())
        except OSError as err:
            self._fail("what is learnt cannot be kept for a restart: %s: %s", err.strerror)
        except Exception as err:  # noqa: BLE001 -- supervisor of what is kept: a defect in it may not end more than it
            self._fail("what is learnt cannot be packed for a restart: %s: %r", err)
        else:
            self._is_said = False

    def _fail(self, text: str, why: object) -> None:
        self.failures += 1
        self._keep_at_s = min(self._keep_at_s, self._clock.monotonic_s() + RETRY_S)
        if not self._is_said:
            logger.warning(text, self._path, why)
        self._is_said = True


def _read(path: Path) -> bytes:
    """Return what is in a file; ValueError where it is none, or not one of ours by its length."""
    told = path.stat()
    if not stat.S_ISREG(told.st_mode) or told.st_size > MOST_BYTES:
        raise ValueError(f"{told.st_size} bytes, expected a plain file of {MOST_BYTES} at most")
    return path.read_bytes()
