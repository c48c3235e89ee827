from pathlib import Path

import pytest

from simulator.files.node import load_node
from simulator.files.scenario import Change, JobStart, ScenarioFile, SensorFault, load_scenario
from simulator.files.workload import Trace, load_workload
from simulator.fleet.unsupported import unsupported_parts

NODE = load_node("v100x4")
DDP = load_workload("ddp")
MINUTE_S, HOUR_S = 60.0, 3600.0


def found(name: str, step_s: float = MINUTE_S) -> tuple[str, ...]:
    return unsupported_parts(NODE, load_scenario(name, NODE), DDP, step_s=step_s)


def pulse(*changes: tuple[str, float]) -> ScenarioFile:
    made = tuple(Change.model_validate({"at": at, "what": "psu0.in_service", "to": to}) for at, to in changes)
    return ScenarioFile(name="pulse", description="A supply goes and comes.", changes=made)


@pytest.mark.parametrize(
    "name", ["healthy", "hang", "joint-ageing", "normal-day", "psu-lost", "psu-overload", "psu-sag"]
)
def test_what_lasts_is_shown(name: str) -> None:
    assert found(name, HOUR_S) == ()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("power-brake", "gpus.power_brake comes and goes within a step of 1m"),
        ("driver-upgrade", "node.driver comes and goes"),
        ("ac-sag", "supplies.input_ratio comes and goes"),
        ("exporter-death", "the fault of exporter comes and goes"),
        ("sensor-skewed", "psu0.current_a is late by less than a step"),
        ("loose-module", "gpu2.looseness shows on links"),
    ],
)
def test_what_would_be_lost_is_reported(name: str, expected: str) -> None:
    [reason] = found(name)
    assert reason.startswith(expected)


def test_a_pulse_is_shown_by_a_step_that_begins_within_it() -> None:
    shown, lost = pulse(("50s", 0.0), ("70s", 1.0)), pulse(("10s", 0.0), ("50s", 1.0))
    assert unsupported_parts(NODE, shown, DDP, step_s=MINUTE_S) == ()
    assert len(unsupported_parts(NODE, lost, DDP, step_s=MINUTE_S)) == 1
    assert len(unsupported_parts(NODE, shown, DDP, step_s=HOUR_S)) == 1


def test_a_value_that_moves_on_and_does_not_return_is_shown_where_it_ends() -> None:
    moved = pulse(("10s", 0.5), ("50s", 0.0))
    assert unsupported_parts(NODE, moved, DDP, step_s=MINUTE_S) == ()


def test_a_job_that_makes_way_for_the_one_before_is_lost() -> None:
    starts = tuple(JobStart.model_validate({"at": at, "workload": job}) for at, job in (("5m", "idle"), ("9m", "ddp")))
    visit = ScenarioFile(name="visit", description="A pause.", jobs=starts)
    assert unsupported_parts(NODE, visit, DDP, step_s=MINUTE_S) == ()
    assert unsupported_parts(NODE, visit, DDP, step_s=600.0) == ("a job comes and goes within a step of 10m",)


def test_a_fault_that_lasts_for_good_is_shown() -> None:
    fault = SensorFault.model_validate({"at": "10s", "sensor": "psu0.voltage_v", "fault": "stuck"})
    stuck = ScenarioFile(name="stuck", description="For good.", sensor_faults=(fault,))
    assert unsupported_parts(NODE, stuck, DDP, step_s=HOUR_S) == ()


def test_a_recorded_trace_is_refused_by_name() -> None:
    trace = Trace(
        kind="trace",
        name="played",
        description="A recording.",
        memory_share=0.5,
        clock_bound_share=0.0,
        file=Path("load.csv"),
        unit="watt",
    )
    quiet = ScenarioFile(name="quiet", description="Nothing changes.", kind="quiet")
    assert unsupported_parts(NODE, quiet, trace, step_s=MINUTE_S) == ("played: a recorded trace has no closed form",)
