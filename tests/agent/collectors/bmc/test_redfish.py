"""The Redfish link: over the simulated board's service, and over trees with other makers' habits."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from agent.collectors.bmc.layout import TableLayout, lay_out
from agent.collectors.bmc.point import LogEntry
from agent.collectors.bmc.redfish import NEWEST, RedfishLink
from agent.collectors.bmc.redfish_client import ROOT, RedfishClient
from agent.collectors.bmc.settings import BmcKind, BmcSettings, Login, Transport
from simulator.served.board.redfish.service import RedfishService
from simulator.served.board.redfish.sessions import Sessions
from simulator.served.board.redfish.tree import RedfishTree
from simulator.served.board.status import Board as SimulatedBoard
from simulator.served.board.status import Health
from telemetry.clock import NS_PER_S
from telemetry.errors import NotPermittedError, NotSupportedError, TransientError
from telemetry.records import EventKind, Severity
from tests.agent.collectors.bmc.services import PASSWORD, USER, Tree, served
from tests.agent.fakes import FakeClock
from tests.simulator.served.board.boards import KIND, NODE, READINGS, readings

NS = 1_700_000_000_000_000_000
CHASSIS = f"{ROOT}Chassis/1"
SENSORS = f"{CHASSIS}/Sensors"
LOG = f"{ROOT}Managers/1/LogServices/SEL"


def link_of(port: int, clock: FakeClock | None = None, **changes: Any) -> RedfishLink:
    clock = FakeClock() if clock is None else clock
    settings: dict[str, Any] = {"address": "127.0.0.1", "port": port, "transport": Transport.PLAIN} | changes
    return RedfishLink(
        RedfishClient(BmcSettings(kind=BmcKind.REDFISH, **settings), clock=clock), clock=clock, round_s=15.0
    )


def cells(table: TableLayout | None, values: Any) -> dict[tuple[str, str], float]:
    assert table is not None
    return {
        (table.spec.entities[cell.row].key, table.spec.signals[cell.column]): cell.value(values) for cell in table.cells
    }


class TestOfTheSimulatedBoard:
    @pytest.fixture
    def board(self) -> SimulatedBoard:
        made = SimulatedBoard(NODE, KIND)
        made.log(Health.WARNING, "an old entry", time_ns=NS)
        made.show(READINGS, time_ns=NS, powered=True)
        return made

    @pytest.fixture
    def link(self, board: SimulatedBoard, monkeypatch: pytest.MonkeyPatch) -> Iterator[RedfishLink]:
        monkeypatch.setenv("IPMI_PASSWORD", "secret")
        clock = FakeClock()
        sessions = Sessions(user="admin", password="secret", clock=clock)
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

    def test_a_sag_and_a_lost_supply_are_seen_and_told_once(self, link: RedfishLink, board: SimulatedBoard) -> None:
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
    return Tree(
        resources={
            ROOT: {"Chassis": at(f"{ROOT}Chassis"), "Managers": at(f"{ROOT}Managers")},
            f"{ROOT}Chassis": {"Members": [at(CHASSIS)]},
            CHASSIS: {**at(CHASSIS), "Sensors": at(SENSORS)},
            SENSORS: {"Members": [at(f"{SENSORS}/a"), at(f"{SENSORS}/b")]},
            f"{SENSORS}/a": sensor("a", "P12V", 12.1),
            f"{SENSORS}/b": sensor("b", "P54V", 54.2),
        }
    )


def at(path: str) -> dict[str, Any]:
    return {"@odata.id": path}


def sensor(key: str, name: str, value: Any, **more: Any) -> dict[str, Any]:
    return {**at(f"{SENSORS}/{key}"), "Name": name, "Reading": value, "ReadingUnits": "V", **more}


@contextmanager
def opened(tree: Tree, clock: FakeClock | None = None) -> Iterator[RedfishLink]:
    with served(tree) as port:
        link = link_of(port, clock)
        link.open()
        yield link
        link.close()


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


def test_what_this_user_may_not_read_is_left_out_and_said(tree: Tree, caplog: pytest.LogCaptureFixture) -> None:
    tree.status[f"{SENSORS}/a"] = 403
    with opened(tree) as link:
        assert dict(link.read()) == {f"{SENSORS}/b": 54.2}
    assert "1 resources are left out, the last one: " in caplog.text
    assert "may not read it (HTTP 403)" in caplog.text


def test_a_user_who_is_refused_later_is_asked_for_once_a_round_and_not_for_each_sensor(
    tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IPMI_PASSWORD", PASSWORD)
    tree.wants_login = True
    with served(tree) as port:
        link = link_of(port, user=USER)
        link.open()
        tree.tokens.clear()
        monkeypatch.setenv("IPMI_PASSWORD", "changed meanwhile")
        tree.asked.clear()
        with pytest.raises(NotPermittedError, match="refuses user or password"):
            link.read()
        assert [how for how, _ in tree.asked].count("POST") == 1
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
        tree.asked.clear()
        assert link.read()[f"{SENSORS}/b"] == 54.2
        assert len(tree.asked) == 1
        del members[0]
        assert math.isnan(link.read()[f"{SENSORS}/a"])


def test_a_reading_that_the_service_itself_no_longer_renews_is_absent(tree: Tree) -> None:
    tree.resources[f"{SENSORS}/a"]["ReadingTime"] = "2026-01-01T00:00:00Z"
    tree.resources[f"{SENSORS}/b"]["ReadingTime"] = "2026-01-01T00:02:00Z"
    with opened(tree) as link:
        values = link.read()
    assert math.isnan(values[f"{SENSORS}/a"])
    assert values[f"{SENSORS}/b"] == 54.2
    assert values[NEWEST] > 0


def test_a_slow_round_ends_in_time_and_the_next_goes_on_where_it_stopped(tree: Tree) -> None:
    clock = FakeClock()
    with opened(tree, clock) as link:
        tree.asked.clear()
        original = clock.monotonic_s
        clock.monotonic_s = lambda: (clock.advance(20.0), original())[1]  # type: ignore[method-assign, func-returns-value]
        for _ in range(3):
            assert link.read().keys() == {f"{SENSORS}/a", f"{SENSORS}/b"}
    asked = [path for _, path in tree.asked]
    assert asked == [f"{SENSORS}/a", f"{SENSORS}/b", f"{SENSORS}/a"]


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


class TestOfTheLog:
    NOW_S = 1_767_225_600  # 2026-01-01T00:00:00Z

    @pytest.fixture
    def logging(self, tree: Tree) -> Tree:
        services, entries = f"{ROOT}Managers/1/LogServices", f"{LOG}/Entries"
        tree.resources |= {
            f"{ROOT}Managers": {"Members": [at(f"{ROOT}Managers/1")]},
            f"{ROOT}Managers/1": {**at(f"{ROOT}Managers/1"), "LogServices": at(services)},
            services: {"Members": [at(f"{services}/Dump"), at(LOG)]},
            f"{services}/Dump": {**at(f"{services}/Dump"), "Id": "Dump", "Entries": at(f"{services}/Dump/Entries")},
            LOG: {**at(LOG), "Id": "SEL", "DateTime": "2025-06-01T00:01:00+00:00", "Entries": at(entries)},
            entries: {"Members": [logged(1, "old", "2025-05-01T00:00:00Z")]},
        }
        return tree

    @pytest.fixture
    def clock(self) -> FakeClock:
        return FakeClock(utc_ns=self.NOW_S * NS_PER_S)

    def test_new_entries_are_told_once_by_our_clock(self, logging: Tree, clock: FakeClock) -> None:
        with opened(logging, clock) as link:
            assert link.new_entries() == ()
            add(logging, 2, "PSU2: Power supply input (AC) lost", "2025-06-01T00:00:50Z", Severity="Critical")
            (entry,) = link.new_entries()
            assert (entry.kind, entry.unit, entry.severity) == (EventKind.SUPPLY, "psu2", Severity.CRITICAL)
            assert entry.time_ns == (self.NOW_S - 10) * NS_PER_S
            assert link.new_entries() == ()

    def test_a_log_that_was_cleared_is_told_anew(self, logging: Tree, clock: FakeClock) -> None:
        with opened(logging, clock) as link:
            logging.resources[f"{LOG}/Entries"] = {"Members": []}
            assert link.new_entries() == ()
            add(logging, 1, "Fan 3 failed", "2025-06-01T00:00:58Z", Severity="Warning")
            (entry,) = link.new_entries()
            assert (entry.kind, entry.unit) == (EventKind.FAN, "fan-3")

    def test_further_pages_and_members_that_are_only_links_are_followed(self, logging: Tree, clock: FakeClock) -> None:
        entries = f"{LOG}/Entries"
        with opened(logging, clock) as link:
            logging.resources[entries] |= {"Members@odata.nextLink": f"{entries}?$skip=1"}
            logging.resources[f"{entries}?$skip=1"] = {"Members": [at(f"{entries}/9")]}
            logging.resources[f"{entries}/9"] = logged(9, "CPU temperature too high", "2025-06-01T00:00:00Z")
            (entry,) = link.new_entries()
            assert entry.kind is EventKind.BOARD_HEAT

    def test_an_entry_without_a_time_or_a_message_is_told_as_it_is(self, logging: Tree, clock: FakeClock) -> None:
        with opened(logging, clock) as link:
            add(logging, 5, None, "nonsense")
            (entry,) = link.new_entries()
            assert entry.time_ns == clock.utc_ns()
            assert entry.message == "entry without a message"

    def test_a_failure_skips_nothing_and_is_said_once(
        self, logging: Tree, clock: FakeClock, caplog: pytest.LogCaptureFixture
    ) -> None:
        with opened(logging, clock) as link:
            add(logging, 2, "PSU2 failed", "2025-06-01T00:00:50Z")
            logging.status[LOG] = 503
            for _ in range(2):
                assert link.new_entries() == ()
            del logging.status[LOG]
            found: tuple[LogEntry, ...] = link.new_entries()
            assert len(found) == 1
        assert [record.getMessage().split(":")[0] for record in caplog.records] == ["the event log cannot be read"]

    @pytest.mark.parametrize("status", [403, 404, 500])
    def test_a_log_that_cannot_be_read_takes_no_sensor_with_it(
        self, logging: Tree, clock: FakeClock, status: int
    ) -> None:
        logging.status[f"{LOG}/Entries"] = status
        with opened(logging, clock) as link:
            assert link.new_entries() == ()
            assert link.read()[f"{SENSORS}/a"] == 12.1
            del logging.status[f"{LOG}/Entries"]
            assert link.new_entries() == (), "what is there when it is first read is old"
            add(logging, 2, "PSU2 failed", "2025-06-01T00:00:50Z")
            assert len(link.new_entries()) == 1

    def test_a_service_s_log_that_this_user_may_not_see_hides_no_other(self, logging: Tree, clock: FakeClock) -> None:
        logging.status[f"{ROOT}Managers/1/LogServices/Dump"] = 403
        with opened(logging, clock) as link:
            add(logging, 2, "PSU2 failed", "2025-06-01T00:00:50Z")
            assert len(link.new_entries()) == 1

    def test_entries_that_are_only_links_are_fetched_once_each_and_told_anew_after_a_clear(
        self, logging: Tree, clock: FakeClock
    ) -> None:
        entries = f"{LOG}/Entries"

        def show(*numbers: int) -> None:
            logging.resources[entries] = {"Members": [at(f"{entries}/{n}") for n in numbers]}
            logging.resources |= {f"{entries}/{n}": logged(n, "PSU2 failed", "2025-06-01T00:00:50Z") for n in numbers}

        show(1, 2)
        with opened(logging, clock) as link:
            show(1, 2, 3)
            logging.asked.clear()
            for told in (1, 0, 0):
                assert len(link.new_entries()) == told
            fetched = [path for _, path in logging.asked if path.startswith(f"{entries}/")]
            assert fetched == [f"{entries}/3"]
            show(1)
            assert len(link.new_entries()) == 1


def logged(number: int, message: Any, created: str, **more: Any) -> dict[str, Any]:
    return {**at(f"{LOG}/Entries/{number}"), "Id": str(number), "Message": message, "Created": created, **more}


def add(tree: Tree, number: int, message: Any, created: str, **more: Any) -> None:
    entries = tree.resources[f"{LOG}/Entries"]
    tree.resources[f"{LOG}/Entries"] = {"Members": [*entries["Members"], logged(number, message, created, **more)]}
