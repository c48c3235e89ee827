"""The launcher with real processes: forked, named, watched, and ended with the process that forked the launcher."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from railwatch.launcher import STATUS_UNKNOWN, ForkedProcess, Launcher
from railwatch.supervisor import Supervisor
from tests.agent.fakes import FakeClock
from tests.railwatch.children import MODULE, prepare, spec
from tests.waiting import wait_for

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def launcher() -> Iterator[Launcher]:
    made = Launcher.fork(())
    assert made is not None
    yield made
    made.close()


def start(launcher: Launcher, run_dir: Path, how: str) -> ForkedProcess:
    return launcher.start(MODULE, [str(prepare(run_dir))], spec(how).environ)


def finish(process: ForkedProcess) -> None:
    process.kill()
    process.wait(60.0)
    for pipe in (process.stdin, process.stdout):
        assert pipe is not None
        pipe.close()


def test_a_forked_process_shows_its_own_command_line_and_environment(launcher: Launcher, tmp_path: Path) -> None:
    process = start(launcher, tmp_path, "works")
    assert process.stdout is not None
    assert process.stdout.readline() == f'{{"ready": {{"pid": {process.pid}}}}}\n'.encode()
    seen = psutil.Process(process.pid)
    assert seen.cmdline() == [sys.executable, "-m", MODULE, str(tmp_path)]
    assert os.getsid(process.pid) == process.pid
    assert process.poll() is None
    process.terminate()
    assert process.wait(60.0) == 0
    assert process.poll() == 0
    finish(process)


def test_a_forked_process_ends_once_its_standard_input_ends(launcher: Launcher, tmp_path: Path) -> None:
    process = start(launcher, tmp_path, "works")
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(60.0) == 0
    assert (tmp_path / "ended").exists()
    finish(process)


def test_waiting_for_a_process_that_runs_times_out(launcher: Launcher, tmp_path: Path) -> None:
    process = start(launcher, tmp_path, "works")
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.01)
    finish(process)
    assert process.returncode == -signal.SIGKILL


def test_a_process_outlives_a_launcher_that_is_killed_and_its_end_is_noticed(
    launcher: Launcher, tmp_path: Path
) -> None:
    process = start(launcher, tmp_path, "works")
    parent = psutil.Process(process.pid).parent()
    assert parent is not None
    assert parent.cmdline() == [sys.executable, "-m", "railwatch.launcher"]
    parent.kill()
    parent.wait()
    assert process.poll() is None
    process.terminate()
    assert process.wait(60.0) == STATUS_UNKNOWN
    finish(process)


def test_without_its_launcher_the_supervisor_executes_processes(
    launcher: Launcher, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    supervisor = Supervisor(prepare(tmp_path), FakeClock(), launcher)
    first = supervisor.start(spec("works", name="first"))["pid"]
    parent = psutil.Process(first).parent()
    assert parent is not None
    parent.kill()
    parent.wait()
    second = supervisor.start(spec("works", name="second"))["pid"]
    assert psutil.Process(second).ppid() == os.getpid()
    assert "starting processes without it" in caplog.text
    assert supervisor.stop("second") == 0
    supervisor.stop_all()
    wait_for(lambda: not psutil.pid_exists(first))


def test_the_launcher_and_its_processes_end_with_the_process_that_forked_it(tmp_path: Path) -> None:
    above = subprocess.Popen(
        [sys.executable, "-m", MODULE, "launch", str(prepare(tmp_path))], stdout=subprocess.PIPE, cwd=ROOT
    )
    assert above.stdout is not None
    with above.stdout as output:
        child = psutil.Process(int(output.readline()))
        parent = child.parent()
        assert parent is not None
        above.kill()
        above.wait()
        wait_for(lambda: not child.is_running() and not parent.is_running())
    assert (tmp_path / "ended").exists(), "it stopped as on request"
