"""Writes recordings in a thread of its own, since packing them takes seconds and the black box must go on."""

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

# Jobs that wait for a disk with room; each holds at most the memory of the recorder.
_MAX_WAITING = 2
# heuristic: jobs that are not begun yet, while a disk does not answer at all.
_MAX_UNSEEN = 4
_AGAIN_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobResult:
    """Result of a job: `written`, or why not; `abandoned` where it will not be tried again."""

    job: RecordingJob
    written: WrittenRecording | None = None
    why: str = ""
    abandoned: bool = False


class RecordingStore(Protocol):
    """Store of recordings."""

    def write(self, job: RecordingJob) -> WrittenRecording:
        """Write a recording; EnvironmentLacksError where it cannot be written."""
        ...


class RecordingWriter:
    """Writes jobs one after the other; one that fails waits and is tried again, the newest are kept.

    `on_result` is called from the writer's thread, and by `submit` for a job that finds no room; never twice at
    once.
    """

    def __init__(
        self, recordings: RecordingStore, on_result: Callable[[JobResult], None], *, again_s: float = _AGAIN_S
    ) -> None:
        self._recordings = recordings
        self._on_result = on_result
        self._again_s = again_s
        self._jobs: queue.Queue[RecordingJob | None] = queue.Queue()
        self._waiting: deque[RecordingJob] = deque()
        self._logged = False
        self._reporting = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="recordings", daemon=True)
        self._thread.start()

    @property
    def busy(self) -> int:
        """Number of jobs that are not written yet."""
        return self._jobs.qsize() + len(self._waiting)

    def submit(self, job: RecordingJob) -> None:
        """Queue a job."""
        if self._jobs.qsize() >= _MAX_UNSEEN:
            self._report(JobResult(job=job, why="too many recordings wait", abandoned=True))
            return
        self._jobs.put(job)

    def close(self, timeout_s: float) -> bool:
        """Write the queued jobs and stop; False if that takes longer."""
        self._jobs.put(None)
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _report(self, result: JobResult) -> None:
        with self._reporting:
            self._on_result(result)

    def _run(self) -> None:
        while True:
            try:
                job = self._jobs.get(timeout=self._again_s if self._waiting else None)
            except queue.Empty:
                self._try_waiting()
                continue
            if job is None:
                self._try_waiting()
                for left in self._waiting:
                    self._report(JobResult(job=left, why="the recorder ends", abandoned=True))
                return
            self._waiting.append(job)
            self._try_waiting(new=job)

    def _try_waiting(self, new: RecordingJob | None = None) -> None:
        for _ in range(len(self._waiting)):
            job = self._waiting.popleft()
            try:
                written = self._recordings.write(job)
            except EnvironmentLacksError as err:
                self._waiting.append(job)
                self._complain(str(err))
                if job is new:
                    self._report(JobResult(job=job, why=str(err)))
            except Exception:  # supervisor of one recording: a defect in it must not end the recorder
                logger.exception("cannot write recording %s", job.name)
                self._report(JobResult(job=job, why="unexpected error; see the log", abandoned=True))
            else:
                self._logged = False
                self._report(JobResult(job=job, written=written))
        while len(self._waiting) > _MAX_WAITING:
            self._report(JobResult(job=self._waiting.popleft(), why="too many recordings wait", abandoned=True))

    def _complain(self, why: str) -> None:
        if not self._logged:
            logger.error("cannot write a recording, keeping it in memory: %s", why)
        self._logged = True
