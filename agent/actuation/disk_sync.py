"""Forces the actuator's journal to the disk from a thread of its own, so that no cap waits for a disk.

A line is with the kernel when its write returns; what it is not safe from yet is a power cut. That takes a disk from
tenths of a millisecond to seconds. It is asked for here once no more lines come, and waited for by changes that protect
nothing (docs/decisions/0013).
"""

import logging
import os
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace

from agent.scheduling import use_realtime_priority
from telemetry.clock import Clock

logger = logging.getLogger(__name__)

# An append may wait for the sync before it: on an ext4 that others kept busy 99 of 100 took 0.1 ms, or 2.6 ms while the
# file was being forced. The caps of one sag come within less than this after each other, also on a busy machine.
# Heuristic.
SETTLE_S = 0.05
# However many lines come, those of half a second are forced. Heuristic.
SETTLES_MAX = 10
# How long the changes of one turn that protect nothing wait in all, and with them a cap that comes in that moment. Own
# choice: forcing took 12 ms at the 99th percentile on that disk.
PATIENCE_S = 0.02
# Heuristic: what a spinning disk takes that others keep busy; beyond it something is wrong with this one.
SLOW_S = 0.1
# The last lines at the end of the process; a disk that hangs keeps nobody. Heuristic.
END_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncCounts:
    """How forcing went so far.

    Attributes
    ----------
    slow
        Those of `done` that took longer than a tenth of a second.
    failed
        What was written before them may be lost by a power cut.
    """

    done: int = 0
    slow: int = 0
    failed: int = 0

    def to_json(self) -> dict[str, int]:
        """Return the counts by name."""
        return asdict(self)


class DiskSync:
    """Forces one file at a time, everything that was asked for meanwhile in one go.

    Parameters
    ----------
    told
        Gets the counts when a sync was slow or failed, and when it begins; called from the thread.
    patience_s
        The longest that `wait` waits, however often it is called between two calls of `end_turn`.
    force
        What does it.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        told: Callable[[SyncCounts], None] = lambda _: None,
        patience_s: float = PATIENCE_S,
        force: Callable[[int], None] = os.fdatasync,
    ) -> None:
        self._clock = clock
        self._told = told
        self._patience_s = patience_s
        self._force = force
        self._changed = threading.Condition()
        self._descriptor = -1
        self._asked = self._ended = self._hurried = 0
        self._idle = self._stops = self._late = False
        self._waited_s = 0.0
        self._trouble = ""
        self._syncs = SyncCounts()
        self._thread = threading.Thread(target=self._run, name="force-journal", daemon=True)
        self._thread.start()

    @property
    def syncs(self) -> SyncCounts:
        """How it went so far."""
        return self._syncs

    @property
    def is_done(self) -> bool:
        """Whether everything that was asked for has been forced, or has failed to be."""
        return self._ended >= self._asked

    def ask(self, descriptor: int) -> None:
        """Have what was written to a file forced soon; waits for nothing. The file stays open until the next one."""
        with self._changed:
            self._descriptor = descriptor
            self._asked += 1
            if self._idle:
                self._changed.notify_all()

    def wait(self) -> bool:
        """Wait until what was asked for is on the disk; False where that fails, or takes too long.

        A disk that was late is not waited for again before it has answered.
        """
        with self._changed:
            asked = self._asked
            left_s = self._patience_s - self._waited_s
            if self._ended < asked and not self._late and left_s > 0.0:
                self._hurried, begun_s = asked, self._clock.monotonic_s()
                self._changed.notify_all()
                self._late = not self._changed.wait_for(lambda: self._ended >= asked, left_s)
                self._waited_s += self._clock.monotonic_s() - begun_s
            return self._ended >= asked and not self._trouble

    def end_turn(self) -> None:
        """Let `wait` be as patient as at first: whoever was kept waiting has had its turn."""
        self._waited_s = 0.0

    def close(self) -> None:
        """Force what is left, where the disk takes it in time, and end the thread."""
        with self._changed:
            self._stops = True
            self._changed.notify_all()
        self._thread.join(max(END_S, self._patience_s))
        with self._changed:
            self._ended = self._asked  # the file is about to be closed

    def _run(self) -> None:
        # It works for microseconds at a time, and while it does the others wait for the interpreter.
        use_realtime_priority()
        self._told(self._syncs)
        while (asked := self._next()) is not None:
            self._force_one(asked)

    def _next(self) -> int | None:
        """Wait until something is asked for and nothing more comes; gives up to which request it is done then."""
        with self._changed:
            self._idle = True
            self._changed.wait_for(lambda: self._asked > self._ended or self._stops)
            self._idle = False
            if self._asked == self._ended:
                return None
            for _ in range(SETTLES_MAX):
                before = self._asked
                hurries = self._changed.wait_for(lambda: self._hurried > self._ended or self._stops, SETTLE_S)
                if hurries or self._asked == before:
                    break
            return self._asked

    def _force_one(self, asked: int) -> None:
        begun_s, trouble = self._clock.monotonic_s(), ""
        try:
            with self._changed:
                descriptor = os.dup(self._descriptor)  # whoever asked may replace and close it meanwhile
            try:
                self._force(descriptor)
            finally:
                os.close(descriptor)
        except OSError as err:
            trouble = err.strerror or str(err)
        self._note(trouble, took_s=self._clock.monotonic_s() - begun_s)
        with self._changed:
            self._ended, self._late = max(asked, self._ended), False
            self._changed.notify_all()

    def _note(self, trouble: str, *, took_s: float) -> None:
        before = self._syncs
        slow = not trouble and took_s > SLOW_S
        self._syncs = replace(
            before, done=before.done + (not trouble), slow=before.slow + slow, failed=before.failed + bool(trouble)
        )
        if trouble and not self._trouble:
            logger.error("the journal cannot be forced to the disk: %s; a power cut may lose its last lines", trouble)
        elif slow:
            logger.warning("forcing the journal took %.1f s; caps do not wait for it", took_s)
        self._trouble = trouble
        if slow or trouble:
            self._told(self._syncs)
