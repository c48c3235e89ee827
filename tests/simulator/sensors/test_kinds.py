import re
from pathlib import Path

import pytest

from simulator.files.loading import names_in
from simulator.files.node import NODES, load_node
from simulator.files.scenario import load_scenario
from simulator.files.sensing import check_sensor, check_value, sensor_labels
from simulator.files.sensor import SENSORS, load_sensor
from simulator.sensors.instrument_builder import Role, kind_for
from telemetry.errors import ConfigError

NUMBER = re.compile(r":\s*-?\d")


@pytest.mark.parametrize("name", sorted(path.stem for path in SENSORS.glob("*.yaml")))
def test_every_number_of_a_kind_has_a_source_or_states_that_it_is_assumed(name: str) -> None:
    assert load_sensor(name).name == name
    for line in (SENSORS / f"{name}.yaml").read_text(encoding="utf-8").splitlines():
        if NUMBER.search(line.partition("#")[0]):
            assert re.search(r"# (source|assumption|fit): \S", line), line


@pytest.mark.parametrize("name", names_in(NODES))
def test_the_sensors_of_every_node_exist(name: str) -> None:
    assert "gpu0.power_w" in sensor_labels(load_node(name))


def test_redfish_shows_what_the_controller_measures() -> None:
    assert load_sensor("redfish").channels == load_sensor("ipmi").channels


@pytest.mark.parametrize(
    ("role", "changes", "reported"),
    [
        (Role.RAIL, "channels: {wind_ms: {}}", "channels: got wind_ms; expected for the rail voltage_v, current_a"),
        (Role.RAIL, "channels: {current_a: {period: 50ms}}", "channels: several periods; expected for the rail"),
        (Role.INLET, "channels: {inlet_temp_c: {}}", "channels: got voltage_v; expected for the inlet inlet_temp_c"),
        (Role.BMC, "period: 1s", "channels: no rail_voltage_v; expected for the bmc"),
    ],
)
def test_a_kind_that_measures_something_else_than_its_role_wants_is_refused(
    tmp_path: Path, role: Role, changes: str, reported: str
) -> None:
    path = tmp_path / "odd.yaml"
    path.write_text(f"extends: ina228\nname: odd\n{changes}\n", encoding="utf-8")
    with pytest.raises(ConfigError) as refused:
        kind_for(role, str(path))
    assert reported in str(refused.value)


def test_a_name_stands_for_one_sensor_or_for_all_of_a_kind() -> None:
    node = load_node("v100x4")
    assert check_sensor("gpu2.power_w", node) == ("gpu2.power_w",)
    assert len(check_sensor("gpus.power_w", node)) == 4
    assert check_sensor("supplies.current_a", node) == ("psu0.current_a", "psu1.current_a")
    assert check_sensor("exporter", node) == ("exporter",)


@pytest.mark.parametrize("name", ["gpu4.power_w", "gpu0.volts", "psu9.voltage_v", "node.outlet_temp_c", "fans.fan_rpm"])
def test_a_stranger_among_the_sensors_is_refused_with_what_there_is(name: str) -> None:
    with pytest.raises(ValueError, match=r"a sensor of|such as gpu0\.power_w"):
        check_sensor(name, load_node("v100x4"))


@pytest.mark.parametrize(
    ("name", "fault", "value"),
    [("exporter", "stuck", None), ("gpu0.power_w", "gain", None), ("gpu0.power_w", "loss", 1.5)],
)
def test_a_fault_whose_value_does_not_fit_is_refused(name: str, fault: str, value: float | None) -> None:
    with pytest.raises(ValueError, match=r"fault"):
        check_value(name, fault, value)


def test_an_unknown_sensor_in_a_scenario_is_reported_with_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "odd.yaml"
    path.write_text(
        "name: odd\ndescription: odd\nsensor_faults:\n  - {at: 1s, sensor: gpu7.power_w, fault: stuck}\n"
        "  - {at: 1s, sensor: gpu0.power_w, fault: gain}\n",
        encoding="utf-8",
    )
    with pytest.raises(ConfigError) as refused:
        load_scenario(str(path), load_node("v100x4"))
    assert [(problem.line, problem.key) for problem in refused.value.problems] == [
        (4, "sensor_faults[0].sensor"),
        (5, "sensor_faults[1].fault"),
    ]


def test_a_period_that_the_plant_cannot_keep_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "odd.yaml"
    path.write_text("extends: ina228\nname: odd\nperiod: 15ms\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="a multiple of 10ms"):
        load_sensor(str(path))
