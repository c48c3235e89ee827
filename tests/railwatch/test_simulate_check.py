import json
from pathlib import Path
from typing import Any

import pytest

from railwatch.cli.printing import ProgressLog
from tests.railwatch.command_line import Run, command_line

# A supply whose joints have come loose, in a node whose file names double ring lugs.
SPOILED = """\
extends: v100x4-double-ring
name: v100x4-spoiled
description: Two supplies whose joints have come loose.
supply:
  units:
    - {name: psu0, rated_w: 1100, open_circuit_v: 12.3, psu_mohm: 1, cable_mohm: 1, connector_mohm: 1, joint_mohm: 9}
    - {name: psu1, rated_w: 1100, open_circuit_v: 12.3, psu_mohm: 1, cable_mohm: 1, connector_mohm: 1, joint_mohm: 9}
"""


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.setenv("COLUMNS", "100")
    return command_line(monkeypatch, capsys, "simulate", "check")


def table_of(folder: Path, *, node: str, **changes: object) -> Path:
    row: dict[str, Any] = {
        "id": "full-load",
        "what": "Rail at 1.6 kW",
        "measure": "static_v",
        "run": "ring",
        "at": 1600,
        "unit": "V",
        "expected": "12.06 V",
        "low": 12.04,
        "high": 12.08,
        "tolerance": "The digit told.",
        "source": "field report",
        "basis": "fit",
    }
    path = folder / "table.yaml"
    path.write_text(json.dumps({"runs": {"ring": {"node": node}}, "rows": [row | changes]}))
    return path


def test_a_row_that_holds_is_printed_with_all_that_is_known_of_it(run: Run) -> None:
    status, out, _ = run("--only", "double-ring-full-load")
    text = " ".join(out.split())
    assert status == 0
    assert "ok double-ring-full-load: expected 12.06 V, got 12.07 V; 12.04 to 12.08 V; fit" in text
    assert "Source: field report, Power Supply Units." in text
    assert "1 of 1 rows hold" in text


def test_json_returns_one_object_per_row(run: Run) -> None:
    status, out, _ = run("--only", "room", "--only", "mains", "--json")
    rows = [json.loads(line) for line in out.splitlines()]
    assert status == 0
    assert [row["id"] for row in rows] == ["room", "mains"]
    assert set(rows[0]) == {
        *(
            "id",
            "what",
            "measure",
            "run",
            "expected",
            "low",
            "high",
            "got",
            "unit",
            "tolerance",
            "source",
            "basis",
            "ok",
        ),
    }
    assert rows[1]["got"] == 120.0
    assert rows[1]["ok"] is True


def test_a_spoiled_node_makes_check_fail(run: Run, tmp_path: Path) -> None:
    (tmp_path / "spoiled.yaml").write_text(SPOILED)
    table = table_of(tmp_path, node=str(tmp_path / "spoiled.yaml"))
    status, out, _ = run("--table", str(table), "--json")
    assert status == 1
    row = json.loads(out)
    assert row["ok"] is False
    assert row["got"] < 11.6
    assert run("--table", str(table_of(tmp_path, node="v100x4-double-ring")))[0] == 0


def test_a_failing_row_states_so_to_people(run: Run, tmp_path: Path) -> None:
    status, out, _ = run("--table", str(table_of(tmp_path, node="v100x4-double-ring", low=None, high=11.0)))
    assert status == 1
    assert "FAIL" in out
    assert "at most 11 V" in out
    assert "0 of 1 rows hold" in out


def test_a_row_without_a_tolerance_states_so(run: Run, tmp_path: Path) -> None:
    for tolerance, expected in (
        ("None.", "the number is put in"),
        ("None; a trip is a trip.", "a trip is a trip. Source"),
    ):
        table = table_of(tmp_path, node="v100x4-double-ring", tolerance=tolerance)
        text = " ".join(run("--table", str(table))[1].split())
        assert f"No tolerance: {expected}" in text
        assert "None" not in text


class SteppedClock:
    """A clock on which six seconds pass between any two questions."""

    now_s = 0.0

    def monotonic_s(self) -> float:
        self.now_s += 6.0
        return self.now_s

    def utc_ns(self) -> int:
        raise NotImplementedError

    def sleep_until(self, monotonic_s: float) -> None:
        raise NotImplementedError


def test_a_long_check_states_how_far_it_is_every_ten_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    pace = ProgressLog(SteppedClock())
    for done in range(1, 6):
        pace.update(f"{done} of 5 rows")
    assert capsys.readouterr() == ("", "railwatch: 2 of 5 rows\nrailwatch: 4 of 5 rows\n")


def test_a_run_without_a_number_fails_and_does_not_break(run: Run, tmp_path: Path) -> None:
    table = table_of(tmp_path, node="v100x4-double-ring", measure="slowdown", against="ring", low=0.0)
    data = json.loads(table.read_text())
    data["runs"]["ring"] |= {"workload": "idle", "length": "1s", "warm_up": "0s"}
    table.write_text(json.dumps(data))
    status, out, _ = run("--table", str(table), "--json")
    assert status == 1
    assert json.loads(out)["got"] is None


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--only", "nonsense"), "--only"),
        (("--table", "/nowhere/table.yaml"), "/nowhere/table.yaml"),
    ],
)
def test_wrong_use_is_reported_in_one_line(arguments: tuple[str, ...], expected: str, run: Run) -> None:
    status, out, err = run(*arguments)
    assert status == 2
    assert out == ""
    assert expected in err
    assert len(err.splitlines()) == 1


def test_a_bad_table_is_reported_with_file_line_and_key(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "table.yaml"
    path.write_text("runs: {ring: {node: v100x4}}\nrows:\n  - {id: Bad Id}\n")
    status, _, err = run("--table", str(path))
    assert status == 2
    assert f"{path}:3" in err
