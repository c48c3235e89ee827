"""Precision of a job: its own, the default of the part, and precisions that a part refuses."""

from pathlib import Path

import pytest

from simulator.files.gpu import Architecture, JobPrecision, precision_on
from simulator.files.node import load_node
from simulator.files.workload import load_workload
from simulator.jobs.plan import build_job
from simulator.plant.chance import stream
from telemetry.errors import ConfigError

JOB = "kind: steady\nname: mine\ndescription: d\nmemory_share: 0.1\nclock_bound_share: 1\nlevel: 1\nprecision: {name}\n"


def written(folder: Path, name: str) -> str:
    path = folder / "mine.yaml"
    path.write_text(JOB.format(name=name), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("architecture", "usual"),
    [
        ("volta", JobPrecision.FP16),
        ("ampere", JobPrecision.BF16),
        ("hopper", JobPrecision.BF16),
        ("blackwell", JobPrecision.BF16),
    ],
)
def test_a_job_that_states_nothing_takes_bfloat16_where_it_is(architecture: Architecture, usual: JobPrecision) -> None:
    assert precision_on(load_workload("llm-pretrain").precision, architecture) is usual
    assert precision_on(load_workload("hpc").precision, architecture) is JobPrecision.FP64
    assert precision_on(load_workload("burn").precision, architecture) is JobPrecision.FP32


def test_an_unknown_precision_is_reported_with_its_line_and_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load_workload(written(tmp_path, "half"))
    (line,) = str(caught.value).splitlines()
    assert line.startswith(f"{tmp_path / 'mine.yaml'}:7: precision: got 'half'; expected 'fp64', 'fp64_tensor'")


@pytest.mark.parametrize(
    ("node", "name", "has"),
    [("a100x8", "fp8", "tf32, bf16, fp16, int8"), ("v100x4", "bf16", "fp64, fp32, fp16"), ("h100x8", "fp8", None)],
)
def test_a_part_refuses_what_it_does_not_calculate_in(tmp_path: Path, node: str, name: str, has: str | None) -> None:
    job, part = load_workload(written(tmp_path, name)), load_node(node).gpu
    if has is None:
        assert build_job(job, gpus_of_nodes=[8], part=part, chance=stream(1, "job")).workload is job
        return
    with pytest.raises(ConfigError) as caught:
        build_job(job, gpus_of_nodes=[8], part=part, chance=stream(1, "job"))
    (line,) = str(caught.value).splitlines()
    assert line.startswith(f"workload mine: precision: got '{name}'; expected what {part.architecture.capitalize()}")
    assert line.endswith(has)
