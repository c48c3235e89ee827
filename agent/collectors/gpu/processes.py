"""Processes and jobs on each GPU: counts and memory as signals, starts and ends as events."""

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from agent.collectors.gpu.process_owner import ProcessOwner, owner_of
from agent.collectors.tables import gpu_table
from agent.driver.port import GpuProcess, ProcessReader, ProcessUse
from telemetry.clock import Clock
from telemetry.errors import DeviceLostError, NotPermittedError, NotSupportedError, TransientError
from telemetry.frames import FloatArray
from telemetry.gpu import GpuIdentity
from telemetry.records import Event, EventKind, Severity
from telemetry.signals import RateClass, Source

logger = logging.getLogger(__name__)

# heuristic: events that may wait to be polled; a node that starts more processes loses the oldest.
_MAX_WAITING = 1000
# Errors that stay; after any other the list is read again soon, or the GPU is lost and its job hangs on it.
_PERMANENT = (NotPermittedError.__name__, NotSupportedError.__name__)
Key = tuple[str, int, int | None]
JobGpus = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuUser:
    """A process on a GPU, and its owner."""

    process: GpuProcess
    owner: ProcessOwner

    @property
    def key(self) -> Key:
        """GPU, process number and start, which together are unique."""
        return self.process.gpu_uuid, self.process.pid, self.owner.start_ticks

    @property
    def computes(self) -> bool:
        """True for a compute process; graphics processes belong to no job."""
        return self.process.use is ProcessUse.COMPUTE

    @property
    def label(self) -> str:
        """``python3 (pid 4000, slurm:1234)``."""
        job = "" if self.owner.job is None else f", {self.owner.job}"
        return f"{self.owner.command or 'a process'} (pid {self.process.pid}{job})"


class GpuProcesses:
    """A collector of the number of processes on each GPU and the memory they hold, with the list of them.

    Attributes
    ----------
    users
        Processes on the GPUs at the last read.
    dropped
        Events that were not polled in time.
    """

    name = "gpu_processes"
    rate = RateClass.RARE

    def __init__(self, reader: ProcessReader, gpus: tuple[GpuIdentity, ...], *, proc_root: Path, clock: Clock) -> None:
        self._reader = reader
        self._gpus = gpus
        self._proc_root = proc_root
        self._clock = clock
        self._unreadable: dict[str, str] = {}
        self._waiting: deque[Event] = deque(maxlen=_MAX_WAITING)
        self._fresh = threading.Event()
        self._seen: dict[str, dict[Key, GpuUser]] = {}
        self._reported_job_gpus: JobGpus = ()
        self.dropped = 0
        self.spec = gpu_table(self.name, gpus, Source.NVML_PROCESSES)

    @property
    def users(self) -> tuple[GpuUser, ...]:
        """Processes on the GPUs at the last read, GPU by GPU."""
        return tuple(user for gpu in self._gpus for user in self._seen.get(gpu.uuid, {}).values())

    @property
    def job_gpus(self) -> JobGpus:
        """Pairs of job and GPU that it computes on.

        Without GPUs that have a compute process of no known job, and GPUs whose list may not be read.
        """
        found: dict[tuple[str, str], None] = {}
        for gpu in self._gpus:
            if self._unreadable.get(gpu.uuid) in _PERMANENT:
                continue
            computing = [user for user in self._seen.get(gpu.uuid, {}).values() if user.computes]
            jobs = [user.owner.job for user in computing if user.owner.job is not None]
            if len(jobs) == len(computing):
                found.update(dict.fromkeys((job, f"gpu:{gpu.uuid}") for job in sorted(jobs)))
        return tuple(found)

    def open(self) -> None:
        """Do nothing: the reader belongs to the caller."""

    def close(self) -> None:
        """Do nothing: the reader belongs to the caller."""

    def read(self, values: FloatArray) -> None:
        """Fill ``(n_gpus, 3)``: compute processes, graphics processes, bytes held; NaN for a GPU without a list.

        Raises
        ------
        NotSupportedError, NotPermittedError, DeviceLostError, TransientError
            No GPU lists its processes; the error is that of the last one.
        """
        values[:] = float("nan")
        failure: Exception | None = None
        changes: list[tuple[GpuIdentity, GpuUser, str]] = []
        for row, gpu in enumerate(self._gpus):
            try:
                processes = self._reader.processes(gpu.uuid)
            except (NotSupportedError, NotPermittedError, DeviceLostError, TransientError) as err:
                failure = err
                if self._unreadable.get(gpu.uuid) != type(err).__name__:  # the processes known before are kept
                    self._unreadable[gpu.uuid] = type(err).__name__
                    logger.info("cannot list processes of gpu%d: %s", gpu.index, err)
                continue
            self._unreadable.pop(gpu.uuid, None)
            values[row] = _row(processes)
            changes += self._compare(gpu, processes)
        job_gpus = self.job_gpus
        for gpu, user, verb in changes:
            self._report(gpu, user, verb, job_gpus)
        if job_gpus != self._reported_job_gpus and not changes:  # same processes, other jobs
            self._report_jobs(job_gpus)
        self._reported_job_gpus = job_gpus
        if failure is not None and len(self._unreadable) == len(self._gpus):
            raise failure

    def take(self, timeout_s: float) -> tuple[Event, ...]:
        """Return the events since the last call, waiting for the first."""
        self._fresh.wait(timeout_s)
        self._fresh.clear()
        found: list[Event] = []
        while self._waiting:
            found.append(self._waiting.popleft())
        return tuple(found)

    def _compare(
        self, gpu: GpuIdentity, processes: tuple[GpuProcess, ...]
    ) -> Iterator[tuple[GpuIdentity, GpuUser, str]]:
        """Yield processes that started or ended; at the first read, all that are there."""
        before = self._seen.get(gpu.uuid)
        earlier = {user.process.pid: user for user in (before or {}).values()}
        now: dict[Key, GpuUser] = {}
        for process in processes:
            user = GpuUser(
                process=process, owner=_merged_owner(owner_of(process.pid, self._proc_root), earlier.get(process.pid))
            )
            if user.computes or user.key not in now:  # a process may be listed for compute and for graphics
                now[user.key] = user
        self._seen = {**self._seen, gpu.uuid: now}
        verb = "uses" if before is None else "began to use"
        for key in now.keys() - (before or {}).keys():
            yield gpu, now[key], verb
        for key in (before or {}).keys() - now.keys():
            yield gpu, (before or {})[key], "no longer uses"

    def _report(self, gpu: GpuIdentity, user: GpuUser, verb: str, job_gpus: JobGpus) -> None:
        time_ns = self._clock.utc_ns()
        process = user.process
        self._put(
            Event(
                id=f"gpu_process:{gpu.uuid}:{process.pid}:{user.owner.start_ticks}:{verb.split(maxsplit=1)[0]}:{time_ns}",
                time_ns=time_ns,
                kind=EventKind.GPU_PROCESS,
                entity_id=f"gpu:{gpu.uuid}",
                code=None,
                severity=Severity.INFO,
                message=f"{user.label} {verb} GPU {gpu.index}",
                sources=("nvml",),
                pci=gpu.pci,
                pid=process.pid,
                process=user.owner.command,
                job_gpus=job_gpus,
            )
        )

    def _report_jobs(self, job_gpus: JobGpus) -> None:
        time_ns = self._clock.utc_ns()
        names = {f"gpu:{gpu.uuid}": f"GPU {gpu.index}" for gpu in self._gpus}
        self._put(
            Event(
                id=f"gpu_jobs:{time_ns}",
                time_ns=time_ns,
                kind=EventKind.GPU_PROCESS,
                entity_id=None,
                code=None,
                severity=Severity.INFO,
                message="jobs now: "
                + (", ".join(f"{job} on {names[gpu]}" for job, gpu in job_gpus) or "none is known"),
                sources=("nvml",),
                job_gpus=job_gpus,
            )
        )

    def _put(self, event: Event) -> None:
        if len(self._waiting) == _MAX_WAITING:
            self.dropped += 1
        self._waiting.append(event)
        self._fresh.set()


def _merged_owner(owner: ProcessOwner, earlier: GpuUser | None) -> ProcessOwner:
    """Return the owner of a process; of one that is ending, the owner known before.

    The driver still lists it: once it has ended it has no start, and as a zombie it has a start and no environment.
    """
    if earlier is None:
        return owner
    if owner.start_ticks is None:
        return earlier.owner
    same = owner.start_ticks == earlier.owner.start_ticks
    return replace(owner, job=earlier.owner.job) if same and owner.job is None else owner


class GpuProcessEvents:
    """An event source over the events of a `GpuProcesses`; it reads nothing itself."""

    name = "gpu_process_events"

    def __init__(self, take: Callable[[float], tuple[Event, ...]]) -> None:
        self._take = take

    def open(self) -> None:
        """Do nothing: the reader belongs to the caller."""

    def poll(self, timeout_s: float) -> tuple[Event, ...]:
        """Wait up to the time-out and return process starts and ends."""
        return self._take(timeout_s)

    def close(self) -> None:
        """Do nothing: the reader belongs to the caller."""


def _row(processes: tuple[GpuProcess, ...]) -> tuple[float, float, float]:
    uses = [process.use for process in processes]
    known = {p.pid: p.used_bytes for p in processes if p.used_bytes is not None}  # compute and graphics: listed twice
    held = sum(known.values()) if known or not processes else float("nan")
    return float(uses.count(ProcessUse.COMPUTE)), float(uses.count(ProcessUse.GRAPHICS)), held
