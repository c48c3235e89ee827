"""The supervisor with real processes: started, watched, started again, stopped, and never left behind."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from railwatch import supervisor as module
from railwatch.launcher import ChildProcess, ForkedProcess, Launcher
from railwatch.supervisor import FIRST_PAUSE_S, LEAVE_S, LINGERS, LONGEST_PAUSE_S, SETTLED_S, Supervisor
from telemetry.errors import EnvironmentLacksError
from tests.agent.fakes import FakeClock
from tests.railwatch.children import CLOCK, ENDS_BY_ITSELF_S, MODULE, prepare, spec
from tests.waiting import wait_for

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(params=["executed", "forked"])
def supervisor(tmp_path: Path, clock: FakeClock, request: pytest.FixtureRequest) -> Iterator[Supervisor]:
    launcher = Launcher.fork(()) if request.param == "forked" else None
    made = Supervisor(prepare(tmp_path), clock, launcher)
    yield made
    made.stop_all()
    if launcher is not None:
        launcher.close()


def running(pid: int) -> bool:
    try:
        process = psutil.Process(pid)  # it is reaped only once its last thread has ended
        return process.status() != psutil.STATUS_ZOMBIE or process.num_threads() > 1
    except psutil.NoSuchProcess:
        return False


@pytest.fixture(autouse=True)
def _no_process_left(tmp_path: Path) -> Iterator[None]:
    """Kill every process that a test started and its supervisor abandoned."""
    yield
    started = pids(tmp_path) if (tmp_path / "pids").exists() else []
    for pid in started:
        with contextlib.suppress(psutil.NoSuchProcess):
            left = psutil.Process(pid)
            if MODULE in left.cmdline():
                left.kill()
    wait_for(lambda: not any(running(pid) for pid in started))


def pids(folder: Path) -> list[int]:
    return [int(pid) for pid in (folder / "pids").read_text().split()]


def test_a_process_that_is_ready_returns_its_facts_and_ends_cleanly(supervisor: Supervisor, tmp_path: Path) -> None:
    facts = supervisor.start(spec("works"))
    assert running(facts["pid"])
    assert supervisor.watch() == ()
    assert supervisor.stop("child") == 0
    assert (tmp_path / "ended").exists()
    assert not running(facts["pid"])
    assert supervisor.stop("child") is None


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("fails", "there is no such thing here"),
        ("dies", "child: exited with status 7 before it was ready"),
        ("silent", "child: not ready within 1 s"),
        ("talks", "child: printed b'hello"),
    ],
)
def test_a_process_that_does_not_come_up_is_an_error_and_nothing_is_left(
    supervisor: Supervisor, tmp_path: Path, how: str, message: str
) -> None:
    timeout_s = 1.0 if how == "silent" else 60.0
    with pytest.raises(EnvironmentLacksError, match=message):
        supervisor.start(spec(how, start_timeout_s=timeout_s))
    left = pids(tmp_path) if (tmp_path / "pids").exists() else []
    assert [pid for pid in left if running(pid)] == []
    assert supervisor.stop("child") is None


def test_processes_that_start_together_are_all_there_and_return_their_facts_in_order(supervisor: Supervisor) -> None:
    facts = supervisor.start_together([spec("works", name=name) for name in ("one", "two", "three")])
    assert [one["pid"] for one in facts] == [supervisor._children[n].process.pid for n in ("one", "two", "three")]
    assert supervisor.watch() == ()
    assert [supervisor.stop(name) for name in ("one", "two", "three")] == [0, 0, 0]


def test_one_that_cannot_run_is_reported_and_those_that_started_with_it_can_be_stopped(supervisor: Supervisor) -> None:
    with pytest.raises(EnvironmentLacksError, match="there is no such thing here"):
        supervisor.start_together([spec("fails", name="one"), spec("works", name="two")])
    other = supervisor._children["two"].process.pid
    supervisor.stop_all()
    assert not running(other)


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not running(pid))


def test_a_process_that_dies_is_started_again_after_a_pause(
    supervisor: Supervisor, clock: FakeClock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = supervisor.start(spec("works"))["pid"]
    kill(first)
    wait_for(lambda: supervisor.watch() == ("child",))
    assert "exited with status -9; restarting in 0.5 s" in caplog.text
    assert supervisor.watch() == ()
    assert len(pids(tmp_path)) == 1, "the pause is not over"
    clock.advance(FIRST_PAUSE_S)
    supervisor.watch()
    wait_for(lambda: len(pids(tmp_path)) == 2)
    assert supervisor.restarts == 1
    wait_for(lambda: supervisor.watch() == () and supervisor._children["child"].is_ready)
    assert supervisor.stop("child") == 0


def test_pauses_grow_while_it_keeps_dying_and_begin_again_once_it_settled(
    supervisor: Supervisor, clock: FakeClock
) -> None:
    supervisor.start(spec("dies when it is started again"))
    child = supervisor._children["child"]
    kill(child.process.pid)
    pauses_s = []
    for _ in range(3):
        wait_for(supervisor.watch)
        pauses_s.append(child.pause_s)
        clock.advance(child.pause_s)
        supervisor.watch()
        child.process.wait()
    assert pauses_s == [0.5, 1.0, 2.0]
    child.pause_s = LONGEST_PAUSE_S
    clock.advance(SETTLED_S + 1.0)
    supervisor.watch()
    assert child.pause_s == FIRST_PAUSE_S


def test_the_others_do_not_wait_for_one_that_does_not_come_up_again(
    supervisor: Supervisor, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    supervisor.start(spec("works"))
    child = supervisor._children["child"]
    kill(child.process.pid)
    child.spec = spec("silent")
    wait_for(supervisor.watch)
    clock.advance(FIRST_PAUSE_S)
    begun_s = CLOCK.monotonic_s()
    supervisor.watch()
    supervisor.watch()
    assert CLOCK.monotonic_s() - begun_s < 50.0  # it may take a minute to come up
    clock.advance(61.0)
    wait_for(lambda: supervisor.watch() == ("child",))
    assert "child not ready within 60 s" in caplog.text


def test_what_a_process_states_is_closed_by_its_reader_alone_lest_that_reads_from_the_next_one(
    supervisor: Supervisor,
) -> None:
    other = supervisor.start(spec("leaves another that can speak"))["pid"]
    output = supervisor._children["child"].process.stdout
    assert output is not None
    assert supervisor.stop("child") == 0
    assert not output.closed
    os.kill(other, signal.SIGKILL)
    wait_for(lambda: output.closed)


def test_what_does_not_stop_is_killed(supervisor: Supervisor, caplog: pytest.LogCaptureFixture) -> None:
    pid = supervisor.start(spec("deaf", stop_timeout_s=0.5))["pid"]
    assert supervisor.stop("child") == -signal.SIGKILL
    assert not running(pid)
    assert "did not stop within" in caplog.text


def test_all_are_stopped_the_last_one_first(supervisor: Supervisor) -> None:
    started = [supervisor.start(spec("works", name=name))["pid"] for name in ("one", "two")]
    supervisor.stop_all()
    assert [pid for pid in started if running(pid)] == []


def test_processes_end_when_their_supervisor_is_killed(tmp_path: Path) -> None:
    prepare(tmp_path)
    above = subprocess.Popen(
        [sys.executable, "-m", MODULE, "supervise", str(tmp_path)], stdout=subprocess.PIPE, cwd=ROOT
    )
    try:
        assert above.stdout is not None
        pid = int(above.stdout.readline())
        assert running(pid)
        above.kill()
        above.wait()
        wait_for(lambda: not running(pid))
        assert (tmp_path / "ended").exists(), "it stopped as on request"
    finally:
        above.kill()
        above.wait()
        if above.stdout is not None:
            above.stdout.close()


def test_a_process_that_left_and_does_not_end_is_killed_and_another_takes_its_place(
    supervisor: Supervisor, tmp_path: Path, clock: FakeClock
) -> None:
    first = supervisor.start(spec("leaves but cannot end", stop_timeout_s=0.3))["pid"]
    wait_for(supervisor._children["child"].left.is_set)
    assert supervisor.watch() == ()
    assert running(first)
    clock.advance(LEAVE_S + 0.1)
    assert supervisor.watch() == ()
    wait_for(lambda: supervisor.watch() == ("child",))  # a zombie is reaped once its last thread has ended
    assert not running(first)
    clock.advance(FIRST_PAUSE_S)
    supervisor.watch()
    wait_for(lambda: len(pids(tmp_path)) == 2)


def test_a_process_that_not_even_a_kill_ends_is_abandoned_and_another_takes_its_place(
    supervisor: Supervisor, tmp_path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = supervisor.start(spec("leaves but cannot end", stop_timeout_s=0.3))["pid"]
    process = supervisor._children["child"].process
    wait_for(supervisor._children["child"].left.is_set)
    monkeypatch.setattr(process, "kill", lambda: None)  # as one whose thread is stuck in the kernel
    supervisor.watch()
    clock.advance(2 * LEAVE_S + 0.1)
    assert supervisor.watch() == ("child",)
    clock.advance(FIRST_PAUSE_S)
    supervisor.watch()
    wait_for(lambda: len(pids(tmp_path)) == 2)
    assert running(first)
    os.kill(first, signal.SIGKILL)
    process.wait()


@pytest.fixture
def unending(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No kill ends a process, as where a thread of it is stuck in the kernel."""
    stuck: list[ChildProcess] = []

    def kill(process: ChildProcess) -> None:
        stuck.append(process)

    for started in (subprocess.Popen, ForkedProcess):
        monkeypatch.setattr(started, "kill", kill)
    monkeypatch.setattr(module, "LEAVE_S", 0.3)
    yield
    monkeypatch.undo()
    for process in stuck:
        process.kill()
        process.wait()


@pytest.mark.usefixtures("unending")
def test_stopping_does_not_wait_for_a_process_that_cannot_end_so_that_the_next_is_reported(
    supervisor: Supervisor, caplog: pytest.LogCaptureFixture
) -> None:
    supervisor.start(spec("works", name="actuator"))
    stuck = supervisor.start(spec("deaf", name="sampler", stop_timeout_s=0.3))["pid"]
    assert supervisor.stop("sampler") == LINGERS
    assert "sampler did not exit after SIGKILL" in caplog.text
    assert running(stuck)
    assert supervisor.stop("actuator") == 0


@pytest.mark.usefixtures("unending")
def test_a_start_does_not_wait_for_a_process_that_cannot_end(
    supervisor: Supervisor, caplog: pytest.LogCaptureFixture
) -> None:
    begun_s = CLOCK.monotonic_s()
    with pytest.raises(EnvironmentLacksError, match="not ready within 1 s"):
        supervisor.start(spec("silent", start_timeout_s=1.0))
    assert CLOCK.monotonic_s() - begun_s < ENDS_BY_ITSELF_S / 2
    assert "child did not exit after SIGKILL" in caplog.text


@pytest.mark.usefixtures("unending")
def test_a_start_does_not_wait_for_a_process_that_closed_its_output_and_stays(supervisor: Supervisor) -> None:
    begun_s = CLOCK.monotonic_s()
    with pytest.raises(EnvironmentLacksError, match="closed its output before it was ready"):
        supervisor.start(spec("leaves before it is ready"))
    assert CLOCK.monotonic_s() - begun_s < ENDS_BY_ITSELF_S / 2


def test_a_process_that_does_not_come_up_and_cannot_be_ended_is_stated_once_and_replaced(
    supervisor: Supervisor,
    clock: FakeClock,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    supervisor.start(spec("works"))
    child = supervisor._children["child"]
    kill(child.process.pid)
    child.spec = spec("silent")
    wait_for(supervisor.watch)
    clock.advance(FIRST_PAUSE_S)
    supervisor.watch()
    wait_for(lambda: len(pids(tmp_path)) == 2)
    stuck = child.process
    monkeypatch.setattr(stuck, "kill", lambda: None)
    clock.advance(61.0)
    for _ in range(5):
        assert supervisor.watch() == ()
        clock.advance(LEAVE_S / 2)
    assert supervisor.watch() == ("child",)
    assert caplog.text.count("child not ready within 60 s") == 1
    clock.advance(child.pause_s)
    supervisor.watch()
    wait_for(lambda: len(pids(tmp_path)) == 3)
    monkeypatch.undo()
    stuck.kill()
    stuck.wait()


def test_changes_are_signalled_and_between_them_it_is_settled(tmp_path: Path, clock: FakeClock) -> None:
    changes: list[float] = []
    supervisor = Supervisor(prepare(tmp_path), clock, on_change=lambda: changes.append(CLOCK.monotonic_s()))
    pid = supervisor.start(spec("works"))["pid"]
    wait_for(lambda: len(changes) == 1)
    assert supervisor.is_settled
    kill(pid)
    wait_for(lambda: len(changes) == 2)
    assert not supervisor.is_settled
    wait_for(supervisor.watch)
    clock.advance(FIRST_PAUSE_S)
    supervisor.watch()
    assert not supervisor.is_settled
    wait_for(lambda: supervisor.watch() == () and supervisor.is_settled)
    supervisor.stop_all()
