import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from railwatch.cli import main

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["railwatch", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out, err

    for variable in [name for name in os.environ if name.startswith("RAILWATCH_")]:
        monkeypatch.delenv(variable)
    monkeypatch.chdir(tmp_path)
    return call


def test_a_run_is_recorded_and_told_in_one_object(run: Run, tmp_path: Path) -> None:
    arguments = ("--node", "v100x4", "--workload", "ddp", "--clock-mhz", "1005", "--duration", "1s")
    status, out, err = run("simulate", "run", *arguments, "--out", "a.parquet", "--truth", "a.json", "--json")
    assert (status, err) == (0, "")
    (told,) = [json.loads(line) for line in out.splitlines()]
    assert told["simulated_s"] == 1.0
    assert told["times_real_time"] > 0
    assert told["gpu_power_peak_w"] < 230.0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.json", "a.parquet"]


def test_a_run_says_what_came_of_it_in_words(run: Run) -> None:
    status, out, _ = run("simulate", "run", "bus-drop", "--duration", "1s", "--out", "a.csv", "--seed", "4")
    assert status == 0
    assert out.startswith("a.csv: ")
    for words in ("1s simulated", "times real time", "0 drops", "V lowest", "W peak"):
        assert words in out


def test_a_recorded_drop_is_found_by_a_replay(run: Run) -> None:
    assert run("simulate", "run", "bus-drop", "--duration", "15s", "--out", "a.parquet")[0] == 0
    status, out, _ = run("replay", "a.parquet", "--json")
    assert status == 0
    records = [json.loads(line) for line in out.splitlines()]
    causes = {record["cause"] for record in records if record["type"] == "incident"}
    assert "gpu_lost" in causes
    assert all(record["simulated"] for record in records)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nonsense", "--out", "a.csv"), "SCENARIO: scenario: got 'nonsense'; expected"),
        (("--node", "nonsense", "--out", "a.csv"), "--node: node: got 'nonsense'; expected"),
        (("--workload", "nonsense", "--out", "a.csv"), "--workload: workload: got 'nonsense'; expected"),
        (("--node", "v100x4", "--clock-mhz", "1001", "--out", "a.csv"), "997 MHz is the nearest"),
        (("--node", "v100x4", "--power-limit-w", "20", "--out", "a.csv"), "expected 150 to 300 W"),
        (("healthy", "--out", "a.txt"), "--out: a.txt: ends in '.txt'; expected .parquet or .csv"),
        (("healthy", "--out", "a.csv", "--truth", "a"), "--truth: a: has no suffix; expected .json"),
        (("healthy", "--out", "a.csv", "--truth", "a.csv"), "expected another file"),
        (("healthy", "--duration", "0s", "--out", "a.csv"), "expected 10ms to 7d"),
        (("healthy", "--duration", "90000d", "--out", "a.csv"), "expected 10ms to 3650d"),
        (("healthy", "--duration", "5", "--out", "a.csv"), "expected a duration with its unit"),
        (("healthy", "--tier", "c", "--out", "a.csv"), "--tier: run: got 'c'; expected a or b"),
        (("--out", "a.csv"), "expected a scenario, or --node and --workload"),
        (("healthy",), "--out"),
    ],
)
def test_bad_input_is_told_in_one_line_and_nothing_is_written(
    run: Run, arguments: tuple[str, ...], words: str, tmp_path: Path
) -> None:
    status, out, err = run("simulate", "run", *arguments)
    assert (status, out) == (2, "")
    assert words in err
    assert err.startswith("railwatch: ")
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_named(run: Run, tmp_path: Path) -> None:
    status, _, err = run("simulate", "run", "healthy", "--duration", "1s", "--out", "nowhere/a.parquet")
    assert status == 3
    assert "nowhere/a.parquet: cannot be written: No such file" in err
    assert list(tmp_path.iterdir()) == []
