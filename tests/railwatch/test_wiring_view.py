"""Tests of the drawing of a wiring: what a supply that is off shows, and which values are loads."""

import numpy as np
import pytest

from physics.feeding import inferred_wiring
from railwatch.operator.wiring_values import SupplyValues, WiringValues, values_of
from railwatch.operator.wiring_view import OVER_IN_ROW, WiredNode, drawing
from telemetry.entities import NOMINAL_TAG, Entity, EntityKind
from telemetry.frames import Frame, TableSpec
from telemetry.ratings import RatingSource, rating_tags

TAGS = ((NOMINAL_TAG, "54"), *rating_tags(3000.0, RatingSource.SUPPLY))
SUPPLIES = tuple(Entity(kind=EntityKind.SUPPLY, key=f"psu{n}", name=f"psu{n}", tags=TAGS) for n in range(2))
RATE_HZ = 10


def _lines(*values: SupplyValues) -> list[str]:
    node = WiredNode(
        name="box",
        wiring=inferred_wiring(SUPPLIES, ()),
        supplies=SUPPLIES,
        gpus=(),
        values=WiringValues(span_s=60.0, supplies={one.id: found for one, found in zip(SUPPLIES, values, strict=True)}),
    )
    return [*drawing(node)]


def _values(amps: np.ndarray) -> SupplyValues:
    spec = TableSpec(name="supply", kind=EntityKind.SUPPLY, entities=SUPPLIES[:1], signals=("voltage_v", "current_a"))
    columns = np.stack([np.full(len(amps), 54.0), amps], axis=1)[:, np.newaxis]
    times_ns = np.arange(len(amps)) * (1_000_000_000 // RATE_HZ)
    frame = Frame(spec=spec, time_ns=times_ns, values=columns, fresh=np.ones(columns.shape, dtype=np.bool_))
    return values_of([frame]).supplies[SUPPLIES[0].id]


def test_a_supply_that_is_off_is_marked_and_its_voltage_is_not_that_of_the_bus() -> None:
    off = SupplyValues(voltage_v=0.1, lowest_v=0.0, current_a=0.0, highest_a=30.0, load_a=28.0)
    on = SupplyValues(voltage_v=53.5, lowest_v=53.2, current_a=40.0, highest_a=41.0, load_a=40.0)
    lines = _lines(off, on)
    assert "bus 54 V: lowest 53.20 V, +1.90 V from the limit of 51.30 V" in lines
    row = next(line for line in lines if "PSU 0" in line)
    assert row.split()[-2:] == ["off", "50%"]  # 28 A at 54 V before it went off


@pytest.mark.parametrize(("seconds", "load_a"), [(1, 28.0), (10, 100.0)], ids=["a step", "a load"])
def test_the_load_is_the_highest_mean_over_some_seconds(seconds: int, load_a: float) -> None:
    amps = np.full(60 * RATE_HZ, 10.0)
    amps[10 * RATE_HZ : (10 + seconds) * RATE_HZ] = 100.0
    found = _values(amps)
    assert found.highest_a == pytest.approx(100.0)
    assert found.load_a == pytest.approx(load_a)


def test_a_peak_in_the_last_moment_is_no_load() -> None:
    amps = np.full(61 * RATE_HZ, 10.0)
    amps[-RATE_HZ:] = 100.0
    assert _values(amps).load_a == pytest.approx(10.0)


def test_a_load_above_the_rating_is_marked_in_its_row() -> None:
    over = SupplyValues(voltage_v=53.5, lowest_v=53.2, current_a=60.0, highest_a=61.0, load_a=60.0)
    marked = [line for line in _lines(over, SupplyValues()) if OVER_IN_ROW in line]
    assert [line.split()[1:3] for line in marked] == [["PSU", "0"]]
