"""Policies of the fleet are refused at load where they would uncap, lack a bound, or do not do what their cases say."""

from pathlib import Path

import pytest

from rules.fleet_loading import load_fleet_policies
from rules.policy_files import SIZE_MAX_BYTES
from telemetry.errors import ConfigError

GOOD = """\
id: mine
status: experimental
why: it sags
source: my own
when: incident.cause == 'input_sag'
then: {action: clock_cap, target: nodes_under, clock: 0.7}
cases:
  - {name: acts, incident: {cause: input_sag}, nodes: 40, racks: 4, expect: 4}
  - {name: does not, incident: {cause: airflow}, expect: 0}
"""


def load(folder: Path, text: str) -> list[str]:
    (folder / "mine.yaml").write_text(text)
    return [policy.id for policy in load_fleet_policies([folder], builtin=False)]


def test_those_that_come_with_railwatch_do_what_their_cases_say() -> None:
    assert {policy.id for policy in load_fleet_policies()} == {"feed-sag-clock-cap", "shared-fault-page"}


@pytest.mark.parametrize("then", ["clock_cap, clock: 0.7", "power_cap, limit: 0.7", "fan, fan: 1.0", "drain"])
def test_a_policy_of_ones_own_is_taken(tmp_path: Path, then: str) -> None:
    assert load(
        tmp_path, GOOD.replace("clock_cap, target: nodes_under, clock: 0.7", f"{then}, target: nodes_under")
    ) == ["mine"]


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("clock: 0.7", "clock: 1.0", "then.clock"),
        (", clock: 0.7", "", "clock beside clock_cap"),
        ("clock: 0.7", "limit: 0.7", "limit beside power_cap"),
        ("clock: 0.7", "clock: 0.7, fan: 0.9", "fan beside fan"),
        ("clock_cap, target: nodes_under, clock: 0.7", "power_cap, limit: 1.0", "then.limit"),
        ("clock_cap", "power_cycle", "as the action of a fleet"),
        ("clock: 0.7", "clock: 0.7, lease: 1s", "then.lease"),
        ("expect: 4", "expect: 40", "acts on 4; expected it to act on 40"),
        ("incident.cause ==", "incident.colour ==", "when"),
        ("then:", "after: nobody\nthen:", "after: got 'nobody'"),
        ("status: experimental", "status: experimental\nbudget: none", "budget"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_file_and_key(tmp_path: Path, old: str, new: str, says: str) -> None:
    with pytest.raises(ConfigError) as err:
        load(tmp_path, GOOD.replace(old, new))
    assert says in str(err.value)
    assert str(tmp_path / "mine.yaml") in str(err.value)
    assert len(str(err.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("content", "says"),
    [(b"id: \xe9", "byte 0xe9"), (b"", "nothing in it"), (b"#" * (SIZE_MAX_BYTES + 1), "expected at most")],
)
def test_a_file_that_is_no_policy_is_refused_as_on_a_node(tmp_path: Path, content: bytes, says: str) -> None:
    (tmp_path / "mine.yaml").write_bytes(content)
    with pytest.raises(ConfigError, match=says):
        load_fleet_policies([tmp_path], builtin=False)


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none: \(folder\)"):
        load_fleet_policies([tmp_path / "none"], builtin=False)
