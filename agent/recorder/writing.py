"""Writes recordings beside the recorder, in a thread of its own: packing them takes seconds, and the box goes on."""

import logging
import queue
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from agent.recorder.recording_folder import RecordingJob, WrittenRecording
from telemetry.errors import EnvironmentLacksError

logger = logging.getLogger(__name__)

# Orders that wait for a disk with room; each holds at most what the memory of the recorder holds.
_MAX_WAITING = 2
# heuristic: orders that nobody has looked at yet, since a disk answers nothing at all.
_MAX_UNSEEN = 4
_AGAIN_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobResult:
    """Result of a job: `written`, or why not; `abandoned` where it will not be tried again."""

    order: RecordingJob
    written: WrittenRecording | None = None
    why: str = ""
    abandoned: bool = False


class RecordingStore(Protocol):
    """Store of recordings."""

    def write(self, order: RecordingJob) -> WrittenRecording:
        """Write a recording; EnvironmentLacksError where it cannot be written."""
        ...


class RecordingWriter:
    """Writes orders one after the other; one that fails waits and is tried again, the newest ones first kept.

    `on_result` is called from the writer's thread, and by `submit` for an order that finds no room; never twice at
    once.
    """

    def __init__(
        self, recordings: RecordingStore, on_result: Callable[[JobResult], None], *, again_s: float = _AGAIN_S
    ) -> None:
        self._recordings = recordings
        self._on_result = on_result
        self._again_s = again_s
        self._orders: queue.Queue[RecordingJob | None] = queue.Queue()
        self._waiting: deque[RecordingJob] = deque()
        self._logged = False
        self._reporting = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="recordings", daemon=True)
        self._thread.start()

    @property
    def busy(self) -> int:
        """Orders that are not written yet."""
        return self._orders.qsize() + len(self._waiting)

    def submit(self, order: RecordingJob) -> None:
        """Hand over an order."""
        if self._orders.qsize() >= _MAX_UNSEEN:
            self._report(JobResult(order=order, why="too many recordings wait", abandoned=True))
            return
        self._orders.put(order)

    def close(self, timeout_s: float) -> bool:
        """Write what is there and end; False where that takes longer."""
        self._orders.put(None)
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _report(self, result: JobResult) -> None:
        with self._reporting:
            self._on_result(result)

    def _run(self) -> None:
        while True:
            try:
                order = self._orders.get(timeout=self._again_s if self._waiting else None)
            except queue.Empty:
                self._try_waiting()
                continue
            if order is None:
                self._try_waiting()
                for left in self._waiting:
                    self._report(JobResult(order=left, why="the recorder ends", abandoned=True))
                return
            self._waiting.append(order)
            self._try_waiting(new=order)

    def _try_waiting(self, new: RecordingJob | None = None) -> None:
        for _ in range(len(self._waiting)):
            order = self._waiting.popleft()
            try:
                written = self._recordings.write(order)
            except EnvironmentLacksError as err:
                self._waiting.append(order)
                self._complain(str(err))
                if order is new:
                    self._report(JobResult(order=order, why=str(err)))
            except Exception:  # supervisor of one recording: a defect in it must not end the recorder
                logger.exception("recording %s cannot be made", order.name)
                self._report(JobResult(order=order, why="a defect; the log has it", abandoned=True))
            else:
                self._logged = False
                self._report(JobResult(order=order, written=written))
        while len(self._waiting) > _MAX_WAITING:
            self._report(JobResult(order=self._waiting.popleft(), why="too many recordings wait", abandoned=True))

    def _complain(self, why: str) -> None:
        if not self._logged:
            logger.error("a recording waits in memory: %s", why)
        self._logged = True
