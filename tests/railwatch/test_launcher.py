"""The launcher with real processes: forked, named, watched, and ended with the process that forked the launcher."""

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from railwatch import launcher as module
from railwatch import supervisor as supervisor_module
from railwatch.launcher import STATUS_UNKNOWN, ForkedProcess, Launcher
from railwatch.supervisor import LINGERS, Supervisor
from tests.agent.fakes import FakeClock
from tests.railwatch.children import MODULE, nap, prepare, spec
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
    assert process.stdout.readline() == f'{{"ready":{{"pid":{process.pid}}}}}\n'.encode()
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


def test_a_launcher_that_does_not_answer_in_time_is_left_and_what_it_forks_later_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ANSWER_S", 0.2)
    others = psutil.Process().children()
    launcher = Launcher.fork(())
    assert launcher is not None
    (parent,) = set(psutil.Process().children()) - set(others)
    parent.suspend()
    try:
        with pytest.raises(TimeoutError):
            start(launcher, tmp_path, "works")
        monkeypatch.setattr(module, "ANSWER_S", 60.0)
        with pytest.raises(OSError, match=os.strerror(errno.EBADF)):
            start(launcher, tmp_path, "works")
    finally:
        parent.resume()
    parent.wait(60.0)
    wait_for(lambda: (tmp_path / "pids").exists() and (tmp_path / "pids").read_text().endswith("\n"))
    late = int((tmp_path / "pids").read_text())
    wait_for(lambda: not psutil.pid_exists(late))


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.EPERM])
def test_there_is_no_launcher_where_the_kernel_refuses_pidfds(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_pid: int) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "pidfd_open", refuse)
    assert Launcher.fork(()) is None


def test_statuses_are_read_even_if_the_supervisor_inherited_that_ends_of_processes_are_ignored(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        launcher = Launcher.fork(())
    finally:
        signal.signal(signal.SIGCHLD, before)
    assert launcher is not None
    for _ in range(2):
        process = start(launcher, tmp_path, "dies")
        assert process.wait(60.0) == 7
        finish(process)
    launcher.close()


def test_a_process_that_is_closed_while_it_runs_leaves_no_descriptor_here_or_in_the_launcher(
    launcher: Launcher, tmp_path: Path
) -> None:
    finish(start(launcher, tmp_path, "works"))
    ours = psutil.Process().num_fds()
    process = start(launcher, tmp_path, "deaf")
    parent = psutil.Process(process.pid).parent()
    assert parent is not None
    held = parent.num_fds()
    process.close()
    process.close()
    assert process.poll() == STATUS_UNKNOWN
    process.kill()
    assert psutil.pid_exists(process.pid), "no signal reaches it"
    os.kill(process.pid, signal.SIGKILL)
    wait_for(lambda: parent.num_fds() == held - 2)
    finish(process)
    assert psutil.Process().num_fds() == ours
    again = start(launcher, tmp_path, "dies")
    assert again.wait(60.0) == 7
    finish(again)


def test_a_supervisor_that_stops_a_process_which_cannot_end_keeps_no_descriptor_of_it(
    launcher: Launcher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor_module, "LEAVE_S", 0.1)
    monkeypatch.setattr(ForkedProcess, "kill", lambda _process: None)  # as one whose thread is stuck in the kernel
    supervisor = Supervisor(prepare(tmp_path), FakeClock(), launcher)
    ours = psutil.Process().num_fds()
    pid = supervisor.start(spec("deaf", stop_timeout_s=0.1))["pid"]
    assert supervisor.stop("child") == LINGERS
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: psutil.Process().num_fds() == ours)  # a thread closes its output


def test_a_process_is_ended_by_a_signal_that_comes_as_soon_as_it_is_forked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    setsid = os.setsid

    def set_slowly() -> None:
        nap(0.3)
        setsid()

    monkeypatch.setattr(os, "setsid", set_slowly)  # the first call of a forked process
    launcher = Launcher.fork(())
    assert launcher is not None
    process = start(launcher, tmp_path, "works")
    process.terminate()
    assert process.wait(60.0) == -signal.SIGTERM
    finish(process)
    launcher.close()


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
