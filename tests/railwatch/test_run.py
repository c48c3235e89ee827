"""What a run needs before it starts, and what is left when it cannot."""

import socket
from contextlib import ExitStack
from pathlib import Path

import pytest

from railwatch import run as run_module
from railwatch.config.models import Config
from railwatch.probe import probe_nvml
from railwatch.run import NodeRun, Wanted, choose_source
from railwatch.session import DriverKind, Session, run_dir_of
from telemetry.clock import SystemClock
from telemetry.errors import EnvironmentLacksError
from tests.railwatch.a_run import a_session

WANTED = Wanted(plant_node="v100x4", scenario="psu-sag")


def config(data_dir: Path, *, port: int = 0) -> Config:
    return Config.model_validate({"data_dir": data_dir, "page": {"port": port}})


def test_a_session_reads_back_as_it_was_written(tmp_path: Path) -> None:
    session = a_session(tmp_path)
    again = Session.load(session.run_dir)
    assert again == session
    assert (again.node.id, again.config.data_dir) == ("node:node0", tmp_path / "data")
    assert again.ring_path.parent == again.run_dir
    assert not list(session.run_dir.glob("*.new"))


def test_a_run_folder_belongs_to_its_data_folder(tmp_path: Path) -> None:
    assert run_dir_of(tmp_path / "a") == run_dir_of(tmp_path / "b" / ".." / "a")
    assert run_dir_of(tmp_path / "a") != run_dir_of(tmp_path / "b")


def test_what_the_user_names_is_simulated_without_asking_the_driver() -> None:
    driver, sentence, wanted = choose_source(WANTED)
    assert (driver, sentence) == (DriverKind.NVML, "simulated node v100x4, scenario psu-sag")
    assert wanted == WANTED
    assert choose_source(Wanted(scenario="hot-gpu"))[2].plant_node == "v100x4"


def test_the_probe_says_in_words_why_there_are_no_gpus_and_gives_up_after_its_time() -> None:
    answer = probe_nvml()
    if answer.gpus == 0:
        assert answer.why
        assert choose_source(Wanted())[1] == f"simulated node v100x4, scenario healthy ({answer.why})"
    assert probe_nvml(timeout_s=0.001).why == "NVML did not answer within 0.001 s"


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
    refused(NodeRun(config(tmp_path / "file" / "data"), WANTED, SystemClock()), "expected a data folder")


def test_one_run_at_a_time_has_a_data_folder(tmp_path: Path) -> None:
    with ExitStack() as first:
        run_module._claim_folder(tmp_path, first)
        refused(NodeRun(config(tmp_path), WANTED, SystemClock()), "another railwatch runs on this data folder")


def test_a_process_that_cannot_start_is_told_and_the_others_are_stopped(tmp_path: Path) -> None:
    refused(NodeRun(config(tmp_path), Wanted(plant_node="no-such-node"), SystemClock()), "plant|no-such-node")
    assert not run_dir_of(tmp_path).exists()


def test_a_service_that_starts_again_is_found_at_the_same_address(tmp_path: Path) -> None:
    session = run_module._keep_port(a_session(tmp_path), "http://127.0.0.1:43210/")
    assert session.config.page.port == 43210
