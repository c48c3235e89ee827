"""Recordings of 12 V nodes that no simulator of ours made are judged without false alarms, by right causes.

Supplies on one or two buses, meters of coarse steps that are read in turn, cold-redundant supplies, two mains feeds.
Not found, and not expected here:

- A voltage that repeats on a meter that shows two levels, and which of two currents is late where no voltage follows
  them (`docs/explanation/sensor-faults.md`).
- A set point that moved where a loop shares the current: the share stays.
"""

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from telemetry.records import Cause
from tests.analytics.independent_plant import Fault
from tests.analytics.independent_plant_12v import Drawn, node_of
from tests.analytics.independent_plant_judged import judged
from tests.analytics.independent_plant_meters import record

AT_S = 100.0
AWAKE = Drawn(sleeps=False)


# A stiff rail whose readings arrive in turn, and a soft one of coarse converters.
@pytest.mark.parametrize("seed", [3, 4])
def test_healthy_nodes_have_no_findings(seed: int, tmp_path: Path) -> None:
    found = judged(record(node_of(seed, AWAKE), seed, seconds=200.0), tmp_path)
    assert not found.findings, found.summaries


# Nodes that begin at a light load, which is all that was seen of them, and one that does not.
@pytest.mark.parametrize("seed", [0, 102, 104])
def test_supplies_that_sleep_at_a_light_load_are_not_lost(seed: int, tmp_path: Path) -> None:
    read = record(node_of(seed, Drawn(sleeps=True)), seed, seconds=200.0)
    found = judged(read, tmp_path)
    assert not found.findings, found.summaries


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(12, 36))
def test_healthy_nodes_have_no_findings_in_half_an_hour(seed: int, tmp_path: Path) -> None:
    found = judged(record(node_of(seed, AWAKE), seed, seconds=1800.0), tmp_path)
    assert not found.findings, found.summaries


@dataclass(frozen=True, kw_only=True)
class Case:
    """A fault from `AT_S` on, its cause, and the nodes of `make test`."""

    name: str
    fault: Fault
    cause: Cause
    seeds: tuple[int, ...]
    drawn: Drawn = field(default_factory=lambda: AWAKE)


CASES = (
    Case(name="a lost supply", fault=Fault(at_s=AT_S, lost=True), cause=Cause.SUPPLY_LOST, seeds=(203,)),
    Case(
        name="an input that is low by a twentieth",
        fault=Fault(at_s=AT_S, open_ratio=0.95, lasts_s=30.0),
        cause=Cause.INPUT_SAG,
        seeds=(202, 203),
    ),
    Case(
        name="a sag of the mains that the outputs ride through",
        fault=Fault(at_s=AT_S, mains_ratio=0.8, lasts_s=15.0),
        cause=Cause.INPUT_SAG,
        seeds=(203, 204),
        drawn=Drawn(sleeps=False, mains=True),
    ),
    Case(
        name="a feed of two that is dead",
        fault=Fault(at_s=AT_S, dead_feed=1, lasts_s=15.0),
        cause=Cause.SUPPLY_LOST,
        seeds=(203,),
    ),
    Case(
        name="a feed of two that is dead, and measured",
        fault=Fault(at_s=AT_S, mains_ratio=0.0, dead_feed=1, lasts_s=15.0),
        cause=Cause.SUPPLY_LOST,
        seeds=(204,),
        drawn=Drawn(sleeps=False, mains=True),
    ),
    Case(
        name="a voltage that repeats on a coarse meter",
        fault=Fault(at_s=AT_S, stuck_v=True),
        cause=Cause.SENSOR_FAULT,
        seeds=(201,),
    ),
    Case(
        name="a current that is late on a coarse meter",
        fault=Fault(at_s=AT_S, skew_s=0.3),
        cause=Cause.SENSOR_FAULT,
        seeds=(203, 204),
    ),
    Case(
        name="a load of more than the rating",
        fault=Fault(at_s=AT_S, load_ratio=2.3),
        cause=Cause.SUPPLY_OVERLOAD,
        seeds=(201,),
        drawn=Drawn(sleeps=False, rated=True),
    ),
)


def _check(case: Case, seed: int, folder: Path) -> None:
    plant = node_of(seed, case.drawn)
    read = record(plant, seed, seconds=AT_S + 60.0, fault=case.fault, jobs=("training",), gpu_hz=0.5)
    found = judged(read, folder)
    assert len(found.incidents) == len(found.from_s(AT_S).incidents), found.summaries
    assert case.cause.value in found.causes, found.summaries
    assert case.cause is Cause.SENSOR_FAULT or Cause.SENSOR_FAULT.value not in found.causes, found.summaries
    assert case.cause is not Cause.SENSOR_FAULT or found.causes == {case.cause.value: {"psu0"}}, found.summaries


@pytest.mark.parametrize(
    ("case", "seed"),
    [pytest.param(case, seed, id=f"{case.name}, node {seed}") for case in CASES for seed in case.seeds],
)
def test_a_fault_is_an_incident_of_its_cause(case: Case, seed: int, tmp_path: Path) -> None:
    _check(case, seed, tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize(
    ("case", "seed"),
    [pytest.param(case, seed, id=f"{case.name}, node {seed}") for case in CASES[:2] for seed in range(220, 232)],
)
def test_a_fault_is_an_incident_of_its_cause_on_more_nodes(case: Case, seed: int, tmp_path: Path) -> None:
    _check(case, seed, tmp_path)
