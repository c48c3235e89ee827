import csv
import json
from pathlib import Path

import numpy as np
import pytest

from telemetry.frames import FloatArray
from tests.railwatch.command_line import Run, command_line


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    return command_line(monkeypatch, capsys, "backtest")


def values(rows: int = 2000) -> FloatArray:
    rng = np.random.default_rng(1)
    load = np.sin(np.arange(rows) / 7.0)
    return np.stack([300 + 50 * load + rng.normal(0, 4, rows), 60 + 5 * load + rng.normal(0, 0.4, rows)], axis=1)


def write(path: Path, table: FloatArray, *, times: list[str] | None = None) -> Path:
    times = times or [str(10 * row) for row in range(len(table))]
    lines = [
        f"{time},host-a,{row[0]},{'' if np.isnan(row[1]) else row[1]}" for time, row in zip(times, table, strict=True)
    ]
    path.write_text("\n".join(["t,host,power_w,temp_c", *lines]) + "\n")
    return path


def scores(path: Path) -> list[dict[str, str]]:
    with path.open() as lines:
        return list(csv.DictReader(lines))


def test_a_fault_is_flagged_and_its_column_named(run: Run, tmp_path: Path) -> None:
    table = values()
    table[1500:1560, 1] += 15
    status, out, _ = run(write(tmp_path / "a.csv", table), "--time", "t", "--out", tmp_path / "s.csv")
    assert status == 0
    assert "the first 600 of 2000 rows, up to 5990, taken as healthy" in out
    assert "led by temp_c" in out
    assert "left out: host" in out
    rows = scores(tmp_path / "s.csv")
    assert [row["time"] for row in rows] == [str(10 * row) for row in range(2000)]
    flagged = [place for place, row in enumerate(rows) if row["flag"] == "1"]
    assert 1500 <= flagged[0] <= 1505
    assert sum(not 1490 <= place < 1600 for place in flagged) <= 10
    assert rows[1504]["leading_column"] == "temp_c"
    assert float(rows[1504]["score"]) > 3 * np.median([float(row["score"]) for row in rows])


@pytest.mark.parametrize("method", ["cusum", "ewma", "page-hinkley"])
def test_a_level_that_changes_is_flagged_by_each_method_of_change(run: Run, tmp_path: Path, method: str) -> None:
    table = np.random.default_rng(4).normal(0, 1, (2000, 2)) * [4.0, 0.4] + [300.0, 60.0]
    table[1500:, 1] += 2.0
    status, out, _ = run(
        write(tmp_path / "a.csv", table), "--time", "t", "--out", tmp_path / "s.csv", "--method", method, "--json"
    )
    result = json.loads(out)
    assert (status, result["method"]) == (0, method)
    flagged = [place for place, row in enumerate(scores(tmp_path / "s.csv")) if row["flag"] == "1"]
    assert any(1500 <= place <= 1550 for place in flagged)
    assert sum(place < 1500 for place in flagged) <= 20
    status, _, err = run(tmp_path / "a.csv", "--time", "t", "--out", tmp_path / "s.csv", "--method", "magic")
    assert (status, len(err.splitlines())) == (2, 1)


def test_healthy_rows_are_never_flagged_and_the_share_is_reported(run: Run, tmp_path: Path) -> None:
    table = values()
    table[100] += 500
    status, out, _ = run(
        write(tmp_path / "a.csv", table), "--time", "t", "--out", tmp_path / "s.csv", "--train-share", "0.5", "--json"
    )
    result = json.loads(out)
    assert (status, result["healthy_rows"], result["rows"], result["columns"]) == (0, 1000, 2000, ["power_w", "temp_c"])
    assert all(row["flag"] == "0" for row in scores(tmp_path / "s.csv")[:1000])


def test_gaps_and_a_clock_that_steps_back_cost_rows_and_no_flags(run: Run, tmp_path: Path) -> None:
    table = values()
    table[900:1000, 1] = np.nan
    times = [f"2024-05-01T{row // 3600:02d}:{row // 60 % 60:02d}:{row % 60:02d}" for row in range(2000)]
    times[1200:1220] = times[1100:1120]
    status, out, _ = run(
        write(tmp_path / "a.csv", table, times=times), "--time", "t", "--out", tmp_path / "s.csv", "--budget", "0.5"
    )
    assert status == 0
    assert "20 rows with a time that goes back were not scored" in out
    rows = scores(tmp_path / "s.csv")
    assert all(row["score"] == row["leading_column"] == "" and row["flag"] == "0" for row in rows[1200:1220])
    assert all(row["leading_column"] != "temp_c" or row["flag"] == "0" for row in rows[900:1000])
    assert sum(row["flag"] == "1" for row in rows) < 10


def test_a_column_that_is_left_out_is_reported_with_what_it_lacks(run: Run, tmp_path: Path) -> None:
    table = values()
    table[0:600:2, 1] = np.nan
    _, out, _ = run(write(tmp_path / "a.csv", table), "--time", "t", "--out", tmp_path / "s.csv")
    assert "left out: temp_c, only 300 of 600 healthy rows have numbers, more than 50% are needed" in out
    assert "left out: host, has cells that are not numbers" in out


def test_only_the_named_columns_are_scored(run: Run, tmp_path: Path) -> None:
    table = values()
    table[1500:1560, 1] += 15
    _, out, _ = run(
        write(tmp_path / "a.csv", table), "--time", "t", "--columns", "power_w", "--out", tmp_path / "s.csv", "--json"
    )
    assert json.loads(out)["columns"] == ["power_w"]
    assert {row["leading_column"] for row in scores(tmp_path / "s.csv")} == {"power_w"}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--time", "zeit"), "zeit: no such column among t, host, power_w, temp_c; expected a column's name"),
        (("--time", "t", "--columns", "power_w,watts"), "watts: no such column"),
        (("--time", "t", "--columns", "host"), "a.csv:2: host: 'host-a'; expected a number"),
        (("--time", "t", "--columns", "t,power_w"), "the column of times among the series"),
        (("--time", "t", "--columns", ","), "--columns"),
        (("--time", "host"), "a.csv:2: host: 'host-a'; expected a number or ISO 8601"),
        (("--time", "power_w"), "times that rise"),
        (("--time", "t", "--train-share", "0"), "--train-share: 0; expected a share above 0 and below 1"),
        (("--time", "t", "--train-share", "0.01"), "20 healthy rows, a share of 0.01 of 2000; expected at least 60"),
        (("--time", "t", "--budget", "nan"), "--budget: nan; expected alarms per 1000 rows"),
    ],
)
def test_wrong_use_is_reported_in_one_line(run: Run, tmp_path: Path, arguments: tuple[str, ...], expected: str) -> None:
    status, out, err = run(write(tmp_path / "a.csv", values()), "--out", tmp_path / "s.csv", *arguments)
    assert (status, out) == (2, "")
    assert expected in err
    assert err.count("\n") == 1
    assert not (tmp_path / "s.csv").exists()


def test_files_that_cannot_be_read_or_written_are_reported_in_one_line(run: Run, tmp_path: Path) -> None:
    good = write(tmp_path / "a.csv", values())
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "head.csv").write_text("t,a\n")
    (tmp_path / "bytes.csv").write_bytes(b"\xff\xfe\x00t,a\n\x80")
    (tmp_path / "twice.csv").write_text("t,a,a\n1,2,3\n")
    for name, expected in (
        ("none.csv", "No such file"),
        ("empty.csv", "no such column among none"),
        ("head.csv", "no row of data"),
        ("bytes.csv", "not UTF-8 text; expected a CSV file in UTF-8"),
        ("twice.csv", "the name of two columns"),
    ):
        status, _, err = run(tmp_path / name, "--time", "t", "--out", tmp_path / "s.csv")
        assert (status, err.count("\n")) == (2, 1), name
        assert expected in err
    for place in (tmp_path / "no" / "s.csv", tmp_path, good):
        status, _, err = run(good, "--time", "t", "--out", place)
        assert status == 2
        assert "--out" in err
    assert good.read_text().startswith("t,host")


@pytest.mark.parametrize("method", ["novelty", "cusum", "ewma", "page-hinkley"])
def test_a_level_that_changes_for_good_is_flagged_and_not_for_ever(run: Run, tmp_path: Path, method: str) -> None:
    table = np.random.default_rng(5).normal(0, 1, (4000, 2)) * [4.0, 0.4] + [300.0, 60.0]
    table[2000:, 1] += 8.0
    table[3500:3520, 0] += 60.0
    arguments = ("--time", "t", "--out", tmp_path / "s.csv", "--method", method, "--json")
    status, out, _ = run(write(tmp_path / "a.csv", table), *arguments)
    assert status == 0
    flagged = np.array([row["flag"] == "1" for row in scores(tmp_path / "s.csv")])
    assert flagged[2000:2050].any()
    assert flagged[2300:3400].mean() < 0.01
    assert flagged[3500:3525].any(), "a later fault is found"
    result = json.loads(out)
    kept = result["kept_per_1000_rows"]
    assert kept["low"] <= 1.0
    assert kept["low"] <= kept["value"] < kept["high"]
    assert result["alarms_per_1000_rows"]["high"] > result["alarms_per_1000_rows"]["value"]


def test_the_rates_are_printed_with_bounds_beside_the_budget(run: Run, tmp_path: Path) -> None:
    status, out, _ = run(write(tmp_path / "a.csv", values()), "--time", "t", "--out", tmp_path / "s.csv")
    assert status == 0
    assert "in the 1400 rows after them" in out
    assert "budget 1 false alarms in 1000 rows; on 450 healthy rows not seen before: 0 in 1000 (95 %: 0 to" in out
    rows = scores(tmp_path / "s.csv")
    assert all(row["threshold"] == row["level"] == "" for row in rows[:600])
    assert all((float(row["level"]) > float(row["threshold"])) == (row["flag"] == "1") for row in rows[600:])
