"""Requests a checkpoint from a job, and waits for the confirmation.

The request is one of three: a file is touched, a process gets a signal, or an address receives a POST. The job confirms
by its heartbeat, which reports a later step, by a file with a newer time, or by an address that answers 200. Without a
confirmation the request is reported as not confirmed.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from agent.responding.hook import request_json
from agent.responding.port import MessageRequest, Receipt
from agent.responding.signalling import SignalledProcess
from telemetry.clock import Clock
from telemetry.errors import ActionRefusedError, NotPermittedError, TransientError

# The parameter of a decision that names the checkpoint.
NAME = "checkpoint"
# heuristic: interval of checks for the confirmation; a checkpoint takes seconds to minutes.
LOOK_EVERY_S = 0.5
REQUEST_TIMEOUT_S = 10.0
_OK = 200


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

    Parameters
    ----------
    wait
        Waits that many seconds; returns True if railwatch is to stop.
    step_of
        Returns the step of the newest checkpoint of a job, by the key of its heartbeat; None if none is reported.
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
        self._ask(job, order)
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

    def _ask(self, job: CheckpointSettings, order: MessageRequest) -> None:
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
