"""Syncs the actuator's journal to disk from a thread of its own, so that no cap waits for a disk.

A line is in the kernel when its write returns, but not yet safe from a power cut. A sync takes from tenths of a
millisecond to seconds. It is started here once no more lines come; only changes that do not protect wait for it
(docs/decisions/0013).
"""

import logging
import os
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace

from agent.scheduling import use_realtime_priority
from telemetry.clock import Clock

logger = logging.getLogger(__name__)

# heuristic: an append may wait for the sync before it: on a busy ext4 99 of 100 took 0.1 ms, or 2.6 ms during a sync.
# The caps of one sag follow each other within less than this, also on a busy machine.
SETTLE_S = 0.05
# heuristic: lines of half a second are synced, however many come.
SETTLES_MAX = 10
# heuristic: the most that changes of one turn which protect nothing wait together, and a cap that comes meanwhile with
# them; a sync took 12 ms at the 99th percentile on that disk.
PATIENCE_S = 0.02
# heuristic: a busy spinning disk takes this long; a longer sync is a fault.
SLOW_S = 0.1
# heuristic: time limit of the last sync at the end of the process.
END_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncCounts:
    """Counts of syncs.

    `slow` are those of `done` that took longer than a tenth of a second. A power cut may lose lines before a failed
    one.
    """

    done: int = 0
    slow: int = 0
    failed: int = 0

    def to_json(self) -> dict[str, int]:
        """Return the counts by name."""
        return asdict(self)


class DiskSync:
    """Syncs one file at a time; requests that come meanwhile share the next sync.

    Parameters
    ----------
    on_counts
        Receives the counts after a slow or failed sync, and at the start; called from the thread.
    patience_s
        Longest total of `wait` between two calls of `end_turn`.
    force
        Sync function.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        on_counts: Callable[[SyncCounts], None] = lambda _: None,
        patience_s: float = PATIENCE_S,
        force: Callable[[int], None] = os.fdatasync,
    ) -> None:
        self._clock = clock
        self._on_counts = on_counts
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
        """Counts so far."""
        return self._syncs

    @property
    def is_done(self) -> bool:
        """True if every request is done, or has failed."""
        return self._ended >= self._asked

    def request(self, descriptor: int) -> None:
        """Request a sync of a file, without waiting. The file stays open until the next request."""
        with self._changed:
            self._descriptor = descriptor
            self._asked += 1
            if self._idle:
                self._changed.notify_all()

    def wait(self) -> bool:
        """Wait until the requested sync is done; return False if it fails or takes too long.

        After a sync that was late, no call waits until that sync is done.
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
        """Reset the time that `wait` may use: the callers of this turn are done."""
        self._waited_s = 0.0

    def close(self) -> None:
        """Sync the rest, within the time limit, and end the thread."""
        with self._changed:
            self._stops = True
            self._changed.notify_all()
        self._thread.join(max(END_S, self._patience_s))
        with self._changed:
            self._ended = self._asked  # the file is about to be closed

    def _run(self) -> None:
        # It runs for microseconds at a time, while other threads wait for the interpreter.
        use_realtime_priority()
        self._on_counts(self._syncs)
        while (asked := self._next()) is not None:
            self._force_one(asked)

    def _next(self) -> int | None:
        """Wait for a request and until no more come; return the number of the last request."""
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
                descriptor = os.dup(self._descriptor)  # the caller may replace and close the file meanwhile
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
            logger.error("cannot sync the journal to disk, a power cut may lose its last lines: %s", trouble)
        elif slow:
            logger.warning("sync of the journal took %.1f s; caps did not wait for it", took_s)
        self._trouble = trouble
        if slow or trouble:
            self._on_counts(self._syncs)
