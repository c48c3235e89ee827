"""``railwatch rehearse`` as people and programs see it."""

import json
from collections.abc import Sequence

import pytest
from typer.testing import CliRunner

from railwatch.cli import rehearse as command
from railwatch.cli.app import app_for
from railwatch.rehearsal.plan import Rehearsal
from railwatch.rehearsal.runs import SeedResult
from telemetry.errors import ConfigError
from tests.railwatch.rehearsal.test_summary import result_of


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Results at once in place of simulated ones: here it is about how they are told."""

    def results(rehearsal: Rehearsal, seeds: Sequence[int], *, done: object) -> list[SeedResult]:
        del rehearsal, done
        return [result_of(seed, bare_drops=seed) for seed in seeds]

    monkeypatch.setattr(command, "rehearsed", results)


@pytest.mark.usefixtures("quick")
def test_json_is_one_object_a_seed_and_a_summary() -> None:
    ran = CliRunner().invoke(app_for(["rehearse"]), ["rehearse", "psu-sag", "--seeds", "2", "--json"])
    lines = [json.loads(line) for line in ran.stdout.splitlines()]
    assert [line["type"] for line in lines] == ["seed", "seed", "summary"]
    assert [line["without"]["drops"] for line in lines[:2]] == [1, 2]
    drops = next(figure for figure in lines[2]["figures"] if figure["name"] == "drops")
    assert drops["with"]["value"] == 0.0
    assert drops["without"]["value"] == 1.5


@pytest.mark.usefixtures("quick")
def test_people_get_a_table_with_a_column_without_railwatch() -> None:
    ran = CliRunner().invoke(app_for(["rehearse"]), ["rehearse", "psu-sag", "--seeds", "2"])
    assert ran.exit_code == 0
    assert "with railwatch" in ran.stdout
    assert "false caps" in ran.stdout
    assert "notify 2 times" in ran.stdout


def test_a_scenario_that_is_not_there_is_refused_before_anything_runs() -> None:
    ran = CliRunner().invoke(app_for(["rehearse"]), ["rehearse", "psu-sga"])
    assert isinstance(ran.exception, ConfigError)
    assert "perhaps psu-sag" in str(ran.exception)
    assert ran.stdout == ""
