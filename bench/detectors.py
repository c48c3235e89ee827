"""Cost of the fleet's judgement: all detectors, common mode and incident book, from one node to 100,000 GPUs."""

from bench.cores import measured_core
from bench.machine import run_subject
from bench.rows import Row
from telemetry.errors import EnvironmentLacksError

# By number of GPUs: the seconds of data that are measured. They are whole rounds of what is judged once in two minutes.
SIZES = {8: 600, 1_000: 240, 10_000: 120, 100_000: 120}
WARM_S = 20
DESIGNED = 100_000
# The goal: half of one core for the designed size at one row a second.
GOAL_CORES = 0.5
REPEATS = 2  # the least of them counts: others on the machine only ever add
FOREST_ROWS, TREES_ROWS = 50_000, 2_000


def run() -> tuple[Row, ...]:
    """Measure each size and each of the others in a process of its own; some minutes.

    Raises
    ------
    EnvironmentLacksError
        What it is compared with is not installed.
    """
    for package in ("river", "sklearn"):
        _check(package)
    done = {gpus: _judged(gpus, seconds) for gpus, seconds in SIZES.items()}
    per_gpu_us = {gpus: 1e6 * done[gpus]["cpu_s"] / SIZES[gpus] / gpus for gpus in SIZES}
    per_value_us = {gpus: 1e6 * done[gpus]["cpu_s"] / SIZES[gpus] / done[gpus]["values"] for gpus in SIZES}
    share = done[DESIGNED]["cpu_s"] / SIZES[DESIGNED]
    forest, trees = (_task(subject=name, rows=rows) for name, rows in
                     (("isolation_forest", FOREST_ROWS), ("half_space_trees", TREES_ROWS)))  # fmt: skip
    return (
        Row(name="core_share_100k_gpus", value=share, unit="cores", baseline=GOAL_CORES, against="the goal"),
        *(
            Row(name=f"us_per_gpu_second_{gpus}", value=per_gpu_us[gpus], unit="us", baseline=None, against=None)
            for gpus in SIZES
        ),
        Row(
            name="linearity",
            value=per_gpu_us[DESIGNED],
            unit="us",
            baseline=per_gpu_us[DESIGNED // 10],
            against="a GPU among a tenth as many",
        ),
        *(Row(name=f"resident_mib_{gpus}", value=done[gpus]["resident_mib"], unit="MiB") for gpus in SIZES),
        *(
            Row(
                name=f"us_per_value_{name}",
                value=per_value_us[DESIGNED],
                unit="us",
                baseline=1e6 * other["cpu_s"] / other["values"],
                against=against,
            )
            for name, other, against in (
                ("isolation_forest", forest, "scikit-learn IsolationForest, fitted, scored in one batch"),
                ("half_space_trees", trees, "river HalfSpaceTrees, scored and learnt row by row"),
            )
        ),
        Row(name="begin_100k_gpus", value=done[DESIGNED]["begin_cpu_s"], unit="s"),
        Row(name="keep_100k_gpus", value=done[DESIGNED]["keep_cpu_s"], unit="s"),
        Row(name="incidents", value=done[DESIGNED]["incidents"], unit=""),
    )


def _judged(gpus: int, seconds: int) -> dict[str, float]:
    runs = [_task(subject="judged", gpus=gpus, seconds=seconds, warm_s=WARM_S) for _ in range(REPEATS)]
    return min(runs, key=lambda one: one["cpu_s"])


def _task(**task: object) -> dict[str, float]:
    # Arrays of this size are not worth the threads of a linear algebra library, and one core is what is measured.
    found: dict[str, float] = run_subject(
        "bench.subjects.detecting",
        {**task, "core": measured_core()},
        name=str(task),
        timeout_s=900.0,
        environment={"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        error=RuntimeError,
    )
    return found


def _check(package: str) -> None:
    try:
        __import__(package)
    except ImportError as err:
        raise EnvironmentLacksError(f"{package} is not installed; pip install 'railwatch[evaluate]'") from err
