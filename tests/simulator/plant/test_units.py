import numpy as np
import pytest

from simulator.files.node import load_node
from simulator.plant.events import PlantEventKind
from simulator.plant.units import SupplyUnits

SUPPLY = load_node("v100x4").supply
YES = np.ones(2, dtype=np.bool_)
FULL = np.ones(2)
LIMIT_A = 1.3 * 1100.0 / 12.30


def block(first_a: float, second_a: float = 50.0) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    return np.tile([first_a, second_a], (10, 1))


def test_a_unit_above_its_limit_trips_after_20_ms_and_no_sooner() -> None:
    units = SupplyUnits(SUPPLY)
    assert units.watch(10, block(LIMIT_A + 1.0)) == []
    reported = units.watch(20, block(LIMIT_A + 1.0))
    assert [(event.kind, event.supply) for event in reported] == [
        (PlantEventKind.OVER_CURRENT, 0),
        (PlantEventKind.SUPPLY_OFF, 0),
    ]
    assert units.on.tolist() == [False, True]


def test_at_its_limit_or_for_a_shorter_time_it_does_not() -> None:
    units = SupplyUnits(SUPPLY)
    short = block(LIMIT_A + 1.0)
    short[-1, 0] = LIMIT_A - 1.0
    for now_ms in range(0, 1000, 10):
        assert units.watch(now_ms, short) == []
    assert units.on.all()


def test_what_tripped_stays_off_until_it_was_switched_off_and_on() -> None:
    units = SupplyUnits(SUPPLY)
    units.watch(10, block(200.0))
    units.watch(20, block(200.0))
    assert units.follow(20, 10, in_service=YES, input_ratio=FULL) == []
    assert units.on.tolist() == [False, True]
    units.follow(30, 10, in_service=np.array([False, True]), input_ratio=FULL)
    (back,) = units.follow(40, 10, in_service=YES, input_ratio=FULL)
    assert (back.kind, back.supply, back.time_ms) == (PlantEventKind.SUPPLY_ON, 0, 40)
    assert units.on.all()


def test_a_unit_without_mains_holds_for_20_ms_and_returns_a_second_after_it() -> None:
    units = SupplyUnits(SUPPLY)
    on = []
    for now_ms in range(0, 2000, 10):
        ratio = 0.5 if 100 <= now_ms < 200 else 1.0
        units.follow(now_ms, 10, in_service=YES, input_ratio=np.array([ratio, 1.0]))
        on.append(bool(units.on[0]))
    off_ms = [10 * index for index, value in enumerate(on) if not value]
    assert (off_ms[0], off_ms[-1]) == (120, 1190)
    assert units.settled


def test_a_dip_within_the_hold_up_time_goes_by() -> None:
    units = SupplyUnits(SUPPLY)
    for now_ms in range(0, 200, 10):
        ratio = 0.0 if now_ms in {100, 110} else 1.0
        assert units.follow(now_ms, 10, in_service=YES, input_ratio=np.full(2, ratio)) == []


def test_the_output_sags_with_the_mains_as_far_as_the_capacitors_let_it() -> None:
    units = SupplyUnits(SUPPLY)
    volts = [float(units.source_v(np.array([12.3]), np.array([ratio]))[0]) for ratio in (1.1, 1.0, 0.9, 0.7, 0.0)]
    assert volts == pytest.approx([12.3, 12.3, 12.1, 11.7, 11.7])
