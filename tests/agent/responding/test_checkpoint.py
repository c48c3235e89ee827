"""A checkpoint is requested from a job by file, signal or HTTP, and the job's answer is reported."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from agent.collectors.readings.line import parse_line
from agent.collectors.readings.tables import ReadingTables
from agent.responding.checkpoint import Checkpoint, CheckpointSettings, SignalledProcess
from agent.responding.heartbeat import checkpoint_step
from agent.responding.port import MessageRequest
from telemetry.clock import SystemClock
from telemetry.errors import ActionRefusedError, NotSupportedError, TransientError
from tests.agent.responding.rig import decision

CLOCK = SystemClock()
# Prints that it is ready, and writes its checkpoint when it is asked.
JOB = """
import pathlib, signal, sys
signal.signal(signal.SIGUSR1, lambda *_: pathlib.Path(sys.argv[1]).write_text("state"))
print("ready", flush=True)
while True:
    signal.pause()
"""


def order(**parameters: str) -> MessageRequest:
    made = decision(action="checkpoint", parameters=tuple(parameters.items()))
    return MessageRequest(decision=made, incident=None, recovery=False, token="t-1")


def one(settings: CheckpointSettings, *, stopping: bool = False) -> Checkpoint:
    return Checkpoint({"train": settings}, CLOCK, wait=lambda s: stopping or threading.Event().wait(min(s, 0.02)))


@contextmanager
def job(folder: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    argv = [sys.executable, "-c", JOB, str(folder / "written")]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        pid_file = folder / "pid"
        pid_file.write_text(str(process.pid))
        try:
            yield process, pid_file
        finally:
            process.kill()


@contextmanager
def web(status: int) -> Iterator[tuple[str, list[bytes]]]:
    bodies: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(status)
            self.end_headers()

        def do_GET(self) -> None:
            self.send_response(200 if bodies else 404)
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", bodies
        server.shutdown()
        thread.join()


def test_a_file_is_touched_and_the_new_checkpoint_is_waited_for(tmp_path: Path) -> None:
    asked, written = tmp_path / "asked", tmp_path / "written"
    written.write_text("old")

    def write_when_asked() -> None:
        while not asked.exists():
            threading.Event().wait(0.01)
        os.utime(written, ns=(1, 1))

    thread = threading.Thread(target=write_when_asked)
    thread.start()
    receipt = one(CheckpointSettings(file=asked, confirm_file=written, within_s=60.0)).send(order())
    thread.join()
    assert receipt.done
    assert "wrote a checkpoint" in receipt.summary


def test_a_job_that_does_not_answer_in_time_is_reported(tmp_path: Path) -> None:
    settings = CheckpointSettings(file=tmp_path / "asked", confirm_file=tmp_path / "written", within_s=0.1)
    receipt = one(settings).send(order(checkpoint="train"))
    assert not receipt.done
    assert "not confirmed within 0.1 s" in receipt.summary


def test_without_a_way_to_answer_it_is_not_claimed_to_be_written(tmp_path: Path) -> None:
    receipt = one(CheckpointSettings(file=tmp_path / "asked", within_s=1.0)).send(order())
    assert receipt.summary == "checkpoint requested from train, not confirmed: no confirmation is configured"


class Heart:
    """Heartbeat of a job, through the ring that the process for readings writes."""

    def __init__(self, folder: Path) -> None:
        self.ring_path = folder / "ring"
        self.tables = ReadingTables(self.ring_path, node="box", simulated=False, seconds=60.0)
        self.tables.open()
        self.time_ns = 0

    def send(self, text: str) -> None:
        self.time_ns += 1
        reading = parse_line(f"job,key=train {text}".encode(), node="box")
        self.tables.admit(reading, self.time_ns)
        self.tables.write([(self.time_ns, reading)])


@pytest.mark.parametrize(
    ("before", "after", "summary", "done"),
    [
        (("steps=1",), ("checkpoint_step=120",), "wrote a checkpoint of step 120 within", True),
        (("steps=119", "checkpoint_step=100"), ("checkpoint_step=120",), "of step 120", True),
        (("checkpoint_step=100",), ("steps=130", "checkpoint_step=100"), "not confirmed within", False),
        (("checkpoint_step=100",), ("checkpoint_step=80",), "not confirmed within", False),
    ],
)
def test_the_heartbeat_of_a_job_confirms_by_a_later_step_than_before(
    tmp_path: Path, before: tuple[str, ...], after: tuple[str, ...], summary: str, *, done: bool
) -> None:
    heart = Heart(tmp_path)
    for text in before:
        heart.send(text)
    left = list(after)

    def wait(_: float) -> bool:
        if left:
            heart.send(left.pop(0))
        return threading.Event().wait(0.01)

    settings = CheckpointSettings(file=tmp_path / "asked", heartbeat="train", within_s=60.0 if done else 0.5)
    asked = Checkpoint({"train": settings}, CLOCK, wait=wait, step_of=partial(checkpoint_step, heart.ring_path))
    receipt = asked.send(order())
    assert summary in receipt.summary
    assert receipt.done is done
    assert not left
    heart.tables.close()


def test_what_was_reported_of_a_checkpoint_outlives_a_new_ring(tmp_path: Path) -> None:
    heart = Heart(tmp_path)
    heart.send("checkpoint_step=100")
    heart.send("steps=101")  # a signal that was not there: another ring takes the place of the first
    assert checkpoint_step(heart.ring_path, "train") == 100.0
    heart.tables.close()


def test_a_heartbeat_does_not_speak_for_a_job_that_is_to_confirm_by_a_file(tmp_path: Path) -> None:
    steps = iter([100.0, *200 * [200.0]])
    settings = CheckpointSettings(file=tmp_path / "asked", confirm_file=tmp_path / "written", within_s=0.05)
    asked = Checkpoint({"train": settings}, CLOCK, wait=lambda _: False, step_of=lambda _: next(steps, 200.0))
    assert not asked.send(order()).done


def test_a_job_that_never_reported_of_a_checkpoint_is_waited_for_only_where_its_heartbeat_is_named(
    tmp_path: Path,
) -> None:
    heart = Heart(tmp_path)
    heart.send("steps=1")
    step_of = partial(checkpoint_step, heart.ring_path)
    assert (step_of("train"), step_of("other"), checkpoint_step(tmp_path / "none", "train")) == (None, None, None)
    for key, summary in (("", "no confirmation is configured"), ("train", "not confirmed within 0.05 s")):
        settings = CheckpointSettings(file=tmp_path / "asked", heartbeat=key, within_s=0.05)
        asked = Checkpoint({"train": settings}, CLOCK, wait=lambda _: False, step_of=step_of)
        assert summary in asked.send(order()).summary
    heart.send("checkpoint_step=7")
    assert step_of("train") == 7.0
    heart.tables.close()


def test_a_process_gets_its_signal_and_writes(tmp_path: Path) -> None:
    with job(tmp_path) as (_, pid_file):
        process = SignalledProcess(pid_file=pid_file, signal_name="SIGUSR1")
        settings = CheckpointSettings(process=process, confirm_file=tmp_path / "written", within_s=60.0)
        assert "SIGUSR1 to the process of" in one(settings).check(order())
        assert one(settings).send(order()).done


def test_a_process_that_began_after_its_file_was_written_is_another_one_and_gets_nothing(tmp_path: Path) -> None:
    with job(tmp_path) as (process, pid_file):
        os.utime(pid_file, (1.0, 1.0))
        with pytest.raises(ActionRefusedError, match="it is another process"):
            SignalledProcess(pid_file=pid_file, signal_name="SIGUSR1").signal()
        assert process.poll() is None
    assert not (tmp_path / "written").exists()


def test_a_process_of_another_control_group_gets_nothing(tmp_path: Path) -> None:
    with job(tmp_path) as (_, pid_file):
        meant = SignalledProcess(pid_file=pid_file, signal_name="SIGUSR1", cgroup="/slurm/job_1")
        with pytest.raises(ActionRefusedError, match="not in the control group"):
            meant.signal()
        SignalledProcess(pid_file=pid_file, signal_name="SIGUSR1", cgroup="/").check()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give a file away")
def test_a_process_of_another_user_than_the_files_owner_gets_nothing(tmp_path: Path) -> None:
    with job(tmp_path) as (_, pid_file):
        os.chown(pid_file, 65534, 65534)
        with pytest.raises(ActionRefusedError, match="another user"):
            SignalledProcess(pid_file=pid_file, signal_name="SIGUSR1").signal()


@pytest.mark.parametrize("text", ["1", "0", "-1"])
def test_a_number_that_is_no_job_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "pid").write_text(text)
    with pytest.raises(ActionRefusedError, match="is not a job"):
        SignalledProcess(pid_file=tmp_path / "pid", signal_name="SIGUSR1").signal()


def test_a_process_that_is_gone_or_a_file_that_names_none_is_reported(tmp_path: Path) -> None:
    with job(tmp_path) as (process, pid_file):
        process.kill()
        process.wait()
        with pytest.raises(ActionRefusedError, match="has ended"):
            SignalledProcess(pid_file=pid_file, signal_name="SIGUSR1").signal()
    pid_file.write_text("none")
    with pytest.raises(NotSupportedError, match="expected a process id"):
        SignalledProcess(pid_file=pid_file, signal_name="SIGUSR1").check()


def test_an_address_is_posted_to_and_another_one_confirms() -> None:
    with web(200) as (url, bodies):
        receipt = one(CheckpointSettings(url=url, confirm_url=url, within_s=60.0)).send(order())
        assert receipt.done
        assert b'"token":"t-1"' in bodies[0]


@pytest.mark.parametrize(("status", "error"), [(503, TransientError), (404, ActionRefusedError)])
def test_what_the_job_answers_decides_whether_it_is_asked_again(status: int, error: type[Exception]) -> None:
    with web(status) as (url, _), pytest.raises(error, match=str(status)):
        one(CheckpointSettings(url=url, within_s=60.0)).send(order())


def test_a_job_that_is_not_there_is_asked_again() -> None:
    with pytest.raises(TransientError):
        one(CheckpointSettings(url="http://127.0.0.1:9", within_s=60.0)).send(order())


def test_the_end_of_railwatch_does_not_wait_for_a_job(tmp_path: Path) -> None:
    settings = CheckpointSettings(file=tmp_path / "asked", confirm_file=tmp_path / "written", within_s=300.0)
    with pytest.raises(TransientError, match="railwatch stops"):
        one(settings, stopping=True).send(order())


def test_a_file_is_not_followed_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "asked").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(TransientError):
        one(CheckpointSettings(file=tmp_path / "asked", within_s=1.0)).send(order())
    assert not (tmp_path / "elsewhere").exists()


def test_a_job_that_is_not_configured_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ActionRefusedError, match="expected one of: train"):
        one(CheckpointSettings(file=tmp_path / "asked", within_s=1.0)).check(order(checkpoint="other"))
