"""Files of what was learnt: baselines, so that a restart does not learn a fault as normal, and power curves.

The guard only passes a reference; a thread packs it and waits for the disk.
"""

import contextlib
import logging
import math
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from telemetry.atomic_files import replace_file
from telemetry.clock import Clock

logger = logging.getLogger(__name__)

# heuristic: a kill loses at most this much of baselines that take minutes to a week.
KEEP_EVERY_S = 300.0
# heuristic: `railwatch board` shows curves that are at most a minute old; a file has 4 KiB per board.
BOARDS_EVERY_S = 60.0
# heuristic: pause before the retry of a failed write; a finding or an operator's command may depend on it.
RETRY_S = 5.0
# heuristic: a node of sixteen GPUs keeps a tenth of a MiB; a longer file is not ours.
MOST_BYTES = 64 * 2**20
# heuristic: time limit at the end of the guard for a write under way; a disk that hangs must not block it.
_END_S = 1.0
_HANGS = "the disk does not answer"


class Restored(Protocol):
    """What was restored."""

    @property
    def is_whole(self) -> bool:
        """True if nothing is learnt again, and nothing is absent that was present before."""
        ...

    @property
    def summary(self) -> str:
        """What was restored and what is learnt again, in one line."""
        ...


class Packed(Protocol):
    """Owner of something that a file holds."""

    def learnt(self, now_ns: int, /) -> Callable[[], bytes]:
        """Return a function that packs it; another thread calls it."""
        ...


class Learner(Packed, Protocol):
    """Owner of what was learnt: the pipeline of the baselines, the learner of the boards of their curves."""

    def take_learnt(self, blob: bytes, now_ns: int, /) -> Restored:
        """Restore it; ValueError if it is damaged, and nothing is changed."""
        ...


class NodeLearner(Learner, Protocol):
    """Owner of the baselines that has the learner of the boards."""

    @property
    def boards(self) -> Learner:
        """Learner of the power curves of the boards."""
        ...


class Renewed(Packed, Protocol):
    """Owner of a verdict that is written whenever it is renewed, and never restored."""

    def is_new(self, now_ns: int, /) -> bool:
        """Return True if there is one that was not written yet."""
        ...


class LearntKeeper(Protocol):
    """Keeper of everything that a node learnt."""

    def restore(self, learner: NodeLearner, now_ns: int, /) -> None:
        """Restore it at the start."""
        ...

    def keep(self, learner: NodeLearner, now_ns: int, /, *, now: bool = False) -> None:
        """Keep it if that is due, or `now`."""
        ...

    def end(self, learner: NodeLearner, now_ns: int, /) -> None:
        """Keep it for the last time."""
        ...


class LearntFile:
    """File that is replaced atomically, periodically and at the end; one thread owns it, another one writes.

    Parameters
    ----------
    content
        What it holds, for the log.
    every_s
        Seconds between two writes.

    Attributes
    ----------
    failures
        Number of failed writes, and of writes that were still under way when the next was due.
    """

    def __init__(self, path: Path, clock: Clock, *, content: str = "baselines", every_s: float = KEEP_EVERY_S) -> None:
        self._path = path
        self._content = content
        self._every_s = every_s
        self._clock = clock
        self._keep_at_s = clock.monotonic_s() + every_s
        self._writer: threading.Thread | None = None
        self._hangs_at_s = math.inf
        self._is_logged = False
        self.failures = 0

    def restore(self, learner: Learner, now_ns: int) -> None:
        """Restore what was learnt from the file, and log what starts again; an unusable file is renamed to .bad."""
        try:
            resumed = learner.take_learnt(_read(self._path), now_ns)
        except FileNotFoundError:
            return
        except Exception as err:  # noqa: BLE001 -- supervisor of the file: it must not prevent the start of the guard
            logger.warning("cannot restore learnt %s, learning again: %s: %s", self._content, self._path, err)
            with contextlib.suppress(OSError):
                self._path.replace(self._path.with_suffix(".bad"))
            return
        level = logging.INFO if resumed.is_whole else logging.WARNING
        logger.log(level, "restored learnt %s: %s: %s", self._content, self._path, resumed.summary)

    def keep(self, learner: Packed, now_ns: int, *, now: bool = False) -> None:
        """Write the file in the background, at most once in `every_s` unless `now` is set."""
        now_s = self._clock.monotonic_s()
        if now:
            self._keep_at_s = now_s
        if now_s < self._keep_at_s:
            return
        if not self.wait(0.0):
            if now_s >= self._hangs_at_s:
                self._hangs_at_s = now_s + self._every_s
                self._fail("cannot save learnt %s, will retry: %s: %s", _HANGS)
            return
        self._keep_at_s, self._hangs_at_s = now_s + self._every_s, now_s + self._every_s
        writer = threading.Thread(target=self._write, args=(learner.learnt(now_ns),), name="learnt", daemon=True)
        try:
            writer.start()
        except RuntimeError as err:  # a thread that never started cannot be joined
            self._fail("cannot save learnt %s, will retry: %s: %s", err)
        else:
            self._writer = writer

    def end(self, learner: Learner, now_ns: int) -> None:
        """Write the file for the last time; wait for the disk, unless it hangs already."""
        if self.wait(_END_S):
            self._write(learner.learnt(now_ns))
        else:
            self._fail("cannot save learnt %s, will retry: %s: %s", _HANGS)

    def wait(self, limit_s: float) -> bool:
        """Wait for the write under way; return False at the time limit."""
        if self._writer is not None:
            self._writer.join(limit_s)
        return self._writer is None or not self._writer.is_alive()

    def _write(self, pack: Callable[[], bytes]) -> None:
        try:
            replace_file(self._path, pack())
        except OSError as err:
            self._fail("cannot save learnt %s, will retry: %s: %s", err.strerror)
        except Exception as err:  # noqa: BLE001 -- supervisor of the write: a defect must not end the thread of the guard
            self._fail("cannot pack learnt %s: %s: %r", err)
        else:
            self._is_logged = False

    def _fail(self, text: str, why: object) -> None:
        self.failures += 1
        self._keep_at_s = min(self._keep_at_s, self._clock.monotonic_s() + RETRY_S)
        if not self._is_logged:
            logger.warning(text, self._content, self._path, why)
        self._is_logged = True


class LearntFiles:
    """File of the baselines, of the boards' power curves, and of a standing verdict, which fail each by itself.

    The last is written where `standing` has its file and what it holds.
    """

    def __init__(
        self, baselines: LearntFile, boards: LearntFile, standing: tuple[LearntFile, Renewed] | None = None
    ) -> None:
        self._baselines, self._boards, self._standing = baselines, boards, standing

    def restore(self, learner: NodeLearner, now_ns: int, /) -> None:
        """Restore both."""
        self._baselines.restore(learner, now_ns)
        self._boards.restore(learner.boards, now_ns)

    def keep(self, learner: NodeLearner, now_ns: int, /, *, now: bool = False) -> None:
        """Write what is due in the background; `now` is about the baselines."""
        self._baselines.keep(learner, now_ns, now=now)
        self._boards.keep(learner.boards, now_ns)
        if self._standing is not None:
            file, renewed = self._standing
            if renewed.is_new(now_ns):
                file.keep(renewed, now_ns, now=True)

    def end(self, learner: NodeLearner, now_ns: int, /) -> None:
        """Write both for the last time."""
        self._baselines.end(learner, now_ns)
        self._boards.end(learner.boards, now_ns)


def _read(path: Path) -> bytes:
    """Return the content of a file; ValueError if it is no regular file, or too long."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode) or status.st_size > MOST_BYTES:
        raise ValueError(f"{status.st_size} bytes, expected a regular file of at most {MOST_BYTES} bytes")
    return path.read_bytes()
