"""``railwatch config check`` and the policies that a configuration puts in force: the node's and the fleet's."""

import errno
import os
from pathlib import Path

import pytest

from tests.railwatch.command_line import command_line
from tests.rules.policy_texts import FLEET, REPORT


def test_a_folder_of_policies_that_is_not_here_is_a_warning(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "railwatch.yaml"
    file.write_text(f"rules:\n  node_dirs: [{tmp_path}/none]\n")
    status, out, err = command_line(monkeypatch, capsys)("config", "check", str(file))
    assert (status, out) == (0, f"{file}: 1 warning\n")
    assert err.startswith(f"{file}:2: rules.node_dirs: warning: {tmp_path}/none: No such file or directory")


@pytest.mark.parametrize("keys", ["rules:\n  node_dirs:", "fleet:\n  act:\n    dirs:"])
def test_an_unreadable_folder_of_policies_is_refused_and_not_taken_for_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, keys: str
) -> None:
    file, barred, real_stat = tmp_path / "railwatch.yaml", tmp_path / "barred" / "site", Path.stat
    file.write_text(f"{keys} [{barred}]\n")

    def stat(path: Path, *, follow_symlinks: bool = True) -> os.stat_result:
        if path.is_relative_to(barred):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return real_stat(path, follow_symlinks=follow_symlinks)

    barred.mkdir(parents=True)
    (barred / "own.yaml").write_text(REPORT)
    monkeypatch.setattr(Path, "stat", stat)
    status, out, err = command_line(monkeypatch, capsys)("config", "check", str(file))
    assert (status, out) == (2, "")
    assert err.startswith(f"{barred}: (")
    assert ": Permission denied; expected a readable " in err
    assert err.count("\n") == 1


def test_the_policies_of_the_fleet_are_checked_with_the_configuration_and_those_of_the_node(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file, node, fleet = tmp_path / "railwatch.yaml", tmp_path / "node", tmp_path / "fleet"
    run = command_line(monkeypatch, capsys)
    for folder in (node, fleet):
        folder.mkdir()
    file.write_text(f"rules: {{dirs: [{node}]}}\nfleet:\n  act:\n    dirs: [{fleet}, {tmp_path}/none]\n")
    (node / "mine.yaml").write_text(REPORT.replace("status: experimental", "status: new"))
    (fleet / "a.yaml").write_text(FLEET.replace("clock: 0.7", "clock: 1.0"))
    (fleet / "b.yaml").write_text(FLEET.replace("expect: 4", "expect: 40"))
    (fleet / "c.yaml").write_text(FLEET.replace("then:", "after: nobody\nthen:"))
    status, out, err = run("config", "check", str(file))
    assert (status, out) == (2, "")
    assert [line.split(":")[:3] for line in err.splitlines()] == [
        [f"{node}/mine.yaml", "2", " status"],
        [f"{fleet}/a.yaml", "6", " then.clock"],
        [f"{fleet}/b.yaml", "8", " cases[0]"],
        [f"{fleet}/c.yaml", "6", " after"],
    ]
    for folder in (node, fleet):
        for bad in folder.iterdir():
            bad.unlink()
    (fleet / "mine.yaml").write_text(FLEET)
    (node / "mine.yaml").write_text(REPORT)
    status, out, err = run("config", "check", str(file))
    assert (status, out) == (0, f"{file}: 1 warning\n")
    assert err.startswith(f"{file}:4: fleet.act.dirs: warning: {tmp_path}/none: No such file or directory")
