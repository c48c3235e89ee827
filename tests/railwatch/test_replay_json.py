"""``railwatch replay --json``: every line is JSON, whatever the numbers of a record are."""

import math
from dataclasses import replace
from pathlib import Path

import pytest

from telemetry.records import Evidence
from tests.railwatch.command_line import Run, objects
from tests.railwatch.sagging import sagging_recording
from tests.record_samples import FINDING


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_a_number_that_is_not_finite_is_null_and_does_not_end_the_replay(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: float
) -> None:
    sagging_recording(tmp_path / "sag.csv")
    finding = replace(FINDING, score=number, evidence=(Evidence(name="excess_c", value=number, unit="K"),))
    monkeypatch.setattr("railwatch.cli.replay.replayed", lambda *_: iter([finding, finding]))
    status, out, _ = run("replay", str(tmp_path / "sag.csv"), "--json")
    assert status == 0
    assert [(one["score"], one["evidence"][0]["value"]) for one in objects(out)] == [(None, None)] * 2
