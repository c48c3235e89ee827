"""Policies of the fleet are refused at load where they would uncap, lack a bound, or fail their own cases."""

from pathlib import Path

import pytest

from rules.fleet.loading import load_fleet_policies
from rules.policy.loading import SIZE_MAX_BYTES
from telemetry.errors import ConfigError
from tests.rules.policy_texts import FLEET


def load(folder: Path, text: str) -> list[str]:
    (folder / "mine.yaml").write_text(text)
    return [policy.id for policy in load_fleet_policies([folder], builtin=False)]


def test_those_that_come_with_railwatch_do_what_their_cases_state() -> None:
    assert {policy.id for policy in load_fleet_policies()} == {"feed-sag-clock-cap", "shared-fault-page"}


@pytest.mark.parametrize("then", ["clock_cap, clock: 0.7", "power_cap, limit: 0.7", "fan, fan: 1.0", "drain"])
def test_a_policy_of_ones_own_is_taken(tmp_path: Path, then: str) -> None:
    assert load(
        tmp_path, FLEET.replace("clock_cap, target: nodes_under, clock: 0.7", f"{then}, target: nodes_under")
    ) == ["mine"]


@pytest.mark.parametrize(
    ("old", "new", "states"),
    [
        ("clock: 0.7", "clock: 1.0", "then.clock"),
        (", clock: 0.7", "", "clock beside clock_cap"),
        ("clock: 0.7", "limit: 0.7", "limit beside power_cap"),
        ("clock: 0.7", "clock: 0.7, fan: 0.9", "fan beside fan"),
        ("clock_cap, target: nodes_under, clock: 0.7", "power_cap, limit: 1.0", "then.limit"),
        ("clock_cap", "power_cycle", "as the action of a fleet"),
        ("clock: 0.7", "clock: 0.7, lease: 1s", "then.lease"),
        ("expect: 4", "expect: 40", "acts on 4; expected it to act on 40"),
        ("when: {cause:", "when: {colour:", "when.colour"),
        ("then:", "after: nobody\nthen:", "after: got 'nobody'"),
        ("then:", "after: mine\nthen:", "after: got 'mine'; expected another one that acts"),
        ("clock: 0.7", "clock: 0.7, lease: 365d", "then.lease: got '365d'; expected 1d at most"),
        ("clock: 0.7", "clock: 0.7, cooldown: 365d", "then.cooldown: got '365d'; expected 1d at most"),
        ("clock: 0.7", "clock: 0.7, release: {after: 8d}", "then.release.after: got '8d'; expected 7d at most"),
        ("clock: 0.7", "clock: 0.7, release: {every: 8d}", "then.release.every: got '8d'; expected 7d at most"),
        ("status: experimental", "status: experimental\nbudget: none", "budget"),
        ("expect: 0", "expect: 1", "expected a case that acts and a case that expects 0"),
        ("name: does not", "name: acts", "a unique name for each case"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_file_and_key(tmp_path: Path, old: str, new: str, states: str) -> None:
    with pytest.raises(ConfigError) as err:
        load(tmp_path, FLEET.replace(old, new))
    assert states in str(err.value)
    assert str(tmp_path / "mine.yaml") in str(err.value)
    assert len(str(err.value).splitlines()) == 1


def test_the_cases_of_a_policy_that_follows_another_are_played_as_if_that_one_had_not_helped(tmp_path: Path) -> None:
    (tmp_path / "first.yaml").write_text(FLEET.replace("id: mine", "id: first"))
    second = FLEET.replace("then:", "after: first\nthen:")
    assert load(tmp_path, second) == ["first", "mine"]
    with pytest.raises(ConfigError, match="acts on 4; expected it to act on 40"):
        load(tmp_path, second.replace("expect: 4", "expect: 40"))


@pytest.mark.parametrize(
    ("content", "states"),
    [(b"id: \xe9", "byte 0xe9"), (b"", "nothing in it"), (b"#" * (SIZE_MAX_BYTES + 1), "expected at most")],
)
def test_a_file_that_is_no_policy_is_refused_as_on_a_node(tmp_path: Path, content: bytes, states: str) -> None:
    (tmp_path / "mine.yaml").write_bytes(content)
    with pytest.raises(ConfigError, match=states):
        load_fleet_policies([tmp_path], builtin=False)


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none: \(folder\)"):
        load_fleet_policies([tmp_path / "none"], builtin=False)


def test_an_id_that_another_file_of_the_folder_has_is_refused_and_both_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(FLEET)
    (tmp_path / "b.yaml").write_text(FLEET.replace("0.7", "0.9"))
    with pytest.raises(ConfigError) as err:
        load_fleet_policies([tmp_path], builtin=False)
    (line,) = str(err.value).splitlines()
    assert line.startswith(f"{tmp_path / 'b.yaml'}:1: id: got 'mine'")
    assert line.endswith(f"{tmp_path / 'a.yaml'}:1 has this one")


def test_a_deprecated_policy_is_loaded_and_its_cases_play(tmp_path: Path) -> None:
    assert load(tmp_path, FLEET.replace("status: experimental", "status: deprecated")) == ["mine"]


def test_a_later_folder_replaces_the_policy_of_its_id(tmp_path: Path) -> None:
    for name, clock in (("site", "0.7"), ("own", "0.9")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "mine.yaml").write_text(FLEET.replace("0.7", clock))
    (policy,) = load_fleet_policies([tmp_path / "site", tmp_path / "own"], builtin=False)
    assert policy.then.ratio == 0.9


@pytest.mark.parametrize(
    ("below", "expect", "states"),
    [
        (("mine", "first"), 40, "acts on 4; expected it to act on 40"),
        (("clock_cap, target: nodes_under, clock: 0.7", "notify"), 4, "after: got 'first'"),
        (("status: experimental", "status: deprecated"), 4, "after: got 'first'"),
    ],
)
def test_a_second_rung_is_played_and_stands_on_one_that_acts(
    tmp_path: Path, below: tuple[str, str], expect: int, states: str
) -> None:
    acts = 1 if below[1] == "notify" else 4
    text = FLEET.replace(*below).replace("mine", "first").replace("expect: 4", f"expect: {acts}")
    (tmp_path / "first.yaml").write_text(text)
    above = FLEET.replace("then:", "after: first\nthen:")
    with pytest.raises(ConfigError) as err:
        load(tmp_path, above.replace("expect: 4", f"expect: {expect}"))
    assert states in str(err.value)
    assert len(str(err.value).splitlines()) == 1
