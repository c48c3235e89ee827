"""Every simulated second of every run leaves a mark that another process sees."""

from pathlib import Path

from evaluation.rehearsal.plan import Rehearsal
from evaluation.rehearsal.progress import Marks, simulated_s
from evaluation.rehearsal.runs import Arm, Piece, run_piece


def test_whole_seconds_of_all_runs_are_counted_once(tmp_path: Path) -> None:
    with Marks(tmp_path, "1-bare") as bare, Marks(tmp_path, "1-healthy") as healthy:
        for now_ms in (10, 990, 1000, 1010, 3000):
            bare(now_ms)
        healthy(2999)
        assert simulated_s(tmp_path) == 5


def test_without_a_folder_nothing_is_written() -> None:
    with Marks(None, "1-bare") as reached:
        reached(5000)


def test_a_run_marks_each_second_that_it_simulates(tmp_path: Path) -> None:
    run_piece(Piece(rehearsal=Rehearsal(scenario="healthy", duration_s=3.0), seed=1, arm=Arm.BARE, marks=tmp_path))
    assert simulated_s(tmp_path) == 3
