from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.files.workload import Trace, load_workload
from simulator.jobs.independent import level_of
from simulator.jobs.port import Job
from simulator.plant.power import part_power
from telemetry.errors import ConfigError
from telemetry.frames import FloatArray
from tests.simulator.jobs.running import FULL_CLOCK, N_GPUS, NODE, advance, job_of

WORKLOAD = (
    "kind: trace\nname: {name}\ndescription: A recording.\nmemory_share: 0.1\nclock_bound_share: 0.1\n"
    "file: {name}.csv\nunit: {unit}\n"
)


def played(path: Path, text: str, *, unit: Literal["level", "watt"] = "level", input_factor: float = 1.0) -> Job:
    path.write_text(text, encoding="utf-8")
    workload = Trace(
        kind="trace",
        name="recorded",
        description="A recording.",
        memory_share=0.5,
        clock_bound_share=0.5,
        file=path,
        unit=unit,
        input_factor=input_factor,
    )
    return job_of(workload)


def problems(path: Path, text: str, *, unit: Literal["level", "watt"] = "level") -> list[tuple[int | None, str]]:
    with pytest.raises(ConfigError) as raised:
        played(path, text, unit=unit)
    assert all(problem.where == str(path) for problem in raised.value.problems)
    return [(problem.line, problem.key) for problem in raised.value.problems]


def power_w(level: FloatArray, clock_ratio: FloatArray, input_factor: float = 1.0) -> FloatArray:
    clock_mhz = clock_ratio * NODE.gpu.clocks.max_mhz
    return part_power(NODE.gpu).power_w(clock_mhz, level, np.full(N_GPUS, 50.0), input_factor)


def test_each_value_holds_until_the_next_and_the_end_is_followed_by_the_start(tmp_path: Path) -> None:
    job = played(tmp_path / "a.csv", "t_s,level\n10.0,0.2\n10.004,0.7\n10.006,0.1\n")
    level = advance(job, 20)
    assert (level == level[:, :1]).all()
    assert level[:, 0].tolist() == [0.2] * 4 + [0.7] * 2 + [0.1] * 2 + [0.2] * 4 + [0.7] * 2 + [0.1] * 2 + [0.2] * 4


def test_each_gpu_follows_its_own_column(tmp_path: Path) -> None:
    job = played(tmp_path / "a.csv", "t_s,a,b,c,d\n0,0.1,0.2,0.3,0.4\n\n1,1,0,1,0\n")
    assert advance(job, 1).tolist() == [[0.1, 0.2, 0.3, 0.4]]
    advance(job, 999)
    assert advance(job, 1).tolist() == [[1.0, 0.0, 1.0, 0.0]]


def test_a_recording_of_one_row_is_a_steady_load(tmp_path: Path) -> None:
    assert (advance(played(tmp_path / "a.csv", "t_s,level\n3,0.4\n"), 50) == 0.4).all()


@pytest.mark.parametrize("clock", [1.0, 0.657])
@pytest.mark.parametrize("input_factor", [0.7, 1.0])
def test_watts_come_back_as_the_load_that_draws_them_at_the_clock_of_the_moment(
    tmp_path: Path, clock: float, input_factor: float
) -> None:
    job = played(tmp_path / "a.csv", "t_s,power_w\n0,150\n", unit="watt", input_factor=input_factor)
    clock_ratio = np.full(N_GPUS, clock)
    level = advance(job, 3, clock_ratio=clock_ratio)
    assert power_w(level, clock_ratio, input_factor) == pytest.approx(np.full((3, N_GPUS), 150.0))


@given(
    wanted=st.lists(st.floats(0.0, 1.0), min_size=N_GPUS, max_size=N_GPUS),
    clock=st.lists(st.floats(0.1, 1.0), min_size=N_GPUS, max_size=N_GPUS),
)
def test_power_and_level_are_each_others_inverse(wanted: list[float], clock: list[float]) -> None:
    level, clock_ratio = np.array(wanted), np.array(clock)
    inverse = level_of(NODE.gpu, input_factor=1.0)
    assert inverse(power_w(level, clock_ratio), clock_ratio) == pytest.approx(level, abs=1e-9)


def test_watts_that_the_part_cannot_draw_are_cut(tmp_path: Path) -> None:
    job = played(tmp_path / "a.csv", "t_s,power_w\n0,5\n1,5000\n", unit="watt")
    assert (advance(job, 1000) == 0.0).all()
    assert (advance(job, 1000) == 1.0).all()


def test_every_problem_is_reported_with_its_row(tmp_path: Path) -> None:
    text = "t_s,level\n0,0.5\n1,1.5\n2,much\n1.5,0.5\n1.4,0.5\n3,0.1,0.2\n4,nan\n,0.5\n"
    found = problems(tmp_path / "a.csv", text)
    assert found == [(3, "level"), (4, "level"), (6, "t_s"), (7, "(row)"), (8, "level"), (9, "t_s")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", [(1, "(header)")]),
        ("t_s\n0\n", [(1, "(header)")]),
        ("time,level\n0,0.5\n", [(1, "(header)")]),
        ("t_s,a,b\n0,0.5,0.5\n", [(1, "(header)")]),
        ("t_s,level\n", [(None, "(file)")]),
    ],
)
def test_a_file_of_another_shape_is_refused(tmp_path: Path, text: str, expected: list[tuple[int | None, str]]) -> None:
    assert problems(tmp_path / "a.csv", text) == expected


def test_watts_may_be_more_than_one_but_not_less_than_none(tmp_path: Path) -> None:
    assert problems(tmp_path / "a.csv", "t_s,power_w\n0,300\n1,-1\n", unit="watt") == [(3, "power_w")]


def test_a_file_that_is_not_there_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "w.yaml"
    path.write_text(WORKLOAD.format(name="gone", unit="watt"), encoding="utf-8")
    workload = load_workload(str(path))
    with pytest.raises(ConfigError, match=str(tmp_path / "gone.csv")):
        job_of(workload)


def test_a_trace_workload_finds_its_recording_beside_its_file(tmp_path: Path) -> None:
    (tmp_path / "rec.csv").write_text("t_s,level\n0,0.5\n", encoding="utf-8")
    path = tmp_path / "w.yaml"
    path.write_text(WORKLOAD.format(name="rec", unit="level"), encoding="utf-8")
    job = job_of(load_workload(str(path)))
    assert (job.advance(10, FULL_CLOCK, np.ones(N_GPUS, dtype=np.bool_), hang=False) == 0.5).all()
