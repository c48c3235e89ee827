from pathlib import Path

import numpy as np
import pytest

from simulator.runs.output import check_outputs, check_places, drafts, node_paths
from simulator.runs.stream import GROUP_ROWS, RowStream
from telemetry.errors import ConfigError, EnvironmentLacksError
from tests.simulator.runs.kept import Kept


def test_rows_are_written_in_the_order_of_time_and_the_newest_are_held_back() -> None:
    kept = Kept()
    out = RowStream(kept)
    place = out.places([("gpu", "a", "power_w")])
    for time_ns in range(GROUP_ROWS, 0, -1):
        out.add(np.array([time_ns]), place, np.array([float(time_ns)]))
    out.flush(before_ns=GROUP_ROWS - 9)
    assert len(kept.parts[0]) == GROUP_ROWS - 10
    out.flush()
    times_ns = np.concatenate([part.time_ns for part in kept.parts])
    assert times_ns.tolist() == list(range(1, GROUP_ROWS + 1))
    assert out.rows == GROUP_ROWS


def test_nothing_is_written_before_a_group_is_full() -> None:
    kept = Kept()
    out = RowStream(kept)
    out.add(np.array([1]), out.places([("gpu", "a", "power_w")]), np.array([1.0]))
    out.flush(before_ns=100)
    assert kept.parts == []


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_run_that_fails_leaves_nothing_behind(tmp_path: Path, suffix: str) -> None:
    with pytest.raises(RuntimeError), drafts([tmp_path / f"a{suffix}", tmp_path / "b.json"]):
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_folder_that_cannot_be_written_is_named_and_nothing_is_left(tmp_path: Path, suffix: str) -> None:
    paths = [tmp_path / "a.csv", tmp_path / "nowhere" / f"b{suffix}"]
    with pytest.raises(EnvironmentLacksError, match=r"^\S*nowhere\S*: cannot be written: No such file"), drafts(paths):
        pass
    assert list(tmp_path.iterdir()) == []


def test_unknown_suffixes_are_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        check_outputs(tmp_path / "a.xlsx", tmp_path / "a.xlsx")
    assert [problem.where for problem in refused.value.problems] == ["--out", "--truth"]


def test_a_folder_and_the_same_file_twice_are_refused_at_once(tmp_path: Path) -> None:
    paths = node_paths(tmp_path / "a.csv", 2)
    paths[0].mkdir()
    with pytest.raises(ConfigError) as refused:
        check_places(paths, paths[1], replaces=True)
    assert [(problem.where, problem.found) for problem in refused.value.problems] == [
        ("--out", "a folder"),
        ("--truth", "the file of --out"),
    ]
