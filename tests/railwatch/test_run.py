"""What a run needs before it starts, and what is left when it cannot."""

import signal
import socket
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from agent.guard.foresight import reflex_id
from config.models import Config
from config.sources import SourceUse
from railwatch import run as run_module
from railwatch.run import NodeRun, RunRequest, choose_source
from railwatch.run_context import JOURNALS, DriverKind, RunContext, run_dir_of
from railwatch.wiring.gpu_probe import ProbeResult, has_driver, probe_nvml
from telemetry.clock import NS_PER_S, SystemClock
from telemetry.errors import EnvironmentLacksError
from telemetry.gpu import KnobKind
from telemetry.records import Action, ActionState, Mode
from tests.railwatch.a_run import a_run_context

WANTED = RunRequest(plant_node="v100x4", scenario="psu-sag")
NS_PER_H = 3600 * NS_PER_S


def config(data_dir: Path, *, port: int = 0) -> Config:
    return Config.model_validate({"data_dir": data_dir, "page": {"port": port}})


def test_a_session_reads_back_as_it_was_written(tmp_path: Path) -> None:
    context = a_run_context(tmp_path)
    again = RunContext.load(context.run_dir)
    assert again == context
    assert (again.node.id, again.config.data_dir) == ("node:node0", tmp_path / "data")
    assert again.ring_path.parent == again.run_dir
    assert not list(context.run_dir.glob("*.new"))


def test_a_run_folder_belongs_to_its_data_folder(tmp_path: Path) -> None:
    assert run_dir_of(tmp_path / "a") == run_dir_of(tmp_path / "b" / ".." / "a")
    assert run_dir_of(tmp_path / "a") != run_dir_of(tmp_path / "b")


def test_what_the_user_names_is_simulated_without_asking_the_driver() -> None:
    driver, sentence, wanted = choose_source(WANTED)
    assert (driver, sentence) == (DriverKind.NVML, "simulated node v100x4, scenario psu-sag")
    assert wanted == WANTED
    assert choose_source(RunRequest(scenario="hot-gpu"))[2].plant_node == "v100x4"


def test_the_probe_reports_why_there_are_no_gpus_and_stops_after_its_time() -> None:
    answer = probe_nvml()
    assert answer.gpus or answer.why
    late = probe_nvml(timeout_s=0.001)
    assert (late.gpus, late.why, late.hung) == (0, "NVML did not respond within 0.001 s", True)


NO_LIBRARY = ProbeResult(gpus=0, driver_version=None, why="NVML 12: no library")
HUNG = ProbeResult(gpus=0, driver_version=None, why="NVML did not answer within 60 s", hung=True)


@pytest.mark.parametrize(
    ("answer", "driver", "kind", "sentence"),
    [
        (NO_LIBRARY, False, DriverKind.NVML, "simulated node v100x4, scenario healthy (NVML 12: no library)"),
        (NO_LIBRARY, True, DriverKind.NVML, "no GPU read: NVML 12: no library"),
        (HUNG, True, DriverKind.HUNG, "no GPU read: NVML did not answer within 60 s"),
        (
            ProbeResult(gpus=8, driver_version="580.1", why=""),
            True,
            DriverKind.NVML,
            "8 GPUs through NVML, driver 580.1",
        ),
    ],
)
def test_a_node_with_a_driver_is_never_simulated(
    answer: ProbeResult,
    driver: bool,  # noqa: FBT001 -- a column of the table
    kind: DriverKind,
    sentence: str,
) -> None:
    found = choose_source(RunRequest(), probe=lambda: answer, driver_here=lambda: driver)
    assert found[:2] == (kind, sentence)
    assert (found[2].plant_node is not None) == sentence.startswith("simulated")


def test_gpus_that_are_switched_off_are_not_asked_for_and_not_simulated() -> None:
    found = choose_source(RunRequest(), SourceUse.OFF, probe=lambda: HUNG, driver_here=lambda: False)
    assert found == (DriverKind.NONE, "no GPU read: sources.nvml is off", RunRequest())
    assert choose_source(WANTED, SourceUse.OFF)[1] == "simulated node v100x4, scenario psu-sag"


def test_a_driver_shows_itself_by_any_of_its_places(tmp_path: Path) -> None:
    assert not has_driver((tmp_path / "nvidia0", tmp_path / "nvidiactl"), sysfs=tmp_path)
    (tmp_path / "nvidiactl").touch()
    assert has_driver((tmp_path / "nvidia0", tmp_path / "nvidiactl"), sysfs=tmp_path)


@pytest.mark.parametrize(
    ("vendor", "kind", "driver", "real"),
    [
        ("0x10de", "0x030200", "", True),
        ("0x10de", "0x030000", "nouveau", False),
        ("0x10de", "0x040300", "", False),  # its sound
        ("0x1002", "0x030000", "", False),
    ],
)
def test_a_gpu_that_waits_for_its_driver_makes_a_real_node(
    tmp_path: Path, vendor: str, kind: str, driver: str, *, real: bool
) -> None:
    device = tmp_path / "bus/pci/devices/0000:3b:00.0"
    device.mkdir(parents=True)
    (device / "vendor").write_text(f"{vendor}\n")
    (device / "class").write_text(f"{kind}\n")
    if driver:
        (device / "driver").mkdir()
    assert has_driver((), sysfs=tmp_path) is real


def refused(run: NodeRun, message: str) -> None:
    with pytest.raises(EnvironmentLacksError, match=message) as caught:
        run.start()
    assert "\n" not in str(caught.value)


def test_a_port_in_use_is_one_line_and_nothing_is_left(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        refused(NodeRun(config(tmp_path, port=taken.getsockname()[1]), WANTED, SystemClock()), "expected a free port")
    assert not run_dir_of(tmp_path).exists()


def test_a_data_folder_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    refused(NodeRun(config(tmp_path / "file" / "data"), WANTED, SystemClock()), "expected a writable data folder")


def test_one_run_at_a_time_has_a_data_folder(tmp_path: Path) -> None:
    with ExitStack() as first:
        run_module._claim_folder(tmp_path, first)
        refused(
            NodeRun(config(tmp_path), WANTED, SystemClock()),
            "another railwatch runs here; stop it, or use another folder with --data-dir",
        )


def test_a_process_that_cannot_start_is_reported_and_the_others_are_stopped(tmp_path: Path) -> None:
    refused(NodeRun(config(tmp_path), RunRequest(plant_node="no-such-node"), SystemClock()), "plant|no-such-node")
    assert not run_dir_of(tmp_path).exists()


def test_a_service_that_starts_again_is_found_at_the_same_address(tmp_path: Path) -> None:
    context = run_module._keep_port(a_run_context(tmp_path), "http://127.0.0.1:43210/")
    assert context.config.page.port == 43210


def test_a_terminal_that_is_gone_does_not_keep_the_run_from_stopping(tmp_path: Path) -> None:
    start = "from railwatch.cli import main; main()"
    options = ("--simulate", "v100x4", "--port", "0", "--data-dir", str(tmp_path))
    command = [sys.executable, "-c", start, "up", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        while not (line := process.stdout.readline()).startswith(b"data:"):
            assert line, process.stderr.read()
        assert run_dir_of(tmp_path).exists()
        process.stdout.close()
        process.send_signal(signal.SIGTERM)
        process.wait(90)
        assert not run_dir_of(tmp_path).exists(), "stopped in order, with nothing left behind"
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


def test_an_act_waits_for_its_decision_to_be_reported_and_that_of_a_reflex_has_none(tmp_path: Path) -> None:
    context, clock = a_run_context(tmp_path), SystemClock()
    run = NodeRun(context.config, WANTED, clock)
    run._journals = {name: context.journal_reader(name) for name in JOURNALS}
    writer = context.journal_writer("actuator")
    own = Action(
        id="a-1", time_ns=clock.utc_ns() + NS_PER_H, decision_id="d-1", incident_id="i-1", knob="application_clock",
        entity_id="gpu:0", unit="MHz", knob_kind=KnobKind.CLOCK, found=1530.0, wanted=1057.0, read_back=1057.0,
        state=ActionState.APPLIED,
        mode=Mode.ENFORCE, lease_until_ns=None, owner="railwatch", reason="the rail sags",
    )  # fmt: skip
    reflex = replace(own, id="a-2", incident_id=reflex_id("supply:psu0", 1), decision_id="sag:reflex:supply:psu0:1")
    writer.append(own)
    writer.append(reflex)
    assert [record.id for record in run.records()] == ["a-2"]
    writer.close()
