"""Plausible ranges of values, whatever their source."""

import math

import pytest

from agent.collectors.readings.line import KINDS
from telemetry.entities import EntityKind
from telemetry.signals import CATALOGUE, signal


def test_every_signal_that_another_program_may_send_has_a_range() -> None:
    assert [one.name for one in CATALOGUE if one.entity in KINDS and one.range is None] == []


@pytest.mark.parametrize(
    ("entity", "name", "good", "bad"),
    [
        (EntityKind.NODE, "inlet_temp_c", (-30.0, 23.5, 70.0), (900_000.0, -273.0)),
        (EntityKind.SUPPLY, "input_voltage_v", (-48.0, 0.0, 230.0, 480.0, 800.0), (-99_999_999.0, 23_000.0)),
        (EntityKind.SUPPLY, "ups_load_ratio", (0.0, 0.5, 1.2), (99.99, -0.1)),
        (EntityKind.JOB, "steps", (0.0, 1e12), (-5.0,)),
        (EntityKind.FAN, "fan_rpm", (0.0, 38_000.0), (9e9, -1.0)),
    ],
)
def test_a_range_holds_what_exists_and_nothing_that_cannot(
    entity: EntityKind, name: str, good: tuple[float, ...], bad: tuple[float, ...]
) -> None:
    one = signal(entity, name)
    assert all(one.is_plausible(value) for value in good)
    assert not any(one.is_plausible(value) for value in bad)


def test_an_absent_value_is_not_an_implausible_one() -> None:
    assert signal(EntityKind.FAN, "fan_rpm").is_plausible(math.nan)
