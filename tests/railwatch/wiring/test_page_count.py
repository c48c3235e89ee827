"""Count of pages, kept over restarts."""

from dataclasses import replace
from pathlib import Path

import pytest

from analytics.calibration.achieved import MONTH_S
from railwatch.wiring.page_count import SAVE_EVERY_S, KeptPageCount, read_count
from telemetry.records import Cause, Severity
from telemetry.store.records import RecordFile
from tests.agent.fakes import FakeClock
from tests.railwatch.command_line import Run
from tests.rules import scenes

PAGE = replace(scenes.incident(Cause.SUPPLY_SAG, name="i1"), severity=Severity.WARNING)


def test_pages_and_watched_time_go_on_after_a_restart(tmp_path: Path) -> None:
    path, clock = tmp_path / "pages.json", FakeClock()
    first = KeptPageCount(path, clock, budget_per_node_month=0.1)
    clock.advance(1000.0)
    first.note([PAGE])
    second = KeptPageCount(path, clock, budget_per_node_month=0.1)
    clock.advance(500.0)
    second.note([PAGE])  # the same incident, reported again
    assert second.rate.pages == 1
    assert second.rate.node_months * MONTH_S == pytest.approx(1500.0)


def test_a_kill_costs_a_minute_of_the_time_at_most(tmp_path: Path) -> None:
    path, clock = tmp_path / "pages.json", FakeClock()
    count = KeptPageCount(path, clock, budget_per_node_month=0.1)
    for _ in range(150):
        clock.advance(1.0)
        count.note([])
    assert 150.0 - SAVE_EVERY_S <= read_count(path).watched_s <= 150.0


def test_the_rate_states_of_each_incident_that_was_no_page_why(run: Run, tmp_path: Path) -> None:
    (tmp_path / "records").mkdir()
    store = RecordFile(tmp_path / "records", simulated=False)
    quiet = replace(PAGE, id="i3", silence="silenced by somebody")
    store.append([PAGE, replace(PAGE, id="i2", severity=Severity.INFO), quiet, replace(PAGE, id="i4")])
    store.close()
    count = KeptPageCount(tmp_path / "pages.json", clock := FakeClock(), budget_per_node_month=0.1)
    clock.advance(36_000.0)
    count.note([PAGE])
    status, out, _ = run("incidents", "rate", "--data-dir", str(tmp_path))
    assert status == 0
    assert "1 page in 10 node-hours: 2.4 per day per node" in out
    assert "95 % confidence: " in out
    assert "not counted, severity below warning: i2" in out
    assert "not counted, silenced by an operator: i3" in out
    assert "not counted, older than the count: i4" in out


def test_a_file_that_cannot_be_read_or_written_is_no_reason_to_fail(tmp_path: Path) -> None:
    path = tmp_path / "pages.json"
    path.write_text("{}")
    assert read_count(path).pages == 0
    count = KeptPageCount(tmp_path / "nowhere" / "pages.json", FakeClock(), budget_per_node_month=0.1)
    count.note([PAGE])
    assert count.rate.pages == 1
