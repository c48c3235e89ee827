"""Request of a checkpoint from a job, and the wait for its confirmation.

The request is one of three: a file is touched, a process gets a signal, or an address receives a POST. The job confirms
by its heartbeat, which reports a later step, by a file with a newer time, or by an address that answers 200. Without a
confirmation the request is reported as not confirmed.
"""

import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from agent.collectors.sysfs.proc_file import parse_process_stat
from agent.responding.hook import request_json
from agent.responding.port import MessageRequest, Receipt
from telemetry.clock import Clock
from telemetry.errors import ActionRefusedError, NotPermittedError, NotSupportedError, TransientError

# The parameter of a decision that names the checkpoint.
NAME = "checkpoint"
# heuristic: interval of checks for the confirmation; a checkpoint takes seconds to minutes.
LOOK_EVERY_S = 0.5
REQUEST_TIMEOUT_S = 10.0
_OK = 200
# A file system may round the time of a file down to this. ext4 and tmpfs keep nanoseconds in steps of a timer tick.
_ROUNDING_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalledProcess:
    """Process that a PID file names, and the signal to send.

    The signal is sent only if the process belongs to the owner of the file, began before the file was written, so that
    the id is not that of a later process, and is in the control group, if one is set.
    """

    pid_file: Path
    signal_name: str
    cgroup: str = ""
    proc: Path = Path("/proc")

    def check(self) -> str:
        """Return what would be signalled; ActionRefusedError if the process is not the intended one."""
        os.close(self._opened())
        return f"{self.signal_name} to the process of {self.pid_file}"

    def signal(self) -> None:
        """Send the signal to the checked process by its descriptor, which no later process can get."""
        descriptor = self._opened()
        try:
            signal.pidfd_send_signal(descriptor, signal.Signals[self.signal_name])
        except PermissionError as err:
            raise NotPermittedError(f"{self.pid_file}: not permitted to signal its process") from err
        except ProcessLookupError as err:
            raise ActionRefusedError(f"{self.pid_file}: its process has ended") from err
        finally:
            os.close(descriptor)

    def _opened(self) -> int:
        """Return a descriptor of the process after all checks."""
        try:
            status = self.pid_file.stat()
            pid = int(self.pid_file.read_text(encoding="ascii")[:20])
        except OSError as err:
            raise NotSupportedError(f"{self.pid_file}: {err.strerror}") from err
        except ValueError as err:
            raise NotSupportedError(f"{self.pid_file}: expected a process id") from err
        if pid <= 1:
            raise ActionRefusedError(f"{self.pid_file}: process id {pid} is not a job")
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError as err:
            raise ActionRefusedError(f"{self.pid_file}: process {pid} has ended") from err
        try:
            wrong = self._wrong(pid, owner=status.st_uid, written_s=status.st_mtime)
        except OSError as err:
            wrong = err.strerror or str(err)
        if wrong:
            os.close(descriptor)
            raise ActionRefusedError(f"{self.pid_file}: process {pid} {wrong}")
        return descriptor

    def _wrong(self, pid: int, *, owner: int, written_s: float) -> str:
        """Return why the process is not the intended one; empty if it is."""
        folder = self.proc / str(pid)
        if folder.stat().st_uid != owner:
            return "belongs to another user than its PID file"
        if started_s(folder) > written_s + _ROUNDING_S:
            return "began after its PID file was written: it is another process"
        if self.cgroup and not _is_in(folder / "cgroup", self.cgroup):
            return f"is not in the control group {self.cgroup}"
        return ""


def started_s(folder: Path) -> float:
    """Return the start of the process of a folder of ``/proc``, in seconds since 1970."""
    stat = parse_process_stat((folder / "stat").read_bytes())
    if stat is None:
        raise OSError(f"{folder}/stat cannot be read")
    boot_s = next(
        int(line.split()[1])
        for line in (folder.parent / "stat").read_text(encoding="ascii").splitlines()
        if line.startswith("btime")
    )
    return boot_s + stat.start_ticks / os.sysconf("SC_CLK_TCK")


def _is_in(path: Path, group: str) -> bool:
    """Return True if a line of ``/proc/PID/cgroup`` names that group or one below it."""
    wanted = group.rstrip("/")
    held = (line.split(":", 2)[-1] for line in path.read_text(encoding="utf-8").splitlines())
    return any(name == wanted or name.startswith(f"{wanted}/") for name in held)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointSettings:
    """Request and confirmation of one job's checkpoint.

    Exactly one of `file`, `process` and `url` is set; status 200 of `url` means that the request was accepted.
    `heartbeat` is the key of the job whose heartbeat reports checkpoints; if it is set, one is awaited even from a job
    that never reported any. If it is empty, the name of the checkpoint is the key, unless the job confirms by file or
    address: any program that may send readings could confirm in its place.
    """

    within_s: float
    file: Path | None = None
    process: SignalledProcess | None = None
    url: str | None = None
    confirm_file: Path | None = None
    confirm_url: str | None = None
    heartbeat: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Before:
    """Newest checkpoint before the request."""

    file_ns: int | None
    step: float | None


class Checkpoint:
    """Requests a checkpoint from the job that a decision names, or from the only one.

    `wait` waits that many seconds and returns True if railwatch is to stop. `step_of` returns the step of the newest
    checkpoint of a job, by the key of its heartbeat; None if none is reported.
    """

    name = "checkpoint"

    def __init__(
        self,
        jobs: Mapping[str, CheckpointSettings],
        clock: Clock,
        *,
        wait: Callable[[float], bool],
        step_of: Callable[[str], float | None] = lambda _: None,
    ) -> None:
        self._jobs = jobs
        self._clock = clock
        self._wait = wait
        self._step_of = step_of

    def check(self, order: MessageRequest) -> str:
        """Return which job would get the request, and how."""
        name, job = self._job(order)
        if job.process is not None:
            return f"would request a checkpoint from {name} by {job.process.check()}"
        return f"would request a checkpoint from {name} by {job.file or job.url}"

    def send(self, order: MessageRequest) -> Receipt:
        """Send the request and wait for the confirmation."""
        name, job = self._job(order)
        key = job.heartbeat or (None if job.confirm_file or job.confirm_url else name)
        before = _Before(file_ns=_changed_ns(job.confirm_file), step=self._newest_step(key))
        begun_s = self._clock.monotonic_s()
        self._request(job, order)
        requested = f"checkpoint requested from {name}"
        if not (job.confirm_file or job.confirm_url or job.heartbeat or before.step is not None):
            accepted = "accepted with status 200; " if job.url is not None else ""
            return Receipt(summary=f"{requested}, not confirmed: {accepted}no confirmation is configured")
        while self._clock.monotonic_s() - begun_s < job.within_s:
            step = self._newest_step(key)
            is_newer = step is not None and (before.step is None or step > before.step)
            if is_newer or self._is_written(job, before.file_ns):
                took_s = self._clock.monotonic_s() - begun_s
                of_step = f" of step {step:.0f}" if is_newer else ""
                return Receipt(summary=f"{name} wrote a checkpoint{of_step} within {took_s:.1f} s")
            if self._wait(LOOK_EVERY_S):
                raise TransientError(f"{requested}; railwatch stops before the confirmation")
        return Receipt(summary=f"{requested}, not confirmed within {job.within_s:g} s", done=False)

    def _newest_step(self, key: str | None) -> float | None:
        return None if key is None else self._step_of(key)

    def _job(self, order: MessageRequest) -> tuple[str, CheckpointSettings]:
        name = dict(order.decision.parameters).get(NAME)
        if name is None and len(self._jobs) == 1:
            name = next(iter(self._jobs))
        job = self._jobs.get(name or "")
        if job is None or name is None:
            known = ", ".join(sorted(self._jobs)) or "none"
            raise ActionRefusedError(f"no checkpoint {name or ''!r} in actuators.checkpoints; expected one of: {known}")
        return name, job

    def _request(self, job: CheckpointSettings, order: MessageRequest) -> None:
        if job.file is not None:
            _touch(job.file, self._clock.utc_ns())
        elif job.process is not None:
            job.process.signal()
        elif job.url is not None:
            status = _status_of("POST", job.url, request_json(order))
            if status != _OK:
                error = TransientError if status >= 500 or status == 429 else ActionRefusedError
                raise error(f"{job.url}: HTTP status {status}")

    def _is_written(self, job: CheckpointSettings, before_ns: int | None) -> bool:
        if job.confirm_file is not None:
            now_ns = _changed_ns(job.confirm_file)
            return now_ns is not None and now_ns != before_ns
        if job.confirm_url is None:
            return False
        try:
            return _status_of("GET", job.confirm_url) == _OK
        except TransientError:
            return False


def _status_of(method: str, url: str, body: bytes | None = None) -> int:
    """Send an HTTP request and return the status; the body is not read, because it may be of any length."""
    import urllib3  # noqa: PLC0415 -- a tenth of a second, which no command that only reads the configuration pays

    headers = {"Content-Type": "application/json"}
    try:
        with urllib3.PoolManager(retries=False, timeout=REQUEST_TIMEOUT_S) as http:
            answer = http.request(method, url, body=body, headers=headers, preload_content=False)
            answer.close()
            return answer.status
    except urllib3.exceptions.HTTPError as err:
        raise TransientError(f"{url}: {err}") from err


def _touch(path: Path, now_ns: int) -> None:
    """Create a file or update its time. A link is not followed: the folder may be the job's own."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o644)
    except PermissionError as err:
        raise NotPermittedError(f"{path}: {err.strerror}") from err
    except OSError as err:
        raise TransientError(f"{path}: {err.strerror}") from err
    try:
        os.utime(descriptor, ns=(now_ns, now_ns))
    finally:
        os.close(descriptor)


def _changed_ns(path: Path | None) -> int | None:
    """Return the modification time of a file, None if there is none."""
    try:
        return None if path is None else path.stat().st_mtime_ns
    except OSError:
        return None
