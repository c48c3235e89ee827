import numpy as np
import pytest

from analytics.connectivity import GroupArray
from analytics.supply.input_fall import MIN_ROWS, InputFall, fall_row, forget, usual_after
from telemetry.frames import FloatArray, filled

BOTH: GroupArray = np.array([0, 0])
ALONE: GroupArray = np.array([0, 1])


def after(rows: list[tuple[FloatArray, FloatArray]], *, usual_v: float, groups: GroupArray) -> InputFall:
    """Run a block of a training job at a voltage, then some rows."""
    fall = filled(InputFall, 2)
    used = np.array([True, True])
    for amps in (30.0, 60.0, 30.0, 60.0):
        fall = fall_row(fall, voltage_v=np.full(2, usual_v), current_a=np.full(2, amps), used=used, groups=groups)
    fall = usual_after(fall)
    for volts, amps_now in rows:
        fall = fall_row(fall, voltage_v=volts, current_a=amps_now, used=used, groups=groups)
    return fall


def rows(volts: float, other_v: float, amps: float, *, count: int = MIN_ROWS) -> list[tuple[FloatArray, FloatArray]]:
    return [(np.array([volts, other_v]), np.full(2, amps))] * count


def test_a_dip_of_every_supply_at_the_same_power_is_the_inputs() -> None:
    assert after(rows(10.0, 10.1, 60.0), usual_v=12.0, groups=BOTH).fallen.all()
    assert not after(rows(10.0, 10.1, 60.0, count=MIN_ROWS - 1), usual_v=12.0, groups=BOTH).fallen.any()


@pytest.mark.parametrize(
    ("volts", "other_v", "amps"),
    [
        (10.0, 10.1, 90.0),  # the load grew: it is the path
        (10.0, 12.0, 60.0),  # one supply alone
        (11.2, 11.2, 60.0),  # no dip by the standard
        (0.4, 0.4, 0.0),  # switched off
    ],
)
def test_what_is_no_dip_of_the_mains(volts: float, other_v: float, amps: float) -> None:
    assert not after(rows(volts, other_v, amps), usual_v=12.0, groups=BOTH).fallen.any()


def test_the_only_supply_of_a_node_reports_at_the_voltage_of_mains_and_not_on_a_rail() -> None:
    assert not after(rows(10.0, 10.0, 60.0), usual_v=12.0, groups=ALONE).fallen.any()
    assert after(rows(195.0, 195.0, 60.0), usual_v=230.0, groups=ALONE).fallen.all()


def test_a_dip_is_never_learnt_and_is_over_when_the_voltage_is_back() -> None:
    fall = usual_after(after(rows(195.0, 195.0, 60.0), usual_v=230.0, groups=BOTH))
    assert fall.usual_v.tolist() == [230.0, 230.0]
    used = np.array([True, True])
    fall = fall_row(fall, voltage_v=np.full(2, 229.0), current_a=np.full(2, 50.0), used=used, groups=BOTH)
    assert not fall.fallen.any()
    assert fall.back.all()


def test_a_dip_that_ends_within_its_block_is_not_learnt_either() -> None:
    fall = usual_after(after(rows(10.0, 10.1, 60.0) + rows(11.8, 11.9, 60.0), usual_v=12.0, groups=BOTH))
    assert fall.usual_v.tolist() == [11.8, 11.9]


def test_what_is_usual_is_learnt_again_where_a_person_accepted_other_mains() -> None:
    fall = after(rows(195.0, 195.0, 60.0), usual_v=230.0, groups=BOTH)
    assert fall.fallen.all()
    fall = forget(fall, np.array([True, False]))
    assert fall.fallen.tolist() == [False, True]
    assert np.isnan(fall.usual_v[0])
