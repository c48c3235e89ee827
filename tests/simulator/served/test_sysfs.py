"""The sysfs tree of other nodes than the four-GPU box, and what happens when things go and come back."""

from pathlib import Path

import numpy as np
import pytest

from agent.collectors.hwmon.tree import find_inlet, survey_rails
from simulator.files.node import load_node
from simulator.served.pci_tree import PciTree
from simulator.served.sysfs_tree import Attribute, HwmonTree
from telemetry.entities import NominalSource
from tests.simulator.served.board.boards import NODE
from tests.simulator.served_plant import served_plant


def text(path: Path) -> str:
    return path.read_text(encoding="utf-8").strip()


def test_a_supply_on_pmbus_has_the_labels_of_the_kernels_driver(tmp_path: Path) -> None:
    sensors = NODE.sensors.model_copy(update={"rail": "pmbus"})
    with served_plant(tmp_path, node=NODE.model_copy(update={"sensors": sensors})) as plant:
        plant.advance(1000)
        device = plant.served.sysfs_root / "class/hwmon/hwmon1"
        labels = {path.name: text(path) for path in device.glob("*_label")}
        assert labels == {"in1_label": "vin", "in2_label": "vout1", "curr1_label": "iout1", "power1_label": "pout1"}
        volts, amps = int(text(device / "in2_input")) / 1e3, int(text(device / "curr1_input")) / 1e3
        assert volts == np.round(plant.bank.rail.voltage_v[1], 3)
        assert abs(int(text(device / "power1_input")) / 1e6 - volts * amps) < 1.0
        assert 100_000 < int(text(device / "in1_input")) < 140_000
        assert int(text(device / "power1_rated_max")) == NODE.supply.units[1].rated_w * 1e6
        rails = survey_rails(plant.served.sysfs_root).rails
        assert [rail.nominal_from for rail in rails] == [NominalSource.LIMITS] * 2
        assert all(rail.current is not None for rail in rails)


@pytest.mark.parametrize("name", ["h100x8", "h100x8-orv3"])
def test_the_alarm_limits_of_a_supply_on_pmbus_name_its_nominal_voltage(tmp_path: Path, name: str) -> None:
    node = load_node(name)
    HwmonTree(tmp_path, node).close()
    device = tmp_path / "class/hwmon/hwmon0"
    (device / "in2_input").write_text("0\n")  # off: its reading names nothing
    (device / "curr1_input").write_text("0\n")
    assert survey_rails(tmp_path).implausible == ("pmbus-hwmon0 reads 0 V",)
    (device / "in2_input").write_text(f"{round(node.supply.units[0].open_circuit_v * 1e3)}\n")
    (rail,) = survey_rails(tmp_path).rails
    assert (rail.rail_class.nominal_v, rail.nominal_from) == (node.supply.nominal_rail_v, NominalSource.LIMITS)


def test_the_agents_own_search_finds_every_rail_and_the_inlet(tmp_path: Path) -> None:
    with served_plant(tmp_path) as plant:
        assert [rail.key for rail in survey_rails(plant.served.sysfs_root).rails] == ["psu0", "psu1"]
        inlet = find_inlet(plant.served.sysfs_root)
        assert inlet is not None
        assert 15_000 < int(text(inlet)) < 30_000


def test_a_shunt_monitor_knows_no_rating(tmp_path: Path) -> None:
    with served_plant(tmp_path) as plant:
        assert not list((plant.served.sysfs_root / "class/hwmon").glob("*/*rated_max"))


def test_a_node_without_monitors_has_no_hwmon_devices(tmp_path: Path) -> None:
    bare = NODE.sensors.model_copy(update={"rail": None, "inlet": None})
    HwmonTree(tmp_path, NODE.model_copy(update={"sensors": bare})).close()
    assert list((tmp_path / "class/hwmon").iterdir()) == []


def test_a_value_that_is_not_there_has_no_file_until_it_is_back(tmp_path: Path) -> None:
    attribute = Attribute(tmp_path / "in0_input")
    attribute.show(12.0, per=1e3)
    assert text(tmp_path / "in0_input") == "12000"
    attribute.show(float("nan"))
    assert not (tmp_path / "in0_input").exists()
    attribute.show(11.5, per=1e3)
    assert text(tmp_path / "in0_input") == "11500"
    attribute.close()


def test_a_gpu_states_what_it_is_and_how_it_is_linked(tmp_path: Path) -> None:
    with served_plant(tmp_path, node=load_node("h100x8")) as plant:
        device = plant.served.sysfs_root / "bus/pci/devices" / plant.plant.node.slots[0].pci
        assert text(device / "vendor") == "0x10de"
        assert text(device / "current_link_speed") == "32.0 GT/s PCIe"
        assert text(device / "max_link_width") == "16"
        assert (device / "config").read_bytes()[:2] == b"\xde\x10"
        port = device.resolve().parent
        assert port.name == "0000:1a:00.0"
        assert text(port / "class") == "0x060400"
        assert (port / "config").read_bytes()[0x0E] == 1  # a bridge


def test_counters_move_and_a_gpu_that_comes_back_starts_again(tmp_path: Path) -> None:
    with served_plant(tmp_path / "plant") as plant:
        gpus = plant.plant.state.gpus
        tree = PciTree(tmp_path / "sys", plant.plant.node)
        tree.show(gpus)
        device = tmp_path / "sys/bus/pci/devices/0000:1c:00.0"
        gpus.aer_correctable[1], gpus.aer_fatal[1] = 3, 1
        tree.show(gpus)
        correctable, fatal = text(device / "aer_dev_correctable"), text(device / "aer_dev_fatal")
        assert "Timeout 3" in correctable
        assert "TOTAL_ERR_COR 3" in correctable
        assert "SDES 1" in fatal
        assert "TOTAL_ERR_FATAL 1" in fatal
        port = device.resolve().parent
        assert [text(port / f"aer_rootport_total_err_{kind}") for kind in ("cor", "nonfatal", "fatal")] == [
            "3",
            "0",
            "1",
        ]
        gpus.present[1] = False
        gpus.aer_fatal[1] = 2
        tree.show(gpus)
        assert not device.is_symlink()
        assert text(port / "aer_rootport_total_err_fatal") == "2"  # the port is still there and counts on
        gpus.present[1], gpus.aer_correctable[1], gpus.aer_fatal[1] = True, 0, 0
        tree.show(gpus)
        assert "TOTAL_ERR_COR 0" in text(device / "aer_dev_correctable")
        assert [path.name for path in (tmp_path / "sys").iterdir() if path.name.startswith(("new", "removed"))] == []
