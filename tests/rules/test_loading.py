"""Loading policies: every problem of every file at once, and nothing half-loaded."""

from pathlib import Path

import pytest

from rules.loading import SIZE_MAX_BYTES, builtin_policy_files, load_policies
from rules.policy import ActionClass
from telemetry.errors import ConfigError, Problem

GOOD = """\
id: cap-it
status: stable
why: For the test.
source: none
when: incident.cause == 'supply_sag'
then:
  action: clock_cap
  target: all_gpus
  clock: {mhz: 1005}
cases:
  - name: fires
    incident: {cause: supply_sag}
    expect: {action: clock_cap, targets: 4, clock_mhz: 1005}
  - name: quiet
    incident: {cause: gpu_lost}
    expect: none
"""


def _problems(tmp_path: Path, text: str) -> tuple[Problem, ...]:
    path = tmp_path / "policy.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load_policies([path])
    return caught.value.problems


def _at(problems: tuple[Problem, ...], key: str) -> Problem:
    found = [problem for problem in problems if problem.key == key]
    assert found, [str(problem) for problem in problems]
    return found[0]


def test_a_good_file_loads_with_its_defaults(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(GOOD, encoding="utf-8")
    (policy,) = load_policies([path])
    assert policy.then.action is ActionClass.CLOCK_CAP
    assert policy.then.lease_s == 120.0
    assert policy.then.release is not None
    assert policy.then.release.after_s == 1800.0
    assert policy.where == str(path)
    assert policy.source == ("none",)


@pytest.mark.parametrize(
    ("old", "new", "key", "line", "words"),
    [
        ("id: cap-it", "id: Cap it", "id", 1, "joined by hyphens"),
        ("status: stable", "status: new", "status", 2, "'experimental', 'stable' or 'deprecated'"),
        ("why: For the test.", "why: ' '", "why", 3, "a sentence"),
        ("source: none", "source: []", "source", 4, "at least 1"),
        ("when: incident.cause ==", "when: incident.cuase ==", "when", 5, "not cuase"),
        ("action: clock_cap\n", "action: reboot\n", "then.action", 7, "'clock_cap' or 'notify'"),
        ("action: clock_cap\n", "action: notify\n", "then.target", 8, "no such key beside notify"),
        ("target: all_gpus\n", "target: gpu7\n", "then.target", 8, "'this_gpu'"),
        ("  target: all_gpus\n", "", "then.target", 6, "clock_cap needs it"),
        ("{mhz: 1005}", "{mhz: 1005, fraction: 0.5}", "then.clock", 9, "exactly one of hold_v, fraction and mhz"),
        ("{mhz: 1005}", "{mhz: 1005, fallback: 0.5}", "then.clock", 9, "only beside hold_v"),
        ("{mhz: 1005}", "{fraction: 1.2}", "then.clock.fraction", 9, "less than 1"),
        ("{mhz: 1005}", "{hold_v: 1150}", "then.clock.hold_v", 9, "less than or equal to 60"),
        ("{mhz: 1005}", "{hold_v: .nan}", "then.clock.hold_v", 9, ""),
        ("{mhz: 1005}", "{hold_v: 11.5V}", "then.clock.hold_v", 9, "number"),
        ("{mhz: 1005}", "{mhz: 1005}\n  lease: 30", "then.lease", 10, "a duration with its unit"),
        ("{mhz: 1005}", "{mhz: 1005}\n  lease: 1s", "then.lease", 10, "greater than or equal to 5"),
        ("{mhz: 1005}", "{mhz: 1005}\n  hold: 5 minutes", "then.hold", 10, "a duration with its unit"),
        ("{mhz: 1005}", "{mhz: 1005}\n  mode: forced", "then.mode", 10, "'observe', 'recommend' or 'enforce'"),
        ("{mhz: 1005}", "{mhz: 1005}\n  release: {after: 0s}", "then.release.after", 10, "greater than 0"),
        ("{mhz: 1005}", "{mhz: 1005}\n  relese: {}", "then.relese", 10, "one of the known keys"),
        ("{cause: supply_sag}", "{cause: sag}", "cases[0].incident[0].cause", 12, "'supply_sag'"),
        ("{cause: supply_sag}", "[]", "cases[0].incident", 12, "at least 1"),
        (
            "{cause: supply_sag}",
            "[{cause: supply_sag, at: 5s}, {cause: supply_sag, at: 5s}]",
            "cases[0].incident",
            12,
            "moments in order",
        ),
        ("expect: none", "expect:", "cases[1].expect", 16, "'none', one decision or a list"),
        ("expect: none", "expect: {action: clock_cap}", "cases", 10, "a case that expects none"),
        ("name: quiet", "name: fires", "cases", 10, "a name of its own"),
    ],
)
def test_each_mistake_is_named_with_file_line_and_key(
    tmp_path: Path, *, old: str, new: str, key: str, line: int, words: str
) -> None:
    assert old in GOOD
    problem = _at(_problems(tmp_path, GOOD.replace(old, new, 1)), key)
    assert problem.line == line
    assert problem.where == str(tmp_path / "policy.yaml")
    assert words in problem.expected


def test_a_policy_without_a_firing_case_is_refused(tmp_path: Path) -> None:
    text = GOOD.replace("expect: {action: clock_cap, targets: 4, clock_mhz: 1005}", "expect: none")
    assert "a case that fires" in _at(_problems(tmp_path, text), "cases").expected


def test_all_problems_of_a_file_come_at_once(tmp_path: Path) -> None:
    text = GOOD.replace("status: stable", "status: new").replace("mhz: 1005}", "mhz: -1}").replace("why:", "wy:")
    keys = {problem.key for problem in _problems(tmp_path, text)}
    assert {"status", "then.clock.mhz", "why", "wy"} <= keys


def test_all_problems_of_all_files_come_at_once(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(GOOD.replace("status: stable", "status: new"), encoding="utf-8")
    (tmp_path / "b.yml").write_text("[1, 2", encoding="utf-8")
    (tmp_path / "c.yaml").write_bytes(b"id: \xff\xfe")
    (tmp_path / "notes.txt").write_text("no policy", encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load_policies([tmp_path, tmp_path / "gone.yaml"])
    places = [Path(problem.where).name for problem in caught.value.problems]
    assert places == ["a.yaml", "b.yml", "c.yaml", "gone.yaml"]


def test_an_id_that_is_taken_names_both_places(tmp_path: Path) -> None:
    for name in ("a.yaml", "b.yaml", "c.yaml"):
        (tmp_path / name).write_text(GOOD, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load_policies([tmp_path])
    first, second = caught.value.problems
    assert (Path(first.where).name, Path(second.where).name) == ("b.yaml", "c.yaml")
    assert first.key == "id"
    assert first.line == 1
    assert f"{tmp_path / 'a.yaml'}:1 has this one" in first.expected


def test_a_folder_without_policies_and_a_huge_file_are_refused(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    huge = tmp_path / "huge.yaml"
    huge.write_text("#" * (SIZE_MAX_BYTES + 1), encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load_policies([empty, huge])
    assert [problem.key for problem in caught.value.problems] == ["(folder)", "(file)"]


@pytest.mark.parametrize(
    "text",
    [
        "a: " + "[" * 2000 + "]" * 2000,
        "a: &x [*x]",
        "? [a]\n: 1",
        "a: 2024-99-99",
        "a: !!python/object:os.system x",
        "".join(f"k{i}: &k{i} [{', '.join([f'*k{i - 1}' if i else '1'] * 9)}]\n" for i in range(12)),
    ],
    ids=["deep", "endless", "key is a list", "no such date", "foreign tag", "aliases of aliases"],
)
def test_hostile_yaml_is_refused_in_a_line(tmp_path: Path, text: str) -> None:
    assert len(_problems(tmp_path, text)) >= 1


def test_no_policies_are_no_policies() -> None:
    assert load_policies([]) == ()
    assert len(builtin_policy_files()) == 7
