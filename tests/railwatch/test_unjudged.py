"""What cannot be judged with the readings of a node: one line each, with the reading that is missing."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from railwatch.operator.unjudged import unjudged
from telemetry.entities import BOARD_PLACE, NOMINAL_TAG, PLACE_TAG, SOURCE_TAG, Entity, EntityKind
from tests.analytics.scenes import gpu, supply
from tests.railwatch.command_line import Run

Shown = Sequence[tuple[Entity, str]]

BEGUN_NS = 1_700_000_000_000_000_000
BOX = Entity(kind=EntityKind.NODE, key="box", name="box")
GPU: Shown = [(gpu(0), "power_w")]
AIR: Shown = [(BOX, "inlet_temp_c"), (Entity(kind=EntityKind.FAN, key="fan0", name="fan0"), "fan_rpm")]
JOB: Shown = [(Entity(kind=EntityKind.JOB, key="4711", name="4711"), "steps")]
PSU0, PSU1 = ([(supply(number), "voltage_v"), (supply(number), "current_a")] for number in range(2))
WHOLE: Shown = [*GPU, *AIR, *JOB, *PSU0, *PSU1]


def texts(shown: Iterable[tuple[Entity, str]]) -> list[str]:
    return [one.text for one in unjudged(shown)]


def of_54_v(shown: Shown) -> Shown:
    return [(replace(one, tags=((NOMINAL_TAG, "54"),)), name) for one, name in shown]


def board_rail(nominal_v: str) -> Entity:
    tags = ((NOMINAL_TAG, nominal_v), (SOURCE_TAG, "bmc"), (PLACE_TAG, BOARD_PLACE))
    return Entity(kind=EntityKind.SUPPLY, key=f"P{nominal_v}V", name=f"P{nominal_v}V", tags=tags)


def test_where_all_is_read_nothing_is_left_unjudged() -> None:
    assert texts(WHOLE) == []


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        ([*GPU, *AIR, *JOB], "sags, joints and loss of supplies: no sensor reads their voltage"),
        (
            [*GPU, *AIR, *JOB, (board_rail("54"), "rail_voltage_v")],
            "joints and loss of supplies: no sensor reads their voltage",
        ),
        (
            [*GPU, *AIR, *JOB, *((one, f"output_{name}") for one, name in (*PSU0, *PSU1))],
            "dips between two readings of a supply: only their slow meters show PSUs 0-1",
        ),
        ([*GPU, *AIR, *JOB, *PSU0, PSU1[0]], "joints, load and loss of PSU 1: its current is not read"),
        ([*GPU, *AIR, *JOB, PSU0[0], PSU1[0]], "joints, load and loss of PSUs 0-1: their currents are not read"),
        (
            [*GPU, *AIR, *JOB, *of_54_v([*PSU0, *PSU1])],
            "joints that age alike behind the meters of PSUs 0-1: no rail of the board is read",
        ),
        ([*GPU, *AIR[1:], *JOB, *PSU0], "airflow and warm air: no temperature of the inlet is read"),
        (
            [*GPU, *AIR[:1], *JOB, *PSU0],
            "fans, and lost airflow within minutes: neither speed nor duty of a fan is read",
        ),
        (
            [*GPU, *AIR, (BOX, "nv_queue_ratio"), *PSU0],
            "hangs at the first missed step: no job reports its steps",
        ),
        (
            [*GPU, *AIR, *PSU0],
            "hangs that power does not show: no job reports its steps, and the driver's threads are not read",
        ),
    ],
)
def test_each_missing_reading_is_named_with_what_it_leaves_unjudged(shown: Shown, expected: str) -> None:
    assert texts(shown) == [expected]
    assert len(expected) <= 100


def test_a_rail_of_the_board_shows_joints_that_age_alike() -> None:
    assert texts([*GPU, *AIR, *JOB, *of_54_v(PSU0), (board_rail("54"), "rail_voltage_v")]) == []


def test_rails_that_no_gpu_hangs_on_need_no_current() -> None:
    standby = Entity(kind=EntityKind.SUPPLY, key="5vsb", name="5VSB", tags=((NOMINAL_TAG, "5"),))
    assert texts([*WHOLE, (standby, "voltage_v")]) == []


def test_rails_under_the_names_of_earlier_versions_count() -> None:
    earlier = [(one, f"rail_{name}") for one, name in (*PSU0, *PSU1)]
    assert texts([*GPU, *AIR, *JOB, *earlier]) == []


def test_without_gpus_nothing_is_named_about_them() -> None:
    assert texts([*PSU0]) == []


def test_replay_names_what_the_recording_cannot_show_before_its_last_line(tmp_path: Path, run: Run) -> None:
    path = tmp_path / "volts.csv"
    rows = [f"{BEGUN_NS + tick * 50_000_000},supply,psu0,voltage_v,12.{tick % 3}" for tick in range(40)]
    # A column without a value is no reading.
    rows += [f"{BEGUN_NS + tick * 50_000_000},supply,psu0,current_a,nan" for tick in range(40)]
    path.write_text("\n".join(("time_ns,kind,entity,signal,value", *rows)) + "\n")
    lines = run("replay", str(path))[1].splitlines()
    assert lines[-2] == "not judged: joints, load and loss of PSU 0: its current is not read"
