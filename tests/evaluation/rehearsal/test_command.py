"""``railwatch rehearse`` as people and programs see it."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Event

import pytest
from typer.testing import CliRunner

from evaluation.rehearsal.plan import Rehearsal
from evaluation.rehearsal.runs import ProgressMarks, SeedResult
from railwatch.cli import rehearse as command
from railwatch.cli.app import app_for_arguments
from telemetry.errors import ConfigError
from tests.evaluation.rehearsal.test_summary import result_of


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Results at once in place of simulated ones: these tests are about how they are printed."""

    def results(rehearsal: Rehearsal, seeds: Sequence[int], *, marks: Path) -> list[SeedResult]:
        del rehearsal
        assert marks.is_dir()
        return [result_of(seed, bare_drops=seed) for seed in seeds]

    monkeypatch.setattr(command, "rehearsed", results)


@pytest.mark.usefixtures("quick")
def test_json_is_one_object_a_seed_and_a_summary() -> None:
    ran = CliRunner().invoke(app_for_arguments(["rehearse"]), ["rehearse", "psu-sag", "--seeds", "2", "--json"])
    lines = [json.loads(line) for line in ran.stdout.splitlines()]
    assert [line["type"] for line in lines] == ["seed", "seed", "summary"]
    assert [line["without"]["drops"] for line in lines[:2]] == [1, 2]
    drops = next(figure for figure in lines[2]["figures"] if figure["name"] == "drops")
    assert drops["with"]["value"] == 0.0
    assert drops["without"]["value"] == 1.5


@pytest.mark.usefixtures("quick")
def test_people_get_a_table_with_a_column_without_railwatch() -> None:
    ran = CliRunner().invoke(app_for_arguments(["rehearse"]), ["rehearse", "psu-sag", "--seeds", "2"])
    assert ran.exit_code == 0
    assert "with railwatch" in ran.stdout
    assert "false caps" in ran.stdout
    assert "notify 2 times" in ran.stdout
    assert "too few seeds for confidence bounds" in ran.stdout
    assert "1.5 " in ran.stdout
    assert "1.5 (" not in ran.stdout, "no bounds of two seeds"


@pytest.mark.usefixtures("quick")
def test_three_seeds_have_bounds() -> None:
    ran = CliRunner().invoke(app_for_arguments(["rehearse"]), ["rehearse", "psu-sag", "--seeds", "3"])
    assert "too few seeds" not in ran.stdout
    assert "2 (2 to 2)" in ran.stdout


def test_a_log_receives_soon_how_many_seconds_are_simulated(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def seen(arguments: str) -> str:
        output = ""
        for _ in range(6000):
            output += capsys.readouterr().err
            if arguments in output:
                break
            Event().wait(0.01)
        return output

    def slow(rehearsal: Rehearsal, seeds: Sequence[int], *, marks: Path) -> Iterator[SeedResult]:
        del rehearsal
        with ProgressMarks(marks, "one") as reached:
            reached(7_900)
            assert "railwatch: rehearse: 7 of 360 simulated seconds" in seen("7 of")
            reached(9_000)
            assert "railwatch: rehearse: 9 of 360 simulated seconds" in seen("9 of")
        yield from (result_of(seed, bare_drops=0) for seed in seeds)

    monkeypatch.setattr(command, "rehearsed", slow)
    monkeypatch.setattr(command, "_FIRST_LINE_S", 0.05)
    monkeypatch.setattr(command, "_LINE_INTERVAL_S", 0.05)
    command.rehearse("psu-sag", duration=60.0, seeds=2)


def test_a_scenario_that_is_not_there_is_refused_before_anything_runs() -> None:
    ran = CliRunner().invoke(app_for_arguments(["rehearse"]), ["rehearse", "psu-sga"])
    assert isinstance(ran.exception, ConfigError)
    assert "perhaps psu-sag" in str(ran.exception)
    assert ran.stdout == ""
