import gzip
import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from railwatch.cli.printing import print_table
from railwatch.run_context import FILE_NAME, run_dir_of
from tests.railwatch.command_line import Run, objects

KERNEL_LOG = """\
[    1.0] Linux version 6.1.0
[   12.3] NVRM: Xid (PCI:0000:3b:00): 79, pid=4711, name=python3, GPU has fallen off the bus.
[   12.4] NVRM: Xid (PCI:0000:3b:00): banana
[   12.5] nvidia-nvswitch0: SXid (PCI:0000:c3:00.0): 24007, Fatal, Link 28 sourcetrack timeout error (First)
"""


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("nonsense",), "No such command 'nonsense'"),
        (("up", "--for", "5"), "--for: got '5'; expected a duration with its unit"),
        (("up", "--port", "99999"), "--port: got '99999'; expected at most 65535 (see "),
        (("evaluate", "--seeds", "x"), "--seeds: got 'x'; expected a whole number"),
        (("rehearse", "psu-sag", "--mode", "on"), "--mode: 'on' is not one of 'observe', 'recommend', 'enforce'"),
        (("actions", "judge", "d-1"), "--right/--wrong: missing"),
        (("incidents", "show"), "ID: missing"),
        (("up", "--simulat", "v100x4"), "No such option: --simulat; perhaps --simulate"),
        (("up", "--port", "99999"), "--port"),
        (("up", "--scenario", "nonsense"), "got 'nonsense'; expected a scenario: ac-sag, ambient-swing"),
        (("up", "--simulate", "nonsense"), "got 'nonsense'; expected a node: a100x16, a100x8, b200x8"),
        (("explain", "xid", "seventy"), "expected the number in the kernel log, such as 79"),
        (("actions", "release"), "expected one INCIDENT or --all"),
        (("replay", "no.csv"), "no.csv: (file): no such file; expected a recording"),
        (("record", "--out", "x.txt"), "expected .parquet or .csv"),
        (("logs", "scan", "no.log"), "no.log: (file): No such file or directory; expected a kernel log"),
        (("config", "check", "no.yaml"), "no.yaml: (file): No such file or directory"),
        (("rules", "test", "no-such-folder"), "no-such-folder: (file): No such file or directory"),
    ],
)
def test_wrong_use_is_one_line_and_status_2(run: Run, arguments: tuple[str, ...], expected: str) -> None:
    status, out, err = run(*arguments)
    assert status == 2
    assert out == ""
    (line,) = err.splitlines()
    assert expected in line


@pytest.mark.parametrize("command", ["incidents list", "incidents show i-1", "actions list", "actions release --all"])
def test_a_data_folder_without_a_run_is_named_and_status_3(run: Run, tmp_path: Path, command: str) -> None:
    status, out, err = run(*command.split(), "--data-dir", str(tmp_path / "none"))
    assert (status, out) == (3, "")
    assert str(tmp_path / "none") in err


def test_a_command_without_its_subcommand_shows_its_help(run: Run) -> None:
    status, out, err = run("incidents")
    assert status == 2
    assert "List incidents, newest first" in out + err


def test_the_version_is_shown(run: Run) -> None:
    status, out, _ = run("--version")
    assert status == 0
    assert out.startswith("railwatch 0.")


def test_an_xid_is_explained(run: Run) -> None:
    status, out, _ = run("explain", "xid", "79", "--json")
    (fields,) = objects(out)
    assert status == 0
    assert (fields["code"], fields["severity"], fields["category"]) == (79, "critical", "pcie")
    assert "drain" in fields["action"]
    assert "fell off the bus" in run("explain", "xid", "79")[1]


def test_an_unknown_code_is_status_1(run: Run) -> None:
    status, out, err = run("explain", "sxid", "99999")
    assert (status, out, err) == (1, "", "railwatch: SXid 99999 is not in the catalogue of known codes\n")


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_a_kernel_log_is_scanned(run: Run, tmp_path: Path, packed: bool) -> None:  # noqa: FBT001
    path = tmp_path / "kern.log"
    path.write_bytes(gzip.compress(KERNEL_LOG.encode()) if packed else KERNEL_LOG.encode())
    status, out, _ = run("logs", "scan", str(path), "--json")
    xid, sxid = objects(out)
    assert status == 0
    assert (
        xid.items()
        >= {
            "kind": "xid",
            "code": 79,
            "pci": "0000:3b:00",
            "pid": 4711,
            "process": "python3",
            "line": 2,
        }.items()
    )
    assert (sxid["kind"], sxid["code"], sxid["pci"], sxid["line"]) == ("sxid", 24007, "0000:c3:00.0", 4)
    _, _, err = run("logs", "scan", str(path))
    kept, summary = err.splitlines()
    assert kept.endswith(" 3  not understood: [   12.4] NVRM: Xid (PCI:0000:3b:00): banana")
    assert summary == f"{path}: 1 sxid, 1 xid; 1 driver lines not understood"


def test_a_kernel_log_is_read_from_standard_input(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(KERNEL_LOG.encode()))))
    status, out, _ = run("logs", "scan", "-", "--json")
    assert status == 0
    assert [fields["code"] for fields in objects(out)] == [79, 24007]


def test_a_damaged_gzip_file_is_named(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "kern.log.gz"
    path.write_bytes(gzip.compress(KERNEL_LOG.encode())[:-12])
    status, _, err = run("logs", "scan", str(path), "--json")
    assert status == 2
    assert str(path) in err


def test_a_configuration_is_checked_with_every_problem(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "railwatch.yaml"
    path.write_text(
        "sampling:\n  fast_hz: 0\n  rings: 2m\nstore:\n  raw_retention: 7\ndetectors:\n  rail_sag:\n    minimum_v: 13\n"
    )
    status, out, err = run("config", "check", str(path))
    assert (status, out) == (2, "")
    assert [line.split(";")[0] for line in err.splitlines()] == [
        f"{path}:2: sampling.fast_hz: got 0",
        f"{path}:3: sampling.rings: unknown key",
        f"{path}:5: store.raw_retention: got 7",
        f"{path}:7: detectors.rail_sag: values conflict",
    ]
    status, out, _ = run("config", "check", str(path), "--json")
    assert status == 2
    assert [fields["line"] for fields in objects(out)] == [2, 3, 5, 7]
    path.write_text("sampling: {fast_hz: 50}\n")
    assert run("config", "check", str(path))[0] == 0


def test_a_hook_whose_program_cannot_be_started_is_a_warning_in_one_line(run: Run, tmp_path: Path) -> None:
    path, plain = tmp_path / "railwatch.yaml", tmp_path / "plain"
    plain.write_text("no program")
    path.write_text(
        "actuators:\n  hooks:\n    gone:\n      command: [/nowhere/page, -v]\n"
        f"    plain:\n      command: [{plain}]\n    good:\n      command: [{sys.executable}]\n"
    )
    status, out, err = run("config", "check", str(path))
    assert (status, out) == (0, f"{path}: 2 warnings\n")
    assert [line.split(";")[0] for line in err.splitlines()] == [
        f"{path}:4: actuators.hooks.gone.command: warning: /nowhere/page: No such file or directory",
        f"{path}:6: actuators.hooks.plain.command: warning: {plain} is not an executable file",
    ]
    status, out, _ = run("config", "check", str(path), "--json")
    *warnings, verdict = objects(out)
    assert status == 0
    assert [fields["line"] for fields in warnings] == [4, 6]
    assert (verdict["ok"], verdict["warnings"]) == (True, 2)


def test_the_configuration_in_force_is_shown_without_secrets(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAILWATCH_STORE__PASSWORD", "hunter2hunter2")
    monkeypatch.setenv("RAILWATCH_SAMPLING__FAST_HZ", "50")
    status, out, _ = run("config", "show")
    fields = yaml.safe_load(out)
    assert status == 0
    assert objects(run("config", "show", "--json")[1]) == [fields]
    assert fields["sampling"]["fast_hz"] == 50
    assert fields["store"]["password"] == "***"
    assert "hunter2" not in out


@pytest.mark.parametrize("command", ["incidents list", "actions pending", "baselines list", "fleet status"])
def test_an_unreadable_data_folder_is_reported_by_the_command_and_is_not_wrong_use(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: str
) -> None:
    monkeypatch.setattr(os, "access", lambda *_, **__: False)
    status, out, err = run(*command.split(), "--data-dir", str(tmp_path))
    assert (status, out, err.count("\n")) == (3, "", 1)


def test_the_sample_configuration_is_accepted(run: Run, tmp_path: Path) -> None:
    _, sample, _ = run("config", "sample")
    path = tmp_path / "railwatch.yaml"
    path.write_text(sample)
    assert run("config", "check", str(path))[0] == 0


def test_the_builtin_policies_pass_their_own_cases(run: Run) -> None:
    status, out, _ = run("rules", "test", "--json")
    rows = objects(out)
    assert status == 0
    assert rows
    assert all(row["passed"] for row in rows)
    listed = {row["id"] for row in objects(run("rules", "list", "--json")[1])}
    assert listed == {row["policy"] for row in rows}


def test_a_policy_with_problems_is_named_by_file_line_and_key(run: Run, tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("id: bad\nwhen: {colour: red}\nthen: {action: explode}\n")
    status, _, err = run("rules", "test", str(tmp_path))
    assert status == 2
    assert f"{tmp_path}/bad.yaml:2: when.colour: unknown key" in err
    assert f"{tmp_path}/bad.yaml:3: then.action: " in err


def test_nodes_scenarios_and_dashboards_are_listed(run: Run, tmp_path: Path) -> None:
    names = {row["name"] for row in objects(run("simulate", "list", "--json")[1])}
    assert names >= {"v100x4", "healthy", "psu-sag", "hot-gpu", "bus-drop", "power-brake"}
    (dashboard,) = objects(run("dashboards", "list", "--json")[1])
    assert dashboard["panels"] > 0
    status, out, _ = run("dashboards", "export", str(tmp_path / "grafana"))
    assert status == 0
    assert json.loads(Path(out.strip()).read_text())["title"] == dashboard["title"]


def test_doctor_on_a_machine_without_gpu_states_what_is_missing(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("RAILWATCH_SOURCES__SYSFS", str(tmp_path))
    status, out, _ = run("doctor", "--json")
    rows = {(row["kind"], row["name"]): row for row in objects(out)}
    assert status == 1
    assert rows["source", "gpu_fast"]["state"] == "missing"
    assert rows["source", "gpu_fast"]["how_to_get"]
    assert rows["source", "node"]["state"] == "working"


def piped(*arguments: str, into: str) -> tuple[int, str]:
    """Return exit status and standard error of a command whose output the shell redirects by `into`."""
    line = f'"$0" -m railwatch.cli {" ".join(arguments)} {into}; exit ${{PIPESTATUS[0]}}'
    done = subprocess.run(["bash", "-c", line, sys.executable], capture_output=True, text=True, check=False, timeout=60)
    return done.returncode, done.stderr


@pytest.mark.parametrize("arguments", [("simulate", "list"), ("rules", "list", "--json")])
def test_a_reader_that_has_enough_is_no_error(arguments: tuple[str, ...]) -> None:
    assert piped(*arguments, into="| head -c 1 > /dev/null") == (0, "")


@pytest.mark.parametrize("arguments", [("simulate", "list"), ("rules", "list", "--json")])
def test_closed_output_is_no_error(arguments: tuple[str, ...]) -> None:
    assert piped(*arguments, into=">&-") == (0, "")


def test_a_terminal_without_unicode_shows_what_it_can(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    assert piped("simulate", "show", "v100x4", into="> /dev/null") == (0, "")


@pytest.mark.parametrize("arguments", [("simulate", "list"), ("rules", "list", "--json")])
def test_output_that_cannot_be_written_is_reported_in_one_line(arguments: tuple[str, ...]) -> None:
    status, error = piped(*arguments, into="> /dev/full")
    assert (status, error) == (3, "railwatch: standard output: No space left on device\n")


def test_a_configuration_that_sets_nothing_is_called_empty(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "railwatch.yaml"
    path.write_text("# data_dir: /srv\n")
    assert run("config", "check", str(path))[:2] == (0, f"{path}: no problems (empty file, all defaults apply)\n")
    path.write_text("data_dir: /srv\n")
    assert run("config", "check", str(path))[:2] == (0, f"{path}: no problems\n")


def test_a_group_that_this_machine_lacks_is_reported_by_the_check(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "railwatch.yaml"
    path.write_text("sources:\n  readings: {group: nobody-has-this}\n")
    status, _, err = run("config", "check", str(path))
    assert status == 2
    assert err.startswith(f"{path}:2: sources.readings.group: got 'nobody-has-this'; expected a group")
    status, out, _ = run("doctor", "--json", "--config", str(path))
    (row,) = [row for row in objects(out) if row["name"] == "readings"]
    assert (row["state"], row["detail"]) == ("not_permitted", "group nobody-has-this does not exist")


def test_no_name_in_a_table_is_broken_over_lines(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file, uuid = f"20261121T193619Z-{'x' * 60}.parquet", "GPU-01234567-89ab-cdef-0123-456789abcdef"
    monkeypatch.setenv("COLUMNS", "80")
    for terminal, most_lines in (("", 3), ("1", 12)):
        monkeypatch.setenv("FORCE_COLOR", terminal)
        print_table(f"detector on {uuid}", ("file", "reason"), [(file, "a reason " * 20)])
        lines = capsys.readouterr().out.splitlines()
        assert any(uuid in line for line in lines)
        assert any(file in line for line in lines)
        assert len(lines) <= most_lines


@pytest.mark.parametrize("text", ["", "[]", '{"run_dir": "/x", "driver": "nvml", "new": 1}', '{"driver": "quantum"}'])
def test_a_run_of_another_version_is_named_in_one_line_and_status_3(
    run: Run, tmp_path: Path, text: str, request: pytest.FixtureRequest
) -> None:
    folder = run_dir_of(tmp_path)
    folder.mkdir()
    request.addfinalizer(lambda: shutil.rmtree(folder, ignore_errors=True))
    (folder / FILE_NAME).write_text(text, encoding="utf-8")
    for command in (("baselines", "list"), ("actions", "verify"), ("record", "--out", str(tmp_path / "a.parquet"))):
        status, _, err = run(*command, "--data-dir", str(tmp_path))
        assert (status, len(err.splitlines())) == (3, 1)
        assert "use the version that runs, or restart railwatch up" in err
