"""Checks of the file of the privileged actuator, and the settings from it."""

import os
from pathlib import Path

import pytest

from agent.actuation.limits import UnreadableClocks
from config.actuatord import SAMPLE, load_actuatord
from telemetry.errors import ConfigError
from telemetry.gpu import KnobKind

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "etc").mkdir(mode=0o755)
    path = tmp_path / "etc" / "actuatord.yaml"
    path.write_text("knobs: {clock_cap: {min_mhz: 600}, power_cap: {}}\nlongest_lease: 10m\n")
    path.chmod(0o644)
    return path


def problem(path: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        load_actuatord(path)
    (found,) = caught.value.problems
    return str(found)


def test_what_is_not_named_may_not_be_turned(path: Path) -> None:
    config, access = load_actuatord(path)
    settings = config.settings()
    assert set(settings.knobs) == {KnobKind.CLOCK, KnobKind.POWER}
    assert (settings.knobs[KnobKind.CLOCK].lowest, settings.knobs[KnobKind.CLOCK].highest) == (600.0, None)
    assert (settings.longest_lease_s, settings.gpus, settings.unreadable) == (600.0, None, UnreadableClocks.REFUSE)
    assert access.socket_mode == 0o600


def test_a_group_opens_the_socket_for_its_members_and_users_for_everybody_who_is_then_asked_who_he_is(
    path: Path,
) -> None:
    path.write_text("group: root\nknobs: {}\n")
    assert (load_actuatord(path)[1].gid, oct(load_actuatord(path)[1].socket_mode)) == (0, "0o660")
    path.write_text("users: [root]\nknobs: {}\n")
    assert (load_actuatord(path)[1].uids, oct(load_actuatord(path)[1].socket_mode)) == (frozenset({0}), "0o666")


@pytest.mark.parametrize("mode", [0o664, 0o646, 0o666])
def test_a_file_that_others_may_write_is_refused(path: Path, mode: int) -> None:
    path.chmod(mode)
    assert problem(path) == f"{path}: (mode): mode {mode:04o}; expected writable by its owner alone"


@pytest.mark.parametrize("mode", [0o775, 0o777, 0o1777])
def test_a_folder_in_which_others_could_replace_it_is_refused(path: Path, mode: int) -> None:
    path.parent.chmod(mode)
    assert f"{path.parent} has mode {mode:04o}" in problem(path)


def test_a_folder_further_up_in_which_others_could_is_refused_and_one_like_tmp_is_not(path: Path) -> None:
    path.parent.parent.chmod(0o777)
    assert f"{path.parent.parent} has mode 0777" in problem(path)
    path.parent.parent.chmod(0o1777)
    load_actuatord(path)


@pytest.mark.parametrize("key", ["state_dir", "socket"])
def test_a_journal_or_a_socket_where_others_may_write_is_refused(path: Path, tmp_path: Path, key: str) -> None:
    folder = tmp_path / "open"
    folder.mkdir()
    named = folder / "actuator.sock" if key == "socket" else folder
    path.write_text(f"{key}: {named}\nknobs: {{}}\n")
    load_actuatord(path)
    folder.chmod(0o775)
    assert problem(path) == f"{path}: {key}: {folder} has mode 0775; expected a folder that its owner alone may write"


@needs_root
def test_a_file_or_a_folder_of_another_user_is_refused(path: Path) -> None:
    os.chown(path, 65534, -1)
    assert "belongs to uid 65534" in problem(path)
    os.chown(path, 0, -1)
    os.chown(path.parent, 65534, -1)
    assert f"{path.parent} belongs to uid 65534" in problem(path)


def test_a_link_is_followed_and_what_it_leads_to_is_judged(path: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.yaml"
    link.symlink_to(path)
    load_actuatord(link)
    path.chmod(0o666)
    assert "mode 0666" in problem(link)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("knobs: {}\nsudo: yes\n", "sudo"),
        ("socket: /run/a.sock\n", "knobs"),
        ("knobs: {clock_cap: {min_mhz: 1200, max_mhz: 900}}\n", "min_mhz: got 1200; expected at most max_mhz"),
        ("knobs: {fan: {max_ratio: 80}}\n", "knobs.fan.max_ratio"),
        ("knobs: {memory_clock: {}}\n", "memory_clock"),
        ("knobs: {}\nlongest_lease: 2d\n", "longest_lease"),
        ("knobs: {}\nsocket: run/a.sock\n", "socket: got 'run/a.sock'; expected an absolute path"),
        ("knobs: {}\ngroup: nobody-has-this-group\n", ":2: group: got 'nobody-has-this-group'"),
        ("knobs: {}\nusers: [nobody-has-this-name]\n", ":2: users: got 'nobody-has-this-name'"),
        ("knobs: [\n", "(document)"),
    ],
)
def test_each_problem_is_one_line_that_names_file_and_key(path: Path, text: str, expected: str) -> None:
    path.write_text(text)
    line = problem(path)
    assert line.startswith(str(path))
    assert expected in line
    assert "\n" not in line


def test_every_problem_is_reported_at_once_also_whom_this_machine_does_not_know(path: Path) -> None:
    path.write_text(
        "group: no-group\nusers: [no-user]\nlongest_lease: 2d\nknobs: {clock_cap: {min_mhz: -1}, tel: {}}\n"
    )
    with pytest.raises(ConfigError) as caught:
        load_actuatord(path)
    keys = [one.key for one in caught.value.problems]
    assert keys == ["group", "users", "longest_lease", "knobs.clock_cap.min_mhz", "knobs.tel"]


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    nowhere = problem(tmp_path / "nowhere.yaml")
    assert "No such file" in nowhere
    assert nowhere.endswith("; copy deploy/systemd/actuatord.yaml to begin")
    assert (Path(__file__).parents[2] / SAMPLE).is_file()
    assert "Is a directory" in problem(tmp_path)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"knobs:\n\tclock_cap: {}\n", ":2: (document): a tab at the start of the line; expected spaces"),
        ("knobs: {}\n".encode("utf-16"), ":1: (file): UTF-16 text; expected YAML in UTF-8"),
        (b"knobs: {}\ngroup: caf\xe9\n", ":2: (file): byte 0xe9, which is not UTF-8 text"),
    ],
    ids=["tab", "utf-16", "latin-1"],
)
def test_what_other_editors_save_is_reported_as_it_is_of_a_policy(path: Path, content: bytes, expected: str) -> None:
    path.write_bytes(content)
    assert problem(path).startswith(f"{path}{expected}")
