"""Runs one program by its argument vector: no shell, a clean environment, a time limit, a bounded output."""

import os
import select
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from telemetry.clock import Clock
from telemetry.errors import NotPermittedError, NotSupportedError, TransientError

# heuristic: kept part of the output, enough for an error message; the rest is read and discarded.
OUTPUT_BYTES_MAX = 16 << 10
# PATH of a user without a profile, and the folders of administration tools.
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# Interval of checks whether a program has ended.
_POLL_S = 0.05
# heuristic: time between SIGTERM and SIGKILL.
_GRACE_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramResult:
    """Result of a program. `status` is None if it was killed at its time limit, negative if a signal ended it."""

    status: int | None
    output: str
    took_s: float

    @property
    def first_line(self) -> str:
        """First line of its output that is not blank."""
        return next((line.strip() for line in self.output.splitlines() if line.strip()), "")


def run_program(
    command: Sequence[str],
    clock: Clock,
    *,
    timeout_s: float,
    stdin: bytes = b"",
    environment: Mapping[str, str] | None = None,
    output_bytes_max: int = OUTPUT_BYTES_MAX,
) -> ProgramResult:
    """Run a program and wait for its end.

    It runs in a process group of its own in the folder ``/``. At the time limit the whole group gets SIGTERM, then
    SIGKILL. Background processes of a program that ends in time keep running.

    Raises
    ------
    NotSupportedError
        There is no such program.
    NotPermittedError
        It may not be run.
    TransientError
        The machine could not start it now.
    """
    begun_s = clock.monotonic_s()
    # The input is a file in memory: no pipe that has to be written while the output is read.
    given = os.memfd_create("order")
    try:
        os.write(given, stdin)
        os.lseek(given, 0, os.SEEK_SET)
        process = subprocess.Popen(
            list(command),
            stdin=given,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={"PATH": PATH, "LANG": "C.UTF-8", **(environment or {})},
            cwd="/",
            start_new_session=True,
            bufsize=0,
        )
    except FileNotFoundError as err:
        raise NotSupportedError(f"{command[0]}: no such program") from err
    except PermissionError as err:
        raise NotPermittedError(f"{command[0]}: {err.strerror}") from err
    except OSError as err:
        raise TransientError(f"{command[0]}: {err.strerror}") from err
    finally:
        os.close(given)
    with process:
        output, ended = _followed(process, clock, until_s=begun_s + timeout_s, most_bytes=output_bytes_max)
        if not ended:
            _kill_group(process, clock)
    return ProgramResult(
        status=process.returncode if ended else None,
        output=output.decode("utf-8", "replace"),
        took_s=clock.monotonic_s() - begun_s,
    )


def _followed(process: subprocess.Popen[bytes], clock: Clock, *, until_s: float, most_bytes: int) -> tuple[bytes, bool]:
    """Read the output of a program until it ends or the time limit; return the output and whether it ended."""
    kept = bytearray()
    if process.stdout is None:
        raise ValueError("the process has no pipe as standard output")
    descriptor = process.stdout.fileno()
    os.set_blocking(descriptor, False)
    is_open = True
    while True:
        ended = process.poll() is not None  # checked before the read: its last output is there by then
        chunk = _read(descriptor) if is_open else None
        is_open = chunk != b""
        if chunk:
            kept += chunk[: max(0, most_bytes - len(kept))]
        elif ended:
            return bytes(kept), True
        if clock.monotonic_s() >= until_s:
            return bytes(kept), ended
        if not chunk and is_open:
            select.select([descriptor], [], [], _POLL_S)
        elif not chunk:
            clock.sleep_until(clock.monotonic_s() + _POLL_S)


def _read(descriptor: int) -> bytes | None:
    """Return available output; None if there is none now, empty at the end of the output."""
    try:
        return os.read(descriptor, 64 << 10)
    except BlockingIOError:
        return None


def _kill_group(process: subprocess.Popen[bytes], clock: Clock) -> None:
    """Kill a program and its process group.

    The leader is reaped last: until then no other group can get its id.
    """
    os.killpg(process.pid, signal.SIGTERM)
    until_s = clock.monotonic_s() + _GRACE_S
    while clock.monotonic_s() < until_s and not os.waitid(
        os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT
    ):  # checks without reaping
        clock.sleep_until(clock.monotonic_s() + _POLL_S)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
