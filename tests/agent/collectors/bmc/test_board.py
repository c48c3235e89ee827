"""A controller behind several sources: pace, outages, and how long values are held."""

import math

import numpy as np
import pytest

from agent.collectors.bmc.board import Board, BoardLog, BoardNode, BoardTable
from agent.collectors.bmc.point import LogEntry, Place, Point, Quantity
from telemetry.errors import TransientError
from telemetry.frames import FloatArray
from telemetry.records import EventKind, Severity
from telemetry.signals import RateClass
from tests.agent.collectors.bmc.fakes import FakeLink
from tests.agent.fakes import FakeClock

RAIL = Point(key="rail", name="P12V", quantity=Quantity.VOLTAGE, place=Place.BOARD)
FAN = Point(key="fan", name="FAN0", quantity=Quantity.FAN_SPEED, place=Place.FAN, unit="fan0")
SUPPLY = Point(key="psu", name="PSU1", quantity=Quantity.POWER, place=Place.SUPPLY, unit="psu1")
GONE = TransientError("no response")


def entry(number: int, **more: object) -> LogEntry:
    return LogEntry(
        id=str(number),
        time_ns=number,
        kind=EventKind.SUPPLY,
        severity=Severity.CRITICAL,
        message="lost",
        **more,  # type: ignore[arg-type]  # of a test
    )


class Scene:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.link = FakeLink(points=(RAIL, FAN, SUPPLY), values={"rail": 12.0, "fan": 9000.0, "psu": 700.0})
        self.board = Board(self.link, node="n", clock=self.clock)
        layout = self.board.survey()
        assert layout.fans is not None
        self.node, self.fans = BoardNode(self.board, layout.node), BoardTable(self.board, layout.fans)
        self.log = BoardLog(self.board, node="n", clock=self.clock)

    def node_row(self) -> FloatArray:
        row = np.full(self.node.spec.shape, 7.0)
        self.node.read(row)
        return row

    def rail_v(self) -> float:
        return float(self.node_row()[0, self.node.spec.signals.index("rail_voltage_v")])

    def age_s(self) -> float:
        return float(self.node_row()[0, self.node.spec.signals.index("bmc_age_s")])

    def fan_rpm(self) -> float:
        row = np.full(self.fans.spec.shape, 7.0)
        self.fans.read(row)
        return float(row[0, 0])


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_the_controller_is_read_once_an_interval_however_often_it_is_read(scene: Scene) -> None:
    for _ in range(20):
        assert scene.rail_v() == 12.0
        scene.clock.advance(1.0)
    assert scene.link.reads == 2


def test_an_implausible_value_is_absent_counted_every_round_and_logged_once(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    scene.link.values["fan"] = 9e9
    for _ in range(20):
        assert scene.rail_v() == 12.0
        assert math.isnan(scene.fan_rpm())
        scene.clock.advance(1.0)
    assert scene.node.refused == scene.link.reads == 2
    (messages,) = [record.getMessage() for record in caplog.records if "ignoring value" in record.message]
    assert "ignoring value of fan: 9e+09, expected 0 to 100000 rpm" in messages


def test_the_others_take_what_the_node_has_read_and_never_ask(scene: Scene) -> None:
    assert math.isnan(scene.fan_rpm())
    scene.rail_v()
    assert scene.fan_rpm() == 9000.0
    assert scene.link.reads == 1


def test_an_outage_is_raised_by_one_source_held_by_the_others_and_then_absent(scene: Scene) -> None:
    scene.rail_v()
    scene.link.error = GONE
    scene.clock.advance(10.0)
    with pytest.raises(TransientError):
        scene.node_row()
    assert scene.fan_rpm() == 9000.0
    scene.clock.advance(25.0)
    assert math.isnan(scene.fan_rpm())
    assert scene.log.poll(0.1) == ()


def test_after_an_outage_it_connects_again_and_reports_what_was_logged_meanwhile(scene: Scene) -> None:
    scene.rail_v()
    scene.link.error = GONE
    scene.clock.advance(10.0)
    with pytest.raises(TransientError):
        scene.node_row()
    scene.link.error, scene.link.values = None, {"rail": 11.5, "fan": 9000.0}
    scene.link.entries = [entry(1)]
    assert scene.rail_v() == 11.5
    assert scene.link.opened == 2
    assert [event.id for event in scene.log.poll(0.1)] == ["bmc:n:1"]


def test_a_log_that_fails_is_silent_and_the_node_reports_of_it(scene: Scene) -> None:
    scene.link.error = GONE
    assert scene.log.poll(0.1) == ()
    with pytest.raises(TransientError):
        scene.node_row()


def test_a_frozen_controller_is_detected_by_its_age(scene: Scene) -> None:
    scene.age_s()
    scene.clock.advance(60.0)
    assert scene.age_s() == 60.0
    scene.link.values = {"rail": 11.9, "fan": 9000.0}
    scene.clock.advance(10.0)
    assert scene.age_s() == 0.0


def test_an_entry_belongs_to_the_supply_it_names_and_else_to_the_node(scene: Scene) -> None:
    scene.link.entries = [
        entry(1, place=Place.SUPPLY, unit="psu1"),
        entry(2, place=Place.SUPPLY, unit="psu9"),
        entry(3, place=Place.FAN, unit="fan0"),
    ]
    found = [event.entity_id for event in scene.log.poll(0.1)]
    assert found == ["supply:bmc-psu1", "node:n", "fan:bmc-fan0"]


def test_between_two_polls_of_the_log_it_only_waits(scene: Scene) -> None:
    scene.log.poll(0.5)
    scene.link.entries = [entry(1)]
    assert scene.log.poll(0.5) == ()
    assert scene.clock.slept_s[-1] == 0.5
    for _ in range(3):
        assert scene.log.poll(0.5) == ()
    assert len(scene.log.poll(0.5)) == 1


def test_a_log_that_takes_long_is_looked_at_less_often(scene: Scene) -> None:
    scene.link.log_takes = lambda: scene.clock.advance(3.0)
    scene.log.poll(0.5)
    scene.link.log_takes = None
    scene.link.entries = [entry(1)]
    scene.clock.advance(11.0)
    assert scene.log.poll(0.5) == ()
    scene.clock.advance(0.5)
    assert len(scene.log.poll(0.5)) == 1


def test_parts_that_are_added_later_are_logged_once_and_change_no_table(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    before = scene.node.spec, scene.fans.spec
    scene.link.points += (Point(key="f1", name="FAN1", quantity=Quantity.FAN_SPEED, place=Place.FAN, unit="fan1"),)
    for _ in range(3):
        scene.link.error = GONE
        scene.clock.advance(10.0)
        with pytest.raises(TransientError):
            scene.node_row()
        scene.link.error = None
        scene.rail_v()
    assert (scene.node.spec, scene.fans.spec) == before
    assert len(caplog.records) == 1


def test_a_fast_interval_is_read_with_the_slow_group() -> None:
    link = FakeLink(points=(RAIL,))
    for interval_s, rate in ((2.0, RateClass.SLOW), (10.0, RateClass.RARE)):
        board = Board(link, node="n", clock=FakeClock(), interval_s=interval_s)
        assert BoardNode(board, board.survey().node).rate is rate


def test_closing_twice_is_harmless(scene: Scene) -> None:
    scene.node.close()
    scene.node.close()
    assert scene.rail_v() == 12.0


def test_while_the_log_is_being_read_the_sensors_wait_for_their_next_turn(scene: Scene) -> None:
    scene.rail_v()
    scene.clock.advance(10.0)
    with scene.board._lock:
        assert scene.rail_v() == 12.0
        assert scene.log.poll(0.1) == ()
    assert scene.link.reads == 1
    scene.rail_v()
    assert scene.link.reads == 2
