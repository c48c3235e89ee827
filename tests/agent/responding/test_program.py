"""A program gets its argument vector, its input and its time, and nothing else."""

import contextlib
import os
import signal
from pathlib import Path

import psutil
import pytest

from agent.responding.program import run_program
from telemetry.clock import SystemClock
from telemetry.errors import NotPermittedError, NotSupportedError
from tests.waiting import LeapingClock, wait_for

CLOCK = SystemClock()


def shell(script: str, *, timeout_s: float = 60.0, stdin: bytes = b"", most: int = 16 << 10) -> tuple[int | None, str]:
    ran = run_program(("/bin/sh", "-c", script), CLOCK, timeout_s=timeout_s, stdin=stdin, output_bytes_max=most)
    return ran.status, ran.output


def test_it_reads_its_input_and_what_it_states_on_both_channels_is_kept() -> None:
    assert shell("cat; echo wrong >&2; exit 3", stdin=b"order\n") == (3, "order\nwrong\n")


def test_more_input_than_a_pipe_holds_reaches_a_program_that_reads_late() -> None:
    status, output = shell("echo begun; wc -c", stdin=b"x" * 300_000)
    assert (status, output.split()) == (0, ["begun", "300000"])


def test_its_output_is_bounded_and_it_is_not_stopped_by_that() -> None:
    status, output = shell("head -c 400000 /dev/zero | tr '\\0' y; exit 4", most=100)
    assert (status, output) == (4, "y" * 100)


def test_its_environment_is_clean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAILWATCH_STORE__TOKEN", "secret")
    ran = run_program(("/usr/bin/env",), CLOCK, timeout_s=60.0, environment={"SLURM_CONF": "/x"})
    names = {line.partition("=")[0] for line in ran.output.splitlines()}
    assert names == {"PATH", "LANG", "SLURM_CONF"}


def test_an_argument_is_never_read_by_a_shell(tmp_path: Path) -> None:
    ran = run_program(("/bin/echo", f"$(touch {tmp_path}/made); `id` | cat"), CLOCK, timeout_s=60.0)
    assert ran.output.startswith("$(touch")
    assert list(tmp_path.iterdir()) == []


def test_where_its_time_is_over_it_is_killed_with_all_that_it_started(tmp_path: Path) -> None:
    noted, clock, begun_s = tmp_path / "child", LeapingClock(), CLOCK.monotonic_s()
    clock.leap_once(lambda: noted.exists() and noted.read_text().endswith("\n"), 1000.0)
    script = f"trap '' TERM; (trap '' TERM; echo $BASHPID > {noted}; exec sleep 100) & sleep 100"
    ran = run_program(("/bin/bash", "-c", script), clock, timeout_s=900.0)
    assert ran.status is None
    assert CLOCK.monotonic_s() - begun_s < 90.0, "it was waited for"
    wait_for(lambda: not _runs(int(noted.read_text())))  # a kill takes a moment to arrive


def _runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_a_program_that_closes_its_output_is_waited_for() -> None:
    assert shell("exec >&- 2>&-; sleep 0.2; exit 7") == (7, "")


def test_what_it_leaves_in_the_background_does_not_hold_its_end_up() -> None:
    begun_s = CLOCK.monotonic_s()
    status, output = shell("sleep 100 & echo $!", timeout_s=1000.0)
    assert status == 0
    assert CLOCK.monotonic_s() - begun_s < 90.0
    with contextlib.suppress(ProcessLookupError):
        os.kill(int(output), signal.SIGKILL)


def test_a_flood_of_output_does_not_outlast_its_time() -> None:
    status, _ = shell("exec yes", timeout_s=0.3)
    assert status is None


def test_what_is_no_program_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotSupportedError, match="no such program"):
        run_program((str(tmp_path / "nothing"),), CLOCK, timeout_s=1.0)
    plain = tmp_path / "plain"
    plain.write_text("text")
    with pytest.raises(NotPermittedError):
        run_program((str(plain),), CLOCK, timeout_s=1.0)


def test_no_descriptor_is_left_open() -> None:
    before = sum(1 for _ in Path("/proc/self/fd").iterdir())
    for _ in range(3):
        shell("true")
    assert sum(1 for _ in Path("/proc/self/fd").iterdir()) <= before
