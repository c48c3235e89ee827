"""Joints on the independent plant that no pair of voltage and current shows alone, and what must be none."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from telemetry.records import Cause
from tests.analytics.independent_plant import Fault, MeterKind, plant_of
from tests.analytics.independent_plant_judged import judged
from tests.analytics.independent_plant_meters import record

AT_S = 100.0
JOINT = {Cause.JOINT_AGEING.value: frozenset({"psu0"})}


@dataclass(frozen=True, kw_only=True)
class Case:
    """A joint that got worse by a factor, the node that has it, and what the replay finds."""

    name: str
    seed: int
    ratio: float
    plant: dict[str, Any]
    found: dict[str, frozenset[str]]
    seconds: float = 60.0


CASES = (
    Case(
        name="meters of the bus that convert in turn",
        seed=0,
        ratio=2.0,
        plant={"kind": MeterKind.PMBUS, "at_output": False, "shared": False},
        found=JOINT,
    ),
    Case(
        name="meters of the bus that convert in turn, eight supplies",
        seed=7,
        ratio=2.0,
        plant={"kind": MeterKind.PMBUS, "at_output": False, "shared": False},
        found=JOINT,
    ),
    Case(
        name="outputs under a loop that shares the current",
        seed=4,
        ratio=3.0,
        plant={"at_output": True, "shared": True},
        found=JOINT,
    ),
    Case(
        name="the bus under such a loop: every supply of it, as each path rose",
        seed=5,
        ratio=3.0,
        plant={"at_output": False, "shared": True},
        found={Cause.JOINT_AGEING.value: frozenset({"psu0", "psu1"})},
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda one: one.name)
def test_a_joint_is_found_on_its_own_supply_or_on_all_of_its_bus(case: Case, tmp_path: Path) -> None:
    fault = Fault(at_s=AT_S, path_ratio=case.ratio)
    node = plant_of(case.seed, **case.plant)
    read = record(node, case.seed, seconds=AT_S + case.seconds, fault=fault, jobs=("training",), gpu_hz=0.5)
    found = judged(read, tmp_path)
    assert found.causes == case.found, found.summaries
