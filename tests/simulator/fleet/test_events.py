import numpy as np
import pytest

from simulator.files.node import load_node
from simulator.files.scenario import Change, JobStart, ScenarioFile
from simulator.fleet.events import FleetEvents
from simulator.fleet.fleet import Fleet
from simulator.plant.events import PlantEvent, PlantEventKind

Kind = PlantEventKind


def reported(
    *changes: tuple[str, str, float],
    jobs: tuple[tuple[str, str], ...] = (),
    node: str = "v100x4-double-ring",
    step_s: float = 60.0,
    cut: int = 1000,
) -> list[PlantEvent]:
    scenario = ScenarioFile(
        name="changing",
        description="Something changes.",
        changes=tuple(Change.model_validate({"at": at, "what": what, "to": to}) for at, what, to in changes),
        jobs=tuple(JobStart.model_validate({"at": at, "workload": job}) for at, job in jobs),
    )
    fleet = Fleet([load_node(node)], scenario, seed=1, step_s=step_s, repair_s=np.inf)
    happenings = FleetEvents()
    left = 40
    events: list[PlantEvent] = []
    while left:
        stretch = fleet.advance(min(cut, left))
        left -= len(stretch.time_s)
        events += happenings.of(stretch, step_s=step_s)
    return events


def kinds(events: list[PlantEvent]) -> list[PlantEventKind]:
    return [event.kind for event in events]


@pytest.mark.parametrize("step_s", [60.0, 3600.0])
def test_a_hang_is_reported_and_ten_minutes_later_that_the_job_died(step_s: float) -> None:
    hung, died = reported(("10m", "load.hang", 1.0), step_s=step_s)
    assert (hung.kind, died.kind) == (Kind.JOB_HUNG, Kind.JOB_DIED)
    assert 600_000 <= hung.time_ms <= 600_000 + 1000 * step_s
    assert died.time_ms == hung.time_ms + 600_000


def test_a_hang_that_ends_in_time_kills_nothing() -> None:
    assert kinds(reported(("10m", "load.hang", 1.0), ("15m", "load.hang", 0.0))) == [Kind.JOB_HUNG]


def test_a_lost_gpu_is_reported_with_its_xid_and_what_becomes_of_the_job() -> None:
    events = reported(("10m", "gpu2.present", 0.0))
    assert kinds(events) == [Kind.GPU_LOST, Kind.JOB_HUNG, Kind.XID, Kind.JOB_DIED]
    assert [event.gpu for event in events] == [2, None, 2, None]


def test_jobs_and_supplies_that_come_and_go_are_reported() -> None:
    events = reported(("5m", "psu0.in_service", 0.0), ("8m", "psu0.in_service", 1.0), jobs=(("2m", "idle"),))
    assert kinds(events) == [Kind.JOB_STARTED, Kind.SUPPLY_OFF, Kind.SUPPLY_ON]
    assert [event.supply for event in events] == [None, 0, 0]


def test_a_node_whose_last_supply_trips_goes_dark() -> None:
    events = reported(("5m", "psu1.in_service", 0.0), node="v100x4-xt60")
    assert kinds(events)[:3] == [Kind.SUPPLY_OFF, Kind.SUPPLY_OFF, Kind.POWER_OFF]


def test_events_do_not_depend_on_how_a_run_is_cut() -> None:
    changes = (("10m", "load.hang", 1.0), ("30m", "load.hang", 0.0))
    assert reported(*changes, cut=7) == reported(*changes)
