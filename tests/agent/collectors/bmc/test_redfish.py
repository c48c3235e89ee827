"""The Redfish link: over the simulated board's service, and over trees with other makers' habits."""

import math
from collections.abc import Iterator
from typing import Any

import pytest

from agent.collectors.bmc.layout import TableLayout, lay_out
from agent.collectors.bmc.redfish import NEWEST_READING, RedfishLink
from agent.collectors.bmc.redfish_client import ROOT
from agent.collectors.bmc.settings import Login
from simulator.served.board.redfish.service import RedfishService
from simulator.served.board.redfish.sessions import RedfishSessions
from simulator.served.board.redfish.tree import RedfishTree
from simulator.served.board.status import BoardHealth
from simulator.served.board.status import ControllerState as SimulatedBoard
from telemetry.errors import NotPermittedError, NotSupportedError, TransientError
from telemetry.records import EventKind, Severity
from tests.agent.collectors.bmc.redfish_trees import CHASSIS, SENSORS, a_tree, at, link_of, opened, sensor
from tests.agent.collectors.bmc.services import PASSWORD, USER, Tree, served
from tests.agent.fakes import FakeClock
from tests.simulator.served.board.boards import KIND, NODE, READINGS, readings

NS = 1_700_000_000_000_000_000


def cells(table: TableLayout | None, values: Any) -> dict[tuple[str, str], float]:
    assert table is not None
    return {
        (table.spec.entities[cell.row].key, table.spec.signals[cell.column]): cell.value(values) for cell in table.cells
    }


class TestOfTheSimulatedBoard:
    @pytest.fixture
    def board(self) -> SimulatedBoard:
        made = SimulatedBoard(NODE, KIND)
        made.log(BoardHealth.WARNING, "an old entry", time_ns=NS)
        made.show(READINGS, time_ns=NS, powered=True)
        return made

    @pytest.fixture
    def link(self, board: SimulatedBoard, monkeypatch: pytest.MonkeyPatch) -> Iterator[RedfishLink]:
        monkeypatch.setenv("IPMI_PASSWORD", "secret")
        clock = FakeClock()
        sessions = RedfishSessions(user="admin", password="secret", clock=clock)
        service = RedfishService(RedfishTree(NODE, board, clock), sessions, login_needed=True)
        made = link_of(service.port, user="admin", login=Login.BASIC)
        yield made
        made.close()
        service.close()

    def test_everything_is_read_and_is_what_the_sensors_measured(self, link: RedfishLink) -> None:
        layout = lay_out(link.open(), node="n", with_inlet=True)
        values = link.read()
        node, supplies, fans = cells(layout.node, values), cells(layout.supplies, values), cells(layout.fans, values)
        assert node["n", "rail_voltage_v"] == pytest.approx(12.033)
        assert node["n", "node_power_w"] == 1550.0
        assert (node["n", "inlet_temp_c"], node["n", "outlet_temp_c"]) == (22.0, 39.0)
        assert supplies["bmc-psu1", "input_voltage_v"] == 119.0
        assert supplies["bmc-psu1", "output_current_a"] == 61.0
        assert supplies["bmc-psu1", "power_w"] == pytest.approx(746.7)
        assert supplies["bmc-psu0", "supply_state"] == 1.0
        assert supplies["bmc-p12v", "rail_voltage_v"] == pytest.approx(12.033)
        assert len(fans) == NODE.cooling.fans
        assert set(fans.values()) == {12_500.0}

    def test_a_sag_and_a_lost_supply_are_seen_and_reported_once(self, link: RedfishLink, board: SimulatedBoard) -> None:
        layout = lay_out(link.open(), node="n", with_inlet=True)
        assert link.new_entries() == ()
        ok, volts = READINGS.psu_ok.copy(), READINGS.psu_input_v.copy()
        ok[1], volts[1] = False, 0.0
        board.show(readings(rail_v=10.71, psu_ok=ok, psu_input_v=volts), time_ns=NS + 1, powered=True)
        values = link.read()
        assert cells(layout.node, values)["n", "rail_voltage_v"] == pytest.approx(10.71)
        assert int(cells(layout.supplies, values)["bmc-psu1", "supply_state"]) & 2
        entries = {entry.unit or entry.message.split(" ")[0]: entry for entry in link.new_entries()}
        assert entries["psu1"].kind is EventKind.SUPPLY
        assert entries["psu1"].severity is Severity.CRITICAL
        assert entries["P12V"].severity is Severity.CRITICAL
        assert link.new_entries() == ()


@pytest.fixture
def tree() -> Tree:
    return a_tree()


@pytest.mark.parametrize("value", [None, "12.1", True, [12.1], "N/A"])
def test_what_is_no_number_is_no_value(tree: Tree, value: Any, caplog: pytest.LogCaptureFixture) -> None:
    tree.resources[f"{SENSORS}/a"] = sensor("a", "P12V", value)
    with opened(tree) as link:
        for _ in range(3):
            values = link.read()
    assert math.isnan(values[f"{SENSORS}/a"])
    assert values[f"{SENSORS}/b"] == 54.2
    assert len(caplog.records) == (0 if value is None else 1)
    assert (link.odd.count > 0) is (value is not None)


def test_a_sensor_that_fails_is_absent_and_the_others_go_on(tree: Tree) -> None:
    with opened(tree) as link:
        tree.resources[f"{SENSORS}/a"] = b"<html>busy</html>"
        values = link.read()
        assert math.isnan(values[f"{SENSORS}/a"])
        assert values[f"{SENSORS}/b"] == 54.2
        tree.resources[f"{SENSORS}/a"] = sensor("a", "P12V", 11.9)
        assert link.read()[f"{SENSORS}/a"] == 11.9


def test_a_sensor_that_is_out_of_order_at_the_start_does_not_stop_the_others(tree: Tree) -> None:
    tree.status[f"{SENSORS}/a"] = 500
    with opened(tree) as link:
        assert dict(link.read()) == {f"{SENSORS}/b": 54.2}


def test_two_pages_that_are_gone_side_by_side_do_not_take_the_others_with_them(tree: Tree) -> None:
    tree.resources[SENSORS]["Members"].append(at(f"{SENSORS}/c"))
    tree.resources[f"{SENSORS}/c"] = sensor("c", "P5V", 5.0)
    with opened(tree) as link:
        for key in "ab":
            del tree.resources[f"{SENSORS}/{key}"]
        values = link.read()
    assert math.isnan(values[f"{SENSORS}/a"])
    assert values[f"{SENSORS}/c"] == 5.0


def test_what_this_user_may_not_read_is_ignored_and_logged(tree: Tree, caplog: pytest.LogCaptureFixture) -> None:
    tree.status[f"{SENSORS}/a"] = 403
    with opened(tree) as link:
        assert dict(link.read()) == {f"{SENSORS}/b": 54.2}
    assert "ignoring 1 unreadable resources, the last one: " in caplog.text
    assert "may not read it (HTTP 403)" in caplog.text


def test_a_user_who_is_refused_later_logs_in_once_a_round_and_not_for_each_sensor(
    tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IPMI_PASSWORD", PASSWORD)
    tree.wants_login = True
    with served(tree) as port:
        link = link_of(port, user=USER)
        link.open()
        tree.tokens.clear()
        monkeypatch.setenv("IPMI_PASSWORD", "changed meanwhile")
        tree.requests_seen.clear()
        with pytest.raises(NotPermittedError, match="refuses user or password"):
            link.read()
        assert [how for how, _ in tree.requests_seen].count("POST") == 1
        link.close()


def test_a_supply_that_is_pulled_is_absent_and_the_next_one_keeps_its_values(tree: Tree) -> None:
    power = f"{CHASSIS}/Power"
    tree.resources[CHASSIS] = {**at(CHASSIS), "Power": at(power)}

    def show(*numbers: int) -> None:
        tree.resources[power] = {
            **at(power),
            "Voltages": [{"Name": f"PS{n} Vout", "ReadingVolts": 12.0 + n / 100} for n in numbers],
            "PowerSupplies": [
                {**at(f"{power}#/PowerSupplies/{place}"), "Name": f"PS{n}", "LineInputVoltage": 230 + n}
                for place, n in enumerate(numbers)
            ],
        }

    show(1, 2)
    with served(tree) as port:
        link = link_of(port)
        layout = lay_out(link.open(), node="n", with_inlet=True)
        show(2)
        found = cells(layout.supplies, link.read())
        link.close()
    assert (found["bmc-psu2", "input_voltage_v"], found["bmc-psu2", "output_voltage_v"]) == (232.0, 12.02)
    assert math.isnan(found["bmc-psu1", "input_voltage_v"])
    assert math.isnan(found["bmc-psu1", "output_voltage_v"])


def test_the_power_of_a_part_s_chassis_is_not_the_node_s(tree: Tree) -> None:
    gpu, metrics = f"{ROOT}Chassis/GPU0", "EnvironmentMetrics"
    tree.resources[f"{ROOT}Chassis"] = {"Members": [at(gpu), at(CHASSIS)]}
    for path, kind, power_w in ((gpu, "Module", 700), (CHASSIS, "RackMount", 5600)):
        tree.resources[path] = {**at(path), "ChassisType": kind, metrics: at(f"{path}/{metrics}")}
        tree.resources[f"{path}/{metrics}"] = {**at(f"{path}/{metrics}"), "PowerWatts": {"Reading": power_w}}
    with served(tree) as port:
        link = link_of(port)
        layout = lay_out(link.open(), node="n", with_inlet=True)
        assert cells(layout.node, link.read())["n", "node_power_w"] == 5600.0
        link.close()


def test_fans_and_heat_come_from_the_older_resource_where_the_sensors_have_none(tree: Tree) -> None:
    thermal = f"{CHASSIS}/Thermal"
    tree.resources[CHASSIS]["Thermal"] = at(thermal)
    tree.resources[thermal] = {**at(thermal), "Fans": [{"Name": "Fan1", "Reading": 9000}]}
    tree.resources[f"{SENSORS}/a"] |= {
        "Name": "PSU1 Temp",
        "Reading": 41.0,
        "ReadingUnits": "Cel",
    }  # is no air of the node
    with opened(tree) as link:
        assert link.read()[f"{thermal}#Fans.Fan1.1"] == 9000.0


def test_a_service_of_which_nothing_works_is_a_failure(tree: Tree) -> None:
    with opened(tree) as link:
        for key in "ab":
            tree.status[f"{SENSORS}/{key}"] = 503
        with pytest.raises(TransientError):
            link.read()


@pytest.mark.parametrize(("levels", "query"), [(True, "?$expand=.($levels=1)"), (False, "?$expand=.")])
def test_where_the_service_can_expand_one_request_reads_all_sensors(tree: Tree, *, levels: bool, query: str) -> None:
    tree.resources[ROOT]["ProtocolFeaturesSupported"] = {"ExpandQuery": {"NoLinks": True, "Levels": levels}}
    members = [tree.resources[f"{SENSORS}/{key}"] for key in "ab"]
    tree.resources[f"{SENSORS}{query}"] = {**at(SENSORS), "Members": members}
    with opened(tree) as link:
        tree.requests_seen.clear()
        assert link.read()[f"{SENSORS}/b"] == 54.2
        assert len(tree.requests_seen) == 1
        del members[0]
        assert math.isnan(link.read()[f"{SENSORS}/a"])


def test_a_reading_that_the_service_itself_no_longer_renews_is_absent(tree: Tree) -> None:
    tree.resources[f"{SENSORS}/a"]["ReadingTime"] = "2026-01-01T00:00:00Z"
    tree.resources[f"{SENSORS}/b"]["ReadingTime"] = "2026-01-01T00:02:00Z"
    with opened(tree) as link:
        values = link.read()
    assert math.isnan(values[f"{SENSORS}/a"])
    assert values[f"{SENSORS}/b"] == 54.2
    assert values[NEWEST_READING] > 0


def test_a_slow_round_ends_in_time_and_the_next_goes_on_where_it_stopped(tree: Tree) -> None:
    clock = FakeClock()
    with opened(tree, clock) as link:
        tree.requests_seen.clear()
        original = clock.monotonic_s
        clock.monotonic_s = lambda: (clock.advance(20.0), original())[1]  # type: ignore[method-assign, func-returns-value]
        for _ in range(3):
            assert link.read().keys() == {f"{SENSORS}/a", f"{SENSORS}/b"}
    requests_seen = [path for _, path in tree.requests_seen]
    assert requests_seen == [f"{SENSORS}/a", f"{SENSORS}/b", f"{SENSORS}/a"]


def test_the_older_resources_are_enough(tree: Tree) -> None:
    power, thermal = f"{CHASSIS}/Power", f"{CHASSIS}/Thermal"
    tree.resources[CHASSIS] = {**at(CHASSIS), "Power": at(power), "Thermal": at(thermal)}
    tree.resources[power] = {
        **at(power),
        "PowerControl": [{"PowerConsumedWatts": 1400}],
        "Voltages": [{"Name": "12V", "ReadingVolts": 12.2}],
        "PowerSupplies": [
            {"Name": "PS1 Status", "LineInputVoltage": 230, "Status": {"State": "Enabled", "Health": "OK"}},
            {"Name": "PS2 Status", "PowerOutputWatts": None, "Status": {"State": "Absent"}},
            {"Name": "PS3", "Status": {"State": "Enabled", "Health": "Critical"}},
        ],
    }
    thermal_fans = [{"FanName": "Fan1", "Reading": 9000}, {"Name": "Fan2", "Reading": 40, "ReadingUnits": "Percent"}]
    tree.resources[thermal] = {
        **at(thermal),
        "Temperatures": [{"Name": "Inlet Temp", "ReadingCelsius": 21.5, "PhysicalContext": "Intake"}],
        "Fans": thermal_fans,
    }
    with served(tree) as port:
        link = link_of(port)
        layout = lay_out(link.open(), node="n", with_inlet=True)
        values = link.read()
        link.close()
    assert cells(layout.node, values) == {
        ("n", "node_power_w"): 1400.0,
        ("n", "rail_voltage_v"): 12.2,
        ("n", "inlet_temp_c"): 21.5,
    }
    supplies = cells(layout.supplies, values)
    assert supplies["bmc-psu1", "input_voltage_v"] == 230.0
    flags = [supplies[f"bmc-psu{number}", "supply_state"] for number in (1, 2, 3)]
    assert flags == [1.0, 0.0, 3.0]
    assert cells(layout.fans, values) == {("bmc-fan1", "fan_rpm"): 9000.0, ("bmc-fan2", "fan_ratio"): 0.4}


def test_the_newer_power_subsystem_is_read_with_its_metrics(tree: Tree) -> None:
    subsystem, supplies = f"{CHASSIS}/PowerSubsystem", f"{CHASSIS}/PowerSubsystem/PowerSupplies"
    one, metrics = f"{supplies}/0", f"{supplies}/0/Metrics"
    tree.resources[CHASSIS]["PowerSubsystem"] = at(subsystem)
    tree.resources |= {
        subsystem: {**at(subsystem), "PowerSupplies": at(supplies)},
        supplies: {"Members": [at(one)]},
        one: {
            **at(one),
            "Name": "PSU0",
            "Metrics": at(metrics),
            "LineInputStatus": "LossOfInput",
            "Status": {"State": "Enabled", "Health": "Critical"},
        },
        metrics: {**at(metrics), "InputPowerWatts": {"Reading": 820.5}, "TemperatureCelsius": {"Reading": None}},
    }
    with served(tree) as port:
        link = link_of(port)
        layout = lay_out(link.open(), node="n", with_inlet=True)
        values = link.read()
        link.close()
    found = cells(layout.supplies, values)
    assert found["bmc-psu0", "input_power_w"] == 820.5
    assert math.isnan(found["bmc-psu0", "supply_temp_c"])
    assert found["bmc-psu0", "supply_state"] == 1 + 2 + 8


def test_a_service_without_sensors_is_no_board(tree: Tree) -> None:
    tree.resources[f"{ROOT}Chassis"] = {"Members": []}
    with served(tree) as port, pytest.raises(NotSupportedError, match="no chassis with sensors"):
        link_of(port).open()


@pytest.mark.parametrize(
    ("thresholds", "limits"),
    [
        ({"LowerCaution": 51.3, "UpperCaution": 56.7, "LowerCritical": 48.6}, (51.3, 56.7)),
        ({"LowerCritical": 48.6, "UpperFatal": 60.0}, (48.6, 60.0)),
        ({"LowerCaution": 51.3}, None),
        ({"LowerCaution": None, "UpperCaution": "n/a"}, None),
    ],
)
def test_a_sensor_has_its_thresholds_as_limits(thresholds: dict[str, Any], limits: tuple[float, float] | None) -> None:
    tree = a_tree()
    readings = {name: {"Reading": value} for name, value in thresholds.items()}
    # The range of the sensor itself bounds no rail.
    tree.resources[f"{SENSORS}/b"] |= {"Thresholds": readings, "ReadingRangeMin": 50.0, "ReadingRangeMax": 58.0}
    with served(tree) as port:
        link = link_of(port)
        found = {point.name: point.limits for point in link.open()}
        link.close()
    assert found == {"P12V": None, "P54V": limits}
