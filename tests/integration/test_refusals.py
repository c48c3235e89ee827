"""Refusal of bad input: one line that states where and why, the right exit status, and nothing half-done."""

import os
import socket
from pathlib import Path

import pytest

from railwatch.run_context import run_dir_of
from tests.integration.running import Done, environment, node_up, railwatch

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]
SIMULATED = ("--simulate", "v100x4")


def up(*options: str, data_dir: Path, env: dict[str, str] | None = None) -> Done:
    return railwatch("up", "--json", "--for", "2s", "--data-dir", str(data_dir), *options, env=env)


def complaint(done: Done, status: int) -> str:
    """Return the one line of a refusal; the lines that every start begins with do not count."""
    assert done.status == status, done
    assert done.out == ""
    assert "Traceback" not in done.err
    (line,) = [text for text in done.err.splitlines() if text.startswith("railwatch: ")]
    return line.removeprefix("railwatch: ")


def complaints(done: Done) -> list[str]:
    assert done.status == 2, done
    assert done.out == ""
    assert all(text.startswith("railwatch: ") for text in done.err.splitlines()), done.err
    return [text.removeprefix("railwatch: ") for text in done.err.splitlines()]


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        output = complaint(up(*SIMULATED, "--port", str(port), data_dir=tmp_path / "data"), 3)
    assert (
        output == f"127.0.0.1:{port}: Address already in use; expected a free port for the page (--port 0 chooses one)"
    )
    assert not run_dir_of(tmp_path / "data").exists()


def test_a_data_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    blocked = tmp_path / "a-file"
    blocked.write_text("not a folder")
    output = complaint(up(*SIMULATED, "--port", "0", data_dir=blocked / "data"), 3)
    assert output == f"{blocked / 'data'}: not a folder; expected a writable data folder"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_data_folder_without_permission_is_named(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    assert "Permission denied" in complaint(up(*SIMULATED, "--port", "0", data_dir=closed / "data"), 3)


def test_a_data_folder_on_a_read_only_file_system_is_named() -> None:
    output = complaint(up(*SIMULATED, "--port", "0", data_dir=Path("/proc/railwatch")), 3)
    assert output.startswith("/proc/railwatch: ")
    assert output.endswith("expected a writable data folder")


def test_a_second_run_on_the_same_data_is_refused_and_the_first_goes_on(tmp_path: Path) -> None:
    with node_up(tmp_path / "data", *SIMULATED) as node:
        assert node.url
        output = complaint(up(*SIMULATED, "--port", "0", data_dir=tmp_path / "data"), 3)
        assert output == (
            f"{tmp_path / 'data'}: another railwatch runs here; stop it, or use another folder with --data-dir"
        )
        assert node.api("health")["health"] in ("healthy", "unknown")
        assert node.end() == 0, node.story()


@pytest.mark.parametrize(
    ("options", "got", "known"),
    [
        (("--simulate", "v100x4", "--scenario", "psu-sug"), "psu-sug", "psu-sag"),
        (("--simulate", "h100x99"), "h100x99", "v100x4"),
    ],
)
def test_an_unknown_name_is_answered_with_the_known_ones(
    options: tuple[str, ...], got: str, known: str, tmp_path: Path
) -> None:
    (output,) = complaints(up(*options, "--port", "0", data_dir=tmp_path / "data"))
    assert got in output
    assert known in output
    assert not (tmp_path / "data").exists()


def test_every_problem_of_a_configuration_is_reported_with_file_line_and_key(tmp_path: Path) -> None:
    config = tmp_path / "railwatch.yaml"
    config.write_text("sampling:\n  fast_hz: -20\n  ring: 10parsecs\nstore:\n  knid: embedded\n  spool_max: 3\n")
    reported = complaints(up(*SIMULATED, "--config", str(config), "--port", "0", data_dir=tmp_path / "data"))
    assert [text.split(": ")[:2] for text in reported] == [
        [f"{config}:2", "sampling.fast_hz"],
        [f"{config}:3", "sampling.ring"],
        [f"{config}:5", "store.knid"],
        [f"{config}:6", "store.spool_max"],
    ]
    assert all("expected" in text for text in reported)
    checked = railwatch("config", "check", str(config), "--json")
    assert checked.status == 2
    assert [(row["line"], row["key"]) for row in checked.rows] == [
        (2, "sampling.fast_hz"),
        (3, "sampling.ring"),
        (5, "store.knid"),
        (6, "store.spool_max"),
    ]
    assert not (tmp_path / "data").exists()


def test_a_variable_of_the_environment_that_is_wrong_is_named(tmp_path: Path) -> None:
    env = environment(RAILWATCH_SAMPLING__FAST_HZ="fast", RAILWATCH_STOER__URL="http://somewhere")
    reported = complaints(up(*SIMULATED, "--port", "0", data_dir=tmp_path / "data", env=env))
    assert sorted(text.split(": ")[0] for text in reported) == ["RAILWATCH_SAMPLING__FAST_HZ", "RAILWATCH_STOER__URL"]


def test_the_level_of_the_log_may_be_set_by_the_environment(tmp_path: Path) -> None:
    env = environment(RAILWATCH_LOG_LEVEL="INFO")
    assert up(*SIMULATED, "--port", "0", data_dir=tmp_path / "data", env=env).status == 0


def test_every_problem_of_the_policies_is_reported_before_anything_starts(tmp_path: Path) -> None:
    policies = tmp_path / "policies"
    policies.mkdir()
    (policies / "bad.yaml").write_text("id: bad\nstatus: experimental\nwhy: because\nwhen: {colour: red}\nthan: {}\n")
    config = tmp_path / "railwatch.yaml"
    config.write_text(f"rules:\n  dirs: [{policies}]\n")
    reported = complaints(up(*SIMULATED, "--config", str(config), "--port", "0", data_dir=tmp_path / "data"))
    assert len(reported) > 1
    assert all(text.startswith(f"{policies / 'bad.yaml'}:") for text in reported), reported
    assert any(": than: unknown key" in text for text in reported)
    assert not (tmp_path / "data").exists()


def test_a_folder_of_policies_that_is_not_there_is_named(tmp_path: Path) -> None:
    config = tmp_path / "railwatch.yaml"
    config.write_text(f"rules:\n  dirs: [{tmp_path / 'nowhere'}]\n")
    (output,) = complaints(up(*SIMULATED, "--config", str(config), "--port", "0", data_dir=tmp_path / "data"))
    assert str(tmp_path / "nowhere") in output


def test_a_duration_without_a_unit_is_refused(tmp_path: Path) -> None:
    done = railwatch("up", "--for", "5", "--data-dir", str(tmp_path / "data"), "--port", "0", *SIMULATED)
    (output,) = complaints(done)
    assert "'5'" in output
    assert "60s" in output or "30s" in output
