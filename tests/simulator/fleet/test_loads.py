from pathlib import Path

import pytest

from simulator.files.loading import names_in
from simulator.files.workload import WORKLOADS, Trace, load_workload
from simulator.fleet.loads import refusal, rhythm_of, stalled


@pytest.mark.parametrize("name", names_in(WORKLOADS))
def test_every_workload_has_a_rhythm_within_bounds(name: str) -> None:
    rhythm = rhythm_of(load_workload(name))
    assert 0.0 <= rhythm.quiet_level <= rhythm.busy_level <= 1.0
    assert rhythm.busy_ms > 0.0
    assert rhythm.quiet_ms > 0.0
    assert 0.0 <= rhythm.pause_share <= 1.0


def test_a_stalled_training_job_spins_without_rising() -> None:
    rhythm = stalled(rhythm_of(load_workload("ddp")))
    assert rhythm.busy_level == rhythm.quiet_level == 0.25


def test_a_workload_that_comes_with_railwatch_is_not_refused() -> None:
    assert [refusal(load_workload(name)) for name in names_in(WORKLOADS)] == [None] * len(names_in(WORKLOADS))


def test_a_recording_has_no_closed_form() -> None:
    trace = Trace(
        kind="trace",
        name="trace",
        description="A recording.",
        memory_share=0.5,
        clock_bound_share=0.0,
        file=Path("load.csv"),
        unit="watt",
    )
    assert refusal(trace) == "a recorded trace has no closed form"
    with pytest.raises(ValueError, match="trace: a recorded trace has no closed form"):
        rhythm_of(trace)
