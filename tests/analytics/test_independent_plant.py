"""Recordings of 48 and 54 V nodes that no simulator of ours made are judged without false alarms, by right causes.

The plant (`independent_plant`) shares no equation or constant with `simulator/` and `physics/`. Not found on it, and
not expected here:

- Skewed readings behind meters of a quarter of a volt (controllers at 1 Hz), and stuck values of them: their healthy
  voltage repeats for minutes too.
- Joints at meters of the common bus while the load stands still: a set point that fell looks alike.
- Joints where a loop trims every output to the same current, at meters of the bus: no share moves, and the resistances
  of all supplies rise alike (`test_independent_joints`).
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from telemetry.records import Cause
from tests.analytics.independent_plant import HEALTHY, Fault, MeterKind, Plant, plant_of
from tests.analytics.independent_plant_dialects import (
    DIALECTS,
    Dialect,
    from_zero,
    holes,
    voltages_alone,
)
from tests.analytics.independent_plant_judged import judged
from tests.analytics.independent_plant_meters import START_NS, record

AT_S = 100.0
# Every kind of meter, place of meter, sharing, and set points with and without a nominal voltage that is named.
SEEDS = (2, 3, 7, 12, 13, 22, 28)


@pytest.mark.parametrize("seed", SEEDS)
def test_healthy_nodes_have_no_findings(seed: int, tmp_path: Path) -> None:
    found = judged(record(plant_of(seed), seed, seconds=240.0), tmp_path)
    assert not found.findings, found.summaries


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(40))
def test_healthy_nodes_have_no_findings_in_half_an_hour(seed: int, tmp_path: Path) -> None:
    found = judged(record(plant_of(seed), seed, seconds=1800.0), tmp_path)
    assert not found.findings, found.summaries


@pytest.mark.soak
@pytest.mark.parametrize("seed", [1, 5, 8, 10])
def test_healthy_nodes_have_no_findings_in_six_hours(seed: int, tmp_path: Path) -> None:
    found = judged(record(plant_of(seed), seed, seconds=6 * 3600.0), tmp_path)
    assert not found.findings, found.summaries


@dataclass(frozen=True, kw_only=True)
class Case:
    """A fault from `AT_S` on, the nodes that show it, and its cause at the first supply or, if False, at all."""

    name: str
    fault: Fault
    cause: Cause
    seeds: tuple[int, ...]
    plant: dict[str, Any]
    at_first: bool = True
    seconds: float = 70.0

    def node(self, seed: int) -> Plant:
        return plant_of(seed, **self.plant)


CASES = (
    Case(
        name="a joint behind the meter at half as much again",
        fault=Fault(at_s=AT_S, path_ratio=1.5),
        cause=Cause.JOINT_AGEING,
        seeds=(0, 4, 7),
        plant={"at_output": True, "shared": False},
    ),
    Case(
        name="a joint before the meter at the double",
        fault=Fault(at_s=AT_S, path_ratio=2.0),
        cause=Cause.JOINT_AGEING,
        seeds=(4, 6),
        plant={"at_output": False, "shared": False, "kind": MeterKind.SHUNT},
    ),
    Case(
        name="a supply that is off, at its output",
        fault=Fault(at_s=AT_S, lost=True),
        cause=Cause.SUPPLY_LOST,
        seeds=(1, 3, 7),
        plant={"at_output": True},
    ),
    Case(
        name="a supply that is off, seen at the bus",
        fault=Fault(at_s=AT_S, lost=True),
        cause=Cause.SUPPLY_LOST,
        seeds=(2, 5, 7),
        plant={"at_output": False},
    ),
    Case(
        name="an input that is low by a twentieth",
        fault=Fault(at_s=AT_S, open_ratio=0.95, lasts_s=40.0),
        cause=Cause.INPUT_SAG,
        seeds=(0, 3, 5),
        plant={},
        at_first=False,
    ),
    Case(
        name="an input that is low by an eighth for seconds",
        fault=Fault(at_s=AT_S, open_ratio=0.88, lasts_s=8.0),
        cause=Cause.INPUT_SAG,
        seeds=(4, 7),
        plant={},
        at_first=False,
    ),
    Case(
        name="a voltage that repeats",
        fault=Fault(at_s=AT_S, stuck_v=True),
        cause=Cause.SENSOR_FAULT,
        seeds=(0, 6),
        plant={"kind": MeterKind.SHUNT},
    ),
    Case(
        name="a current that repeats",
        fault=Fault(at_s=AT_S, stuck_a=True),
        cause=Cause.SENSOR_FAULT,
        seeds=(4, 7),
        plant={"kind": MeterKind.PMBUS},
    ),
)


@pytest.mark.parametrize(
    ("case", "seed"),
    [pytest.param(case, seed, id=f"{case.name}, node {seed}") for case in CASES for seed in case.seeds],
)
def test_a_fault_is_an_incident_of_its_cause(case: Case, seed: int, tmp_path: Path) -> None:
    read = record(case.node(seed), seed, seconds=AT_S + case.seconds, fault=case.fault, jobs=("training",), gpu_hz=0.5)
    found = judged(read, tmp_path)
    assert len(found.incidents) == len(found.from_s(AT_S).incidents), found.summaries
    assert set(found.causes) == {case.cause.value}, found.summaries
    assert "psu0" in found.causes[case.cause.value] or not case.at_first
    if case.cause is Cause.JOINT_AGEING:
        assert found.causes[case.cause.value] == {"psu0"}


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda one: one.__name__)
def test_a_lost_supply_is_found_however_the_recording_is_written_down(dialect: Dialect, tmp_path: Path) -> None:
    plant = plant_of(38, kind=MeterKind.PMBUS, at_output=True)
    whole = record(plant, 38, seconds=AT_S + 30.0, fault=Fault(at_s=AT_S, lost=True), jobs=("training",), gpu_hz=0.5)
    found = judged(dialect(whole), tmp_path)
    start_ns = START_NS - int(whole.frames[0].time_ns[0]) if dialect is from_zero else START_NS
    early = [one for one in found.findings if one not in found.from_s(AT_S - 21.0, start_ns=start_ns).findings]
    assert all(one.cause is Cause.SENSOR_LOST for one in early), found.summaries
    assert not early or dialect is holes
    causes = {one.cause for one in found.findings} - {Cause.SENSOR_LOST}
    if dialect is not voltages_alone:
        assert Cause.SUPPLY_LOST in causes, found.summaries
    assert causes <= {Cause.SUPPLY_LOST, Cause.SUPPLY_SAG}, found.summaries


def test_the_plants_of_the_short_tests_differ() -> None:
    plants = [plant_of(seed) for seed in SEEDS]
    assert {one.meter.kind for one in plants} == {MeterKind.SHUNT, MeterKind.PMBUS, MeterKind.BMC}
    assert {one.shared for one in plants} == {one.meter.at_output for one in plants} == {False, True}
    assert {one.tagged for one in plants} == {False, True}
    assert np.ptp([one.set_v for one in plants]) > 4.0
    assert HEALTHY.path_ratio == 1.0
