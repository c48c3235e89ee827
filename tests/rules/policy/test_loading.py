"""Loading policies: every problem of every file at once, and nothing half-loaded."""

import os
from pathlib import Path

import pytest

from rules.policy.loading import SIZE_MAX_BYTES, Layer, load_layers, load_policies
from rules.policy.model import ActionClass, Budget
from telemetry.errors import ConfigError, Problem

GOOD = """\
id: cap-it
status: stable
why: For the test.
source: none
when: {cause: supply_sag}
then:
  action: clock_cap
  target: this_gpu
  clock: {mhz: 1005}
cases:
  - name: fires
    incident: {cause: supply_sag}
    expect: {action: clock_cap, targets: 1, clock_mhz: 1005}
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
    ("old", "new", "key", "line", "text"),
    [
        ("id: cap-it", "id: Cap it", "id", 1, "joined by hyphens"),
        ("status: stable", "status: new", "status", 2, "'experimental', 'stable' or 'deprecated'"),
        ("why: For the test.", "why: ' '", "why", 3, "a sentence"),
        ("source: none", "source: []", "source", 4, "at least 1"),
        ("when: {cause:", "when: {cuase:", "when.cuase", 5, "perhaps cause"),
        ("when: {cause: supply_sag}", "when: {cause: suply_sag}", "when.cause", 5, "supply_sag instead of suply_sag"),
        ("when: {cause: supply_sag}", "when:", "when", 5, ""),
        ("when: {cause: supply_sag}", "when: incident.cause == 'hang'", "when", 5, "when: {cause: hang}"),
        ("action: clock_cap\n", "action: reboot\n", "then.action", 7, "'clock_cap', 'power_cap'"),
        ("action: clock_cap\n", "action: notify\n", "then.target", 8, "no such key with notify"),
        ("target: this_gpu\n", "target: gpu7\n", "then.target", 8, "'this_gpu'"),
        ("  target: this_gpu\n", "", "then.target", 6, "required with clock_cap"),
        ("{mhz: 1005}", "{mhz: 1005, fraction: 0.5}", "then.clock", 9, "fraction, mhz, hold_c, shed and ramp_from"),
        ("{mhz: 1005}", "{mhz: 1005, fallback: 0.5}", "then.clock", 9, "only with hold_v"),
        ("{mhz: 1005}", "{fraction: 1.2}", "then.clock.fraction", 9, "less than 1"),
        ("{mhz: 1005}", "{hold_v: 1150}", "then.clock.hold_v", 9, "at most 60"),
        ("{mhz: 1005}", "{hold_v: .nan}", "then.clock.hold_v", 9, ""),
        ("{mhz: 1005}", "{hold_v: 11.5V}", "then.clock.hold_v", 9, "number"),
        ("{mhz: 1005}", "{mhz: 1005}\n  lease: 30", "then.lease", 10, "a duration with its unit"),
        ("{mhz: 1005}", "{mhz: 1005}\n  lease: 1s", "then.lease", 10, "at least 5s"),
        ("{mhz: 1005}", "{mhz: 1005}\n  hold: 5 minutes", "then.hold", 10, "a duration with its unit"),
        ("{mhz: 1005}", "{mhz: 1005}\n  mode: forced", "then.mode", 10, "'observe', 'recommend' or 'enforce'"),
        ("{mhz: 1005}", "{mhz: 1005}\n  release: {after: 0s}", "then.release.after", 10, "above 0s"),
        ("{mhz: 1005}", "{mhz: 1005}\n  release: {after: 365d}", "then.release.after", 10, "7d at most"),
        ("{mhz: 1005}", "{mhz: 1005}\n  release: {every: 365d}", "then.release.every", 10, "7d at most"),
        ("{mhz: 1005}", "{mhz: 1005}\n  cooldown: 365d", "then.cooldown", 10, "1d at most"),
        ("{mhz: 1005}", "{mhz: 1005}\n  hold: 2d", "then.hold", 10, "1d at most"),
        ("{mhz: 1005}", "{mhz: 5000}", "then.clock.mhz", 9, "at most 4000"),
        ("{mhz: 1005}", "{mhz: 1005}\n  relese: {}", "then.relese", 10, "one of the known keys"),
        ("incident: {cause: supply_sag}", "incident: {cause: sag}", "cases[0].incident[0].cause", 12, "'supply_sag'"),
        ("incident: {cause: supply_sag}", "incident: []", "cases[0].incident", 12, "at least 1"),
        (
            "incident: {cause: supply_sag}",
            "incident: [{cause: supply_sag, at: 5s}, {cause: supply_sag, at: 5s}]",
            "cases[0].incident",
            12,
            "times in order",
        ),
        ("expect: none", "expect:", "cases[1].expect", 16, "'none', one decision or a list"),
        ("expect: none", "expect: {action: clock_cap}", "cases", 10, "a case that expects none"),
        ("name: quiet", "name: fires", "cases", 10, "a unique name"),
        (
            "name: quiet",
            "name: quiet\n    node: {clock_step_mhz: 1.0e-4}",
            "cases[1].node.clock_step_mhz",
            15,
            "at least",
        ),
    ],
)
def test_each_mistake_is_named_with_file_line_and_key(
    tmp_path: Path, *, old: str, new: str, key: str, line: int, text: str
) -> None:
    assert old in GOOD
    problem = _at(_problems(tmp_path, GOOD.replace(old, new, 1)), key)
    assert problem.line == line
    assert problem.where == str(tmp_path / "policy.yaml")
    assert text in problem.expected


def test_a_duration_that_is_too_long_for_a_number_is_refused(tmp_path: Path) -> None:
    text = GOOD.replace("then:\n", f"then:\n  cooldown: {'9' * 320}d\n", 1)
    assert "a duration with its unit" in _at(_problems(tmp_path, text), "then.cooldown").expected


def test_a_policy_without_a_firing_case_is_refused(tmp_path: Path) -> None:
    text = GOOD.replace("expect: {action: clock_cap, targets: 1, clock_mhz: 1005}", "expect: none")
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
    assert load_layers({}) == ()


@pytest.mark.parametrize(
    ("old", "new", "key", "line", "text"),
    [
        ("{mhz: 1005}", "{mhz: 1005}\n  lease: none", "then.lease", 10, "ends by itself"),
        ("{mhz: 1005}", "{mhz: 1005}\n  lease: 0s", "then.lease", 10, "ends by itself"),
        ("{mhz: 1005}", "{mhz: 1005}\n  lease: 0", "then.lease", 10, "ends by itself"),
        ("{mhz: 1005}", "{mhz: 1005}\n  lease:", "then.lease", 10, "ends by itself"),
        ("{mhz: 1005}", "{fraction: 1.0}", "then.clock.fraction", 9, "no policy goes above"),
        ("{mhz: 1005}", "none", "then.clock", 9, "a section that defines a lower setting"),
        ("{mhz: 1005}", "max", "then.clock", 9, "a section that defines a lower setting"),
        ("action: clock_cap\n", "action: clock_release\n", "then.action", 7, "an action that lowers something"),
        ("action: clock_cap\n", "action: uncap\n", "then.action", 7, "an action that lowers something"),
        ("target: this_gpu\n", "target: all_gpus\n", "then.budget", 6, "a budget, such as"),
        ("target: this_gpu\n", "target: all_gpus_of_supply\n", "then.budget", 6, "a budget, such as"),
        ("{mhz: 1005}", "{mhz: 1005}\n  budget: {actions: 0}", "then.budget.actions", 10, "at least 1"),
        ("{mhz: 1005}", "{mhz: 1005}\n  budget: {actions: 6, per: 1s}", "then.budget.per", 10, "at least 1m"),
        (
            "incident: {cause: supply_sag}",
            "incident: {cause: supply_sag, numbers: {minimum_volt: 1}}",
            "cases[0].incident[0].numbers",
            12,
            "",
        ),
    ],
)
def test_what_would_uncap_never_end_or_reach_too_far_is_refused(
    tmp_path: Path, *, old: str, new: str, key: str, line: int, text: str
) -> None:
    problem = _at(_problems(tmp_path, GOOD.replace(old, new, 1)), key)
    assert problem.line == line
    assert text in problem.expected


def test_a_key_that_is_forbidden_is_reported_once(tmp_path: Path) -> None:
    problems = _problems(tmp_path, GOOD.replace("{mhz: 1005}", "{fraction: 1.5}\n  lease: none"))
    assert [problem.key for problem in problems] == ["then.clock.fraction", "then.lease"]


def test_a_wide_reach_with_a_budget_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    wide = GOOD.replace("target: this_gpu", "target: all_gpus\n  budget: {actions: 3, per: 1d, gpus_max: 4}")
    path.write_text(wide.replace("targets: 1", "targets: 4"), encoding="utf-8")
    (policy,) = load_policies([path])
    assert policy.then.budget == Budget(actions=3, per_s=86_400.0, gpus_max=4)


def test_each_mistake_of_a_condition_has_its_line_and_key(tmp_path: Path) -> None:
    block = "when:\n  cause: [supply_sag, sag]\n  numbers:\n    minimum: < 11.4\n    dips: few\n"
    problems = _problems(tmp_path, GOOD.replace("when: {cause: supply_sag}\n", block))
    assert [(problem.line, problem.key) for problem in problems] == [
        (6, "when.cause"),
        (8, "when.numbers.minimum"),
        (9, "when.numbers.dips"),
    ]


@pytest.mark.parametrize(
    ("content", "line", "found"),
    [
        (GOOD.encode("utf-16"), 1, "UTF-16 text"),
        (GOOD.encode("utf-16-be").join([b"\xfe\xff", b""]), 1, "UTF-16 text"),
        (GOOD.replace("For the", "F\u00fcr").encode("latin-1"), 3, "byte 0xfc, which is not UTF-8 text"),
        (GOOD.replace("  action:", "\taction:").encode(), 7, "a tab at the start of the line"),
        (b"", 1, "nothing in it"),
        (b"# only a remark\n", 1, "nothing in it"),
        (GOOD.encode() + b"why: again\n", 17, "duplicate key"),
        (GOOD.encode() + b"--- {}\n", 17, "but found another document"),
        (GOOD.replace("For the", "\x00").encode(), None, "special characters are not allowed"),
    ],
    ids=["utf-16", "utf-16-be", "latin-1", "tab", "empty", "remarks", "twice", "two documents", "nul"],
)
def test_a_file_that_is_no_plain_yaml_is_reported_in_one_line(
    tmp_path: Path, *, content: bytes, line: int | None, found: str
) -> None:
    path = tmp_path / "policy.yaml"
    path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        load_policies([path])
    (problem,) = caught.value.problems
    assert problem.line == line
    assert found in problem.found


def test_a_byte_order_mark_of_utf_8_does_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + GOOD.encode())
    assert load_policies([path])[0].id == "cap-it"


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    with pytest.raises(ConfigError, match="not a regular file"):
        load_policies([tmp_path / "pipe.yaml"])


def test_the_highest_layer_of_an_id_is_in_force_and_shows_what_it_replaces(tmp_path: Path) -> None:
    files = {layer: tmp_path / f"{layer.name}.yaml" for layer in Layer}
    for layer, path in files.items():
        path.write_text(GOOD.replace("why: For the test.", f"why: {layer.name}"), encoding="utf-8")
    other = tmp_path / "other.yaml"
    other.write_text(GOOD.replace("id: cap-it", "id: other"), encoding="utf-8")
    loaded = load_layers(
        {layer: (path,) for layer, path in files.items()} | {Layer.BUILTIN: (files[Layer.BUILTIN], other)}
    )
    assert [(item.policy.id, item.layer) for item in loaded] == [("cap-it", Layer.NODE), ("other", Layer.BUILTIN)]
    below = loaded[0].replaces
    assert below is not None
    assert (below.layer, below.policy.why) == (Layer.SITE, "SITE")
    assert below.replaces is not None
    assert below.replaces.layer is Layer.BUILTIN
    assert loaded[1].replaces is None


def test_problems_of_every_layer_come_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load_layers({Layer.BUILTIN: (tmp_path / "a.yaml",), Layer.NODE: (tmp_path / "b.yaml",)})
    assert [Path(problem.where).name for problem in caught.value.problems] == ["a.yaml", "b.yaml"]
