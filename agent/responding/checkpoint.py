"""Asks a job to write a checkpoint, and waits until it says that it has.

A job is asked in one of three ways: a file is touched, a process gets a signal, an address is posted to. It answers by
its heartbeat, which tells a later step, by a file that gets newer, or by an address that answers 200. Where nothing of
that comes the request is told as asked and not confirmed.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from agent.responding.hook import told
from agent.responding.port import MessageRequest, Receipt
from agent.responding.signalling import SignalledProcess
from telemetry.clock import Clock
from telemetry.errors import ActionRefusedError, NotPermittedError, TransientError

# The parameter of a decision that names the checkpoint.
NAME = "checkpoint"
# Between two looks at whether it is written. Heuristic: a checkpoint takes seconds to minutes.
LOOK_EVERY_S = 0.5
REQUEST_TIMEOUT_S = 10.0
_OK = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointSettings:
    """How one job is asked and how it answers.

    Exactly one of `file`, `process` and `url` is set; what `url` answers says that the request was taken. `heartbeat`
    is the key of the job whose heartbeat tells of checkpoints; where it is set one is waited for that has never told of
    any. Where it is empty the name of the checkpoint is its key, but none is heard where the job is to confirm by file
    or address: whoever may send readings would speak for it.
    """

    within_s: float
    file: Path | None = None
    process: SignalledProcess | None = None
    url: str | None = None
    confirm_file: Path | None = None
    confirm_url: str | None = None
    heartbeat: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Told:
    """What was told of checkpoints before one was asked for."""

    file_ns: int | None
    step: float | None


class Checkpoint:
    """Asks the job that a decision names, the only one where there is one.

    Parameters
    ----------
    wait
        Waits for so many seconds; True where railwatch is to end.
    step_of
        Gives the step that the newest checkpoint of a job holds, by the key of its heartbeat; None where it tells none.
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
        """Return which job it would be, and by what way."""
        name, job = self._job(order)
        if job.process is not None:
            return f"would ask {name} by {job.process.check()}"
        return f"would ask {name} by {job.file or job.url}"

    def send(self, order: MessageRequest) -> Receipt:
        """Ask, and wait for the answer."""
        name, job = self._job(order)
        key = job.heartbeat or (None if job.confirm_file or job.confirm_url else name)
        before = _Told(file_ns=_changed_ns(job.confirm_file), step=self._told_step(key))
        begun_s = self._clock.monotonic_s()
        self._ask(job, order)
        asked = f"{name} was asked for a checkpoint"
        if not (job.confirm_file or job.confirm_url or job.heartbeat or before.step is not None):
            taken = "it answered 200, and " if job.url is not None else ""
            return Receipt(words=f"{asked}, not confirmed: {taken}nothing tells whether it was written")
        while self._clock.monotonic_s() - begun_s < job.within_s:
            step = self._told_step(key)
            told = step is not None and (before.step is None or step > before.step)
            if told or self._is_written(job, before.file_ns):
                took_s = self._clock.monotonic_s() - begun_s
                of_step = f" of step {step:.0f}" if told else ""
                return Receipt(words=f"{name} wrote a checkpoint{of_step} within {took_s:.1f} s")
            if self._wait(LOOK_EVERY_S):
                raise TransientError(f"{asked}; railwatch ends before it is told of one")
        return Receipt(words=f"{asked}, not confirmed: it told of none in {job.within_s:g} s", done=False)

    def _told_step(self, key: str | None) -> float | None:
        return None if key is None else self._step_of(key)

    def _job(self, order: MessageRequest) -> tuple[str, CheckpointSettings]:
        name = dict(order.decision.parameters).get(NAME)
        if name is None and len(self._jobs) == 1:
            name = next(iter(self._jobs))
        job = self._jobs.get(name or "")
        if job is None or name is None:
            known = ", ".join(sorted(self._jobs)) or "none"
            raise ActionRefusedError(f"checkpoint {name or ''!r} is not in actuators.checkpoints; there is {known}")
        return name, job

    def _ask(self, job: CheckpointSettings, order: MessageRequest) -> None:
        if job.file is not None:
            _touch(job.file, self._clock.utc_ns())
        elif job.process is not None:
            job.process.signal()
        elif job.url is not None:
            status = _status_of("POST", job.url, told(order))
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
    """Ask an address and give the status of its answer, whose body is not read: it may be of any length."""
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
    """Make a file or its time new. It is never followed through a link: its folder may be the job's own."""
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
    """Return when a file was changed, None where there is none."""
    try:
        return None if path is None else path.stat().st_mtime_ns
    except OSError:
        return None
