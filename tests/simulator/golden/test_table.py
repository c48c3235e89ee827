import json
from collections import Counter
from pathlib import Path

import pytest

from simulator.golden.checking import MEASURES, check_rows, chosen_rows
from simulator.golden.table import TABLE, Basis, GoldenRow, GoldenTable, MeasureName
from telemetry.documents import load_document
from telemetry.errors import ConfigError

GOLDEN = load_document(GoldenTable, TABLE)
# Rows that need no run of their own, or a short one, stand for the rest; `railwatch simulate check` runs all.
QUICK = (
    "banana-full-load",
    "xt60-1100-w",
    "double-ring-full-load",
    "banana-branch-current",
    "single-supply",
    "joint-60-days",
    "joint-120-days",
    "joint-180-days",
    "boost-clock",
    "room",
)


def a_row(**changes: object) -> dict[str, object]:
    row = {
        "id": "volts",
        "what": "Rail",
        "measure": "static_v",
        "run": "ring",
        "at": 1600,
        "unit": "V",
        "expected": "12.06 V",
        "low": 12.0,
        "high": 12.1,
        "tolerance": "A digit.",
        "source": "a test",
        "basis": "fit",
    }
    return row | changes


def a_table(*rows: dict[str, object], node: str = "v100x4-double-ring") -> GoldenTable:
    return GoldenTable.model_validate({"runs": {"ring": {"node": node}}, "rows": rows})


def test_every_measure_has_its_function() -> None:
    assert set(MEASURES) == set(MeasureName)


def test_every_measure_is_used() -> None:
    assert {row.measure for row in GOLDEN.rows} == set(MEASURES)


def test_every_run_is_looked_at() -> None:
    used = {name for row in GOLDEN.rows for name in (row.run, row.against)}
    assert set(GOLDEN.runs) <= used


def test_every_row_returns_its_source_and_why_its_bounds_are_where_they_are() -> None:
    for row in GOLDEN.rows:
        assert row.source
        assert row.tolerance.endswith(".")


def test_what_was_fitted_and_what_was_not_can_be_reported_apart() -> None:
    counts = Counter(row.basis for row in GOLDEN.rows)
    assert set(counts) == set(Basis)
    assert counts[Basis.VALIDATION] >= 5


@pytest.mark.parametrize("name", QUICK)
def test_quick_rows_hold(name: str) -> None:
    [result] = check_rows(GOLDEN, chosen_rows(GOLDEN, [name]))
    assert result.passed, result


def test_a_row_outside_its_bounds_does_not_pass() -> None:
    table = a_table(a_row(low=12.2, high=12.3))
    [result] = check_rows(table, table.rows)
    assert not result.passed
    assert result.got == pytest.approx(12.066, abs=0.005)


def test_a_bound_belongs_to_what_it_allows_and_no_number_is_never_within() -> None:
    row = GoldenRow.model_validate(a_row())
    assert row.accepts(12.0)
    assert row.accepts(12.1)
    assert not row.accepts(12.11)
    assert not row.accepts(float("nan"))
    assert not GoldenRow.model_validate(a_row(low=None)).accepts(float("nan"))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"low": None, "high": None}, "low, high or both"),
        ({"low": 2.0, "high": 1.0}, "low no higher than high"),
        ({"run": "nothing"}, "one of the runs"),
        ({"against": "nothing"}, "one of the runs"),
        ({"measure": "guess"}, "power_update_ms"),
        ({"measure": "slowdown"}, "against, which slowdown needs"),
        ({"measure": "static_v", "at": None}, "at, which static_v needs"),
        ({"measure": "joint_mohm", "at": None}, "at, which joint_mohm needs"),
    ],
)
def test_a_row_that_makes_no_sense_is_refused(changes: dict[str, object], expected: str, tmp_path: Path) -> None:
    path = tmp_path / "table.yaml"
    path.write_text(json.dumps({"runs": {"ring": {"node": "v100x4"}}, "rows": [a_row(**changes)]}))
    with pytest.raises(ConfigError, match=expected):
        load_document(GoldenTable, path)


def test_an_unknown_row_is_reported_with_those_there_are() -> None:
    with pytest.raises(ConfigError, match="volts"):
        chosen_rows(a_table(a_row()), ["ampere"])


def test_the_same_table_returns_the_same_numbers() -> None:
    table = a_table(a_row(measure="lowest_v", low=0.0))
    short = table.model_copy(update={"runs": {"ring": table.runs["ring"].model_copy(update={"length": 2.0})}})
    first, second = (list(check_rows(short, short.rows)) for _ in range(2))
    assert first == second
