import csv
import gzip
from pathlib import Path

import numpy as np
import pytest

from evaluation.injection.traces import FeedTrace
from evaluation.power.case_files import write_case_files
from evaluation.power.cases import Case, cases_of
from evaluation.power.chains import Half
from evaluation.power.plan import load_plan
from telemetry.errors import ConfigError
from tests.evaluation.power.made_up import feed_chain, node_chain, pin_chain


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    chains = [feed_chain(400), feed_chain(400, half=Half.CALIBRATION), node_chain(400), pin_chain(400)]
    return cases_of(chains, load_plan(), draws=1)


def quiet(what: str, share: float) -> None:
    del what, share


def read(folder: Path, name: str) -> tuple[list[str], list[list[str]]]:
    with gzip.open(folder / name, "rt", newline="") as file:
        head, *rows = csv.reader(file)
    return head, rows


def test_a_file_holds_the_readings_of_its_case(tmp_path: Path, cases: list[Case]) -> None:
    assert write_case_files(tmp_path / "cases", cases, quiet) == len(cases)
    for case in cases:
        head, rows = read(tmp_path / "cases", f"{case.id}.csv.gz")
        trace = case.trace()
        assert len(rows) == len(trace.time_ns)
        if isinstance(trace, FeedTrace):
            assert head[:5] == ["time_s", "feed0_v", "feed0_a", "feed0_w", "feed1_v"]
            written = np.array([[float(cell) for cell in row] for row in rows])
            assert np.array_equal(written[:, 4], trace.voltage_v[:, 1])
            assert np.array_equal(written[:, 3], trace.power_w[:, 0])


def test_a_reading_that_failed_is_an_empty_cell(tmp_path: Path) -> None:
    (case,) = cases_of([feed_chain(50, half=Half.CALIBRATION)], load_plan(), draws=1)
    trace = case.chain.trace
    assert isinstance(trace, FeedTrace)
    trace.voltage_v[7, 2] = np.nan
    write_case_files(tmp_path / "cases", [case], quiet)
    head, rows = read(tmp_path / "cases", f"{case.id}.csv.gz")
    assert rows[7][head.index("feed2_v")] == ""
    assert rows[8][head.index("feed2_v")] != ""


def test_neither_the_index_nor_a_name_betrays_the_fault(tmp_path: Path, cases: list[Case]) -> None:
    write_case_files(tmp_path / "cases", cases, quiet)
    with (tmp_path / "cases" / "index.csv").open(newline="") as file:
        index = {row["case"]: row for row in csv.DictReader(file)}
    assert set(index) == {case.id for case in cases}
    rows: dict[str, set[tuple[str, ...]]] = {}
    for case in cases:
        row = index[case.id]
        assert row["use"] == ("scored" if case.chain.half is Half.SCORED else "calibration: well")
        rows.setdefault(case.chain.name, set()).add(tuple(row[key] for key in row if key not in {"case", "file"}))
    assert all(len(of_chain) == 1 for of_chain in rows.values())  # with and without a fault they read the same
    feeds = sorted(case.id for case in cases if case.id.startswith("feeds") and case.chain.half is Half.SCORED)
    by_id = {case.id: case for case in cases}
    order = [by_id[one].label is None for one in feeds]
    assert order.count(True) == 1
    names = [by_id[one].label.name for one in feeds if by_id[one].label is not None]  # type: ignore[union-attr]
    planned = [name for name in load_plan().faults if name in names]
    assert names != planned  # the numbers do not follow the plan


def test_the_same_cases_are_the_same_bytes(tmp_path: Path, cases: list[Case]) -> None:
    for folder in ("one", "two"):
        write_case_files(tmp_path / folder, cases[:3], quiet)
    names = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert names == sorted(path.name for path in (tmp_path / "two").iterdir())
    assert all((tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes() for name in names)


def test_a_folder_that_holds_something_is_left_alone(tmp_path: Path, cases: list[Case]) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(ConfigError, match="expected a new or empty folder"):
        write_case_files(tmp_path, cases, quiet)
    with pytest.raises(ConfigError, match="expected a new or empty folder"):
        write_case_files(tmp_path / "mine.txt", cases, quiet)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
