"""Readings and log of the controller."""

import numpy as np

from simulator.served.board.status import LOG_MAX, BoardHealth, ControllerState
from tests.simulator.served.board.boards import KIND, NODE, READINGS, readings

NS = 1_700_000_000_000_000_000


def board() -> ControllerState:
    made = ControllerState(NODE, KIND)
    made.show(READINGS, time_ns=NS, powered=True)
    return made


def test_a_healthy_node_logs_nothing() -> None:
    made = board()
    made.show(READINGS, time_ns=NS + 1, powered=True)
    assert made.status.log == ()
    assert {made.status.health(sensor) for sensor in made.sensors} == {BoardHealth.OK}


def test_a_rail_that_sags_is_logged_once_when_it_gets_worse_and_once_when_it_is_well_again() -> None:
    made = board()
    for volts in (11.3, 11.3, 10.7, 12.0):
        made.show(readings(bus_v=np.array([volts])), time_ns=NS, powered=True)
    reported = [(entry.health, entry.sensor and entry.sensor.name) for entry in made.status.log]
    assert reported == [(BoardHealth.WARNING, "P12V"), (BoardHealth.CRITICAL, "P12V"), (BoardHealth.OK, "P12V")]
    assert [entry.number for entry in made.status.log] == [1, 2, 3]


def test_a_lost_supply_is_critical() -> None:
    made = board()
    ok = READINGS.psu_ok.copy()
    ok[0] = False
    made.show(readings(psu_ok=ok), time_ns=NS, powered=True)
    (entry,) = made.status.log
    assert entry.sensor is not None
    assert (entry.health, entry.sensor.name) == (BoardHealth.CRITICAL, "PSU0 Status")


def test_a_sensor_without_a_reading_is_a_warning_and_no_log_entry() -> None:
    made = board()
    made.show(readings(bus_v=np.array([float("nan")])), time_ns=NS, powered=True)
    rail = made.sensors[0]
    assert made.status.value(rail) is None
    assert made.status.health(rail) is BoardHealth.WARNING
    assert made.status.log == ()


def test_the_log_forgets_the_oldest_and_goes_on_counting() -> None:
    made = board()
    for number in range(LOG_MAX + 5):
        made.log(BoardHealth.OK, f"{number}", time_ns=NS)
    assert len(made.status.log) == LOG_MAX
    assert (made.status.log[0].number, made.status.log[-1].number) == (6, LOG_MAX + 5)


def test_a_status_that_a_caller_holds_does_not_change() -> None:
    made = board()
    before = made.status
    made.show(readings(bus_v=np.array([10.0])), time_ns=NS + 1, powered=False)
    assert before.value(made.sensors[0]) == READINGS.rail_v
    assert before.powered
    assert before.log == ()
