import gzip
import json
import os
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from evaluation.rows import VARIABLE, data_folder
from evaluation.wallpower.suite import WALLPOWER, WallPlan, WallResult, _contact_error, _onset, rows_of
from evaluation.wallpower.traces import FaultKind, WallTrace, read_trace, with_fault
from railwatch.cli import main
from telemetry.clock import NS_PER_S
from telemetry.documents import load_document
from telemetry.errors import EnvironmentLacksError

HEAD = "time,watts,volts,amps,pf"


def lines(count: int, *, feeds: int = 0) -> list[str]:
    start = datetime(2022, 3, 1, tzinfo=UTC)
    reported = []
    for second in range(count):
        stamp = (start + timedelta(seconds=second)).strftime("%m-%d-%Y %H:%M:%S.%f")[:-3]
        # As of an analyser, which resolves milliamperes.
        amps = 4.0 + (second // 20) % 2 + 0.003 * (7 * second % 5)
        one = f"{230.0 * amps * 0.95:.3f},{230.0 - 0.1 * amps:.2f},{amps:.3f},0.95"
        reported.append(",".join([stamp, *([one] if not feeds else ["-1,-1,-1,-1", *[one] * feeds])]))
    return reported


def write(path: Path, rows: list[str], *, head: str = HEAD) -> Path:
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.write("\n".join([head, *rows]) + "\n")
    return path


@pytest.fixture
def trace(tmp_path: Path) -> WallTrace:
    return read_trace(write(tmp_path / "a.csv.gz", lines(400)), failed=-2)


def test_a_failed_reading_is_absent_and_a_row_that_goes_back_is_left_out(tmp_path: Path) -> None:
    rows = lines(4)
    rows[1] = rows[1].split(",")[0] + ",-2,-2,-2,-2"
    read = read_trace(write(tmp_path / "a.csv.gz", [*rows[:3], rows[0], rows[3]]), failed=-2)
    assert len(read.time_ns) == 4
    assert np.isnan(read.power_w[1, 0])
    assert np.isnan(read.frame().values[1]).all()
    assert not read.frame().fresh[1].any()


def test_each_metered_feed_is_a_supply_and_an_unused_one_is_none(tmp_path: Path) -> None:
    head = ",".join([HEAD, *(f"ch{feed}_{name}" for feed in (1, 2) for name in ("watts", "volts", "amps", "pf"))])
    read = read_trace(write(tmp_path / "a.csv.gz", lines(5, feeds=2), head=head), failed=-2)
    assert [entity.name for entity in read.spec().entities] == ["feed0", "feed1"]
    assert read.voltage_v.shape == (5, 2)
    assert len(read.topology().edges) == 2


def test_what_is_put_in_begins_at_its_row_and_touches_nothing_before(trace: WallTrace) -> None:
    for kind, size in ((FaultKind.INPUT_SAG, 0.85), (FaultKind.POWER_GAIN, 1.15), (FaultKind.RESISTANCE, 0.02)):
        spoiled = with_fault(trace, kind, size=size, row=200)
        assert np.array_equal(spoiled.frame().values[:200], trace.frame().values[:200])
        assert not np.array_equal(spoiled.frame().values[200:], trace.frame().values[200:])


def test_a_sag_keeps_the_power_and_ends_after_a_minute(trace: WallTrace) -> None:
    sagged = with_fault(trace, FaultKind.INPUT_SAG, size=0.85, row=200)
    assert np.allclose(sagged.voltage_v * sagged.current_a, trace.voltage_v * trace.current_a)
    assert sagged.voltage_v[200, 0] == pytest.approx(0.85 * trace.voltage_v[200, 0])
    assert sagged.voltage_v[261, 0] == trace.voltage_v[261, 0]


def test_a_stuck_meter_repeats_its_last_value(trace: WallTrace) -> None:
    stuck = with_fault(trace, FaultKind.STUCK, size=0.0, row=200)
    assert set(stuck.voltage_v[200:, 0]) == {trace.voltage_v[199, 0]}


def test_rows_report_what_was_found_named_and_reported_too_much() -> None:
    plan = load_document(WallPlan, WALLPOWER)
    found: dict[str, tuple[float | None, bool]] = dict.fromkeys(plan.faults, (10.0, True))
    missed: dict[str, tuple[float | None, bool]] = dict.fromkeys(plan.faults, (None, False))
    results = [
        WallResult(duration_s=43_200.0, false_alarms=count, faults=given, contact_error=error, contact_wrong=count)
        for count, given, error in ((0, found, 0.1), (1, missed, None))
    ]
    rows = {row.name: row for row in rows_of(results, plan)}
    assert rows["found: input sag"].value == rows["named: input sag"].value == 0.5
    assert rows["delay: input sag"].value == 10.0
    assert rows["false alarms per day, traces as they are"].value == 1.0
    assert rows["false alarms per day, traces as they are"].missed
    assert rows["worse contact: the load moves before and after it"].value == 0.5
    assert rows["worse contact: error of its resistance"].value == 0.1
    assert rows["worse contact: reported as something else"].missed


def test_a_fault_begins_early_enough_to_be_judged(trace: WallTrace) -> None:
    plan = load_document(WallPlan, WALLPOWER)
    for seed in range(50):
        row = _onset(trace, plan, np.random.default_rng(seed))
        assert 200 <= row < 400 - plan.within


def test_the_resistance_of_a_worse_contact_is_found_where_the_load_moves_on_both_sides(trace: WallTrace) -> None:
    plan = load_document(WallPlan, WALLPOWER).contact
    noise = np.random.default_rng(0).normal(0.0, 0.01, trace.voltage_v.shape)
    trace = replace(trace, voltage_v=trace.voltage_v + noise)
    spoiled = with_fault(trace, FaultKind.RESISTANCE, size=plan.size, row=200)
    error = _contact_error(spoiled, trace, 200, plan)
    assert error is not None
    assert error < 0.2
    steady = replace(trace, current_a=np.full_like(trace.current_a, 4.0))
    assert _contact_error(steady, steady, 200, plan) is None


def test_without_the_recordings_the_folder_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    with pytest.raises(EnvironmentLacksError, match=VARIABLE):
        data_folder("mlperf_power")
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    with pytest.raises(EnvironmentLacksError, match="mlperf_power"):
        data_folder("mlperf_power")


def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["railwatch", "evaluate", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), out, err


def test_the_command_prints_a_row_a_line_and_states_which_missed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "mlperf_power").mkdir()
    write(tmp_path / "mlperf_power" / "a.csv.gz", lines(400))
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    status, out, err = run(monkeypatch, capsys, "wallpower", "--json")
    rows = [json.loads(line) for line in out.splitlines()]
    assert {"suite", "name", "value", "low", "high", "unit", "goal", "met"} == set(rows[0])
    goals = [row for row in rows if row["goal"]]
    missed = [row for row in goals if not row["met"]]
    assert status == (1 if missed else 0)
    assert err.count("railwatch: missed wallpower: ") == len(missed)
    status, out, _ = run(monkeypatch, capsys, "wallpower")
    assert f"of {len(goals)} goals met" in out


def test_an_unknown_suite_is_wrong_use_and_one_without_its_data_lacks_something(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for variable in [name for name in os.environ if name.startswith("RAILWATCH_")]:
        monkeypatch.delenv(variable)
    status, _, err = run(monkeypatch, capsys, "judgment")
    assert (status, err.count("\n")) == (2, 1)
    assert all(name in err for name in ("judgement", "supply", "wallpower", "series"))
    status, _, err = run(monkeypatch, capsys, "wallpower")
    assert (status, err) == (3, f"railwatch: {VARIABLE}: not set; expected a folder that holds mlperf_power/\n")


def test_time_is_read_to_the_millisecond(trace: WallTrace) -> None:
    assert np.all(np.diff(trace.time_ns) == NS_PER_S)
