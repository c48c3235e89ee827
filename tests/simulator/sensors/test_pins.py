"""Pins of simulated cards: how the current splits, what their monitor shows, and what is served of it."""

from pathlib import Path

import numpy as np
import pytest

from agent.collectors.hwmon.pins import PinTable, assigned, pin_devices
from simulator.files.node import NodeFile, load_node
from simulator.files.scenario import ScenarioFile, load_scenario
from simulator.files.workload import load_workload
from simulator.plant.plant import BLOCK_MS, Plant
from simulator.runs.node_run import record_run
from simulator.runs.order import RunOrder
from simulator.sensors.bank import SensorBank
from simulator.sensors.pins import connector_of, pins_of
from simulator.served.server import PlantServer
from telemetry.clock import SystemClock
from telemetry.errors import ConfigError
from telemetry.frames import joined_frames
from telemetry.gpu import GpuIdentity
from telemetry.recording import read_recording

NODE = load_node("rtx5090x2")
CONNECTOR = connector_of(NODE)
SOUND = np.zeros((2, 6))
POWER_W, BUS_V = np.full((1, 2), 575.0), np.full((1, 2), 12.04)


def test_the_pins_of_a_card_at_its_limit_are_those_of_the_recordings() -> None:
    volts, amperes = pins_of(CONNECTOR, power_w=POWER_W, bus_v=BUS_V, gained_mohm=SOUND)
    shares = amperes[0, 0] / amperes[0, 0].sum()
    np.testing.assert_allclose(shares, [0.1585, 0.1623, 0.1717, 0.1642, 0.1774, 0.1659], atol=0.0003)
    assert amperes[0, 0].sum() == pytest.approx(0.99 * 575.0 / 12.04)
    assert np.ptp(volts[0, 0]) < 0.001
    # 15 milliohm a path, six side by side, less the shunt behind the point that is measured.
    assert 12.04 - volts[0, 0].mean() == pytest.approx(47.3 * 0.0145 / 6, rel=0.02)


def test_an_open_pin_carries_nothing_and_the_others_its_share() -> None:
    gained = SOUND.copy()
    gained[0, 2] = 1e9
    volts, amperes = pins_of(CONNECTOR, power_w=POWER_W, bus_v=BUS_V, gained_mohm=gained)
    _, before = pins_of(CONNECTOR, power_w=POWER_W, bus_v=BUS_V, gained_mohm=SOUND)
    assert amperes[0, 0, 2] == pytest.approx(0.0, abs=1e-4)
    assert amperes[0, 0].sum() == pytest.approx(before[0, 0].sum())
    np.testing.assert_allclose(np.delete(amperes[0, 0] / before[0, 0], 2), 1.207, atol=0.002)
    np.testing.assert_array_equal(amperes[0, 1], before[0, 1])
    assert volts[0, 0, 2] < volts[0, 0, 3]


def test_the_whole_supply_path_of_a_card_is_that_of_the_recordings() -> None:
    """4.8 milliohm from the open circuit to the pins, with the other card idle."""
    unit = NODE.supply.units[0]
    pins_mohm = 1.0 / sum(1.0 / path for path in CONNECTOR.pins_mohm)
    assert unit.branch_mohm + NODE.supply.bus_mohm + pins_mohm == pytest.approx(4.78, abs=0.15)


def bank_after(scenario: ScenarioFile, seconds: float, *, node: NodeFile = NODE) -> tuple[SensorBank, Plant]:
    plant, bank = Plant(node, scenario, 1, workload=load_workload("burn")), SensorBank(node, scenario, 1)
    for _ in range(round(seconds * 1000 / BLOCK_MS)):
        bank.advance(plant.advance(BLOCK_MS), plant.state)
    return bank, plant


def test_the_monitor_shows_the_pins_in_its_steps_five_times_a_second() -> None:
    bank, _ = bank_after(load_scenario("healthy", NODE), 1.0)
    assert bank.pins is not None
    np.testing.assert_allclose(bank.pins.voltage_v / 0.008, np.round(bank.pins.voltage_v / 0.008), atol=1e-6)
    np.testing.assert_allclose(bank.pins.current_a / 0.02, np.round(bank.pins.current_a / 0.02), atol=1e-6)
    assert (bank.pins.current_a.sum(axis=1) > 40.0).all()
    assert len(set(bank.pins.instrument.at_ms.tolist())) == 1, "all pins are of one moment"


def test_a_scenario_opens_a_pin_and_ages_another() -> None:
    sooner = [{"at": 0.0}, {"at": 0.0, "over": 1.0}]
    for name, gpu, pin, update in (("pin-open", 0, 2, sooner[0]), ("pin-ageing", 1, 4, sooner[1])):
        scenario = load_scenario(name, NODE)
        changes = tuple(change.model_copy(update=update) for change in scenario.changes)
        bank, plant = bank_after(scenario.model_copy(update={"changes": changes}), 2.0)
        assert bank.pins is not None
        assert plant.state.gpus.pin_mohm[gpu, pin] >= 8.0
        lowest = bank.pins.current_a[gpu].argmin()
        assert lowest == pin
        assert bank.pins.current_a[1 - gpu].argmin() != pin


def test_pins_need_a_node_with_a_connector(tmp_path: Path) -> None:
    bare = load_node("v100x4")
    assert SensorBank(bare, load_scenario("healthy", bare), 1).pins is None
    with pytest.raises(ValueError, match="no connector"):
        connector_of(bare)
    path = tmp_path / "mine.yaml"
    path.write_text("extends: v100x4\nname: mine\nsensors: {pins: astral12vhpwr}\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"a connector where sensors\.pins measures one"):
        load_node(str(path))


def test_a_monitor_that_sticks_is_named_by_all_its_pins(tmp_path: Path) -> None:
    path = tmp_path / "stuck.yaml"
    text = "name: stuck\ndescription: d\nsensor_faults:\n  - {at: 1s, sensor: gpu0.pins, fault: stuck}\n"
    path.write_text(text, encoding="utf-8")
    bank, _ = bank_after(load_scenario(str(path), NODE), 1.5)
    assert bank.pins is not None
    held = bank.pins.current_a.copy()
    again, _ = bank_after(load_scenario(str(path), NODE), 3.0)
    assert again.pins is not None
    np.testing.assert_array_equal(again.pins.current_a[0], held[0])
    assert (again.pins.current_a[1] != held[1]).any()


def test_a_recording_has_each_reading_of_the_pins_and_ends_those_of_a_lost_card(tmp_path: Path) -> None:
    path = tmp_path / "lost.yaml"
    path.write_text("name: lost\ndescription: d\nchanges: [{at: 2s, what: gpu1.present, to: 0}]\n", encoding="utf-8")
    order = RunOrder(
        node=NODE, scenario=load_scenario(str(path), NODE), workload=load_workload("burn"), seed=1, duration_s=4.0
    )
    record_run(order, tmp_path / "run.parquet")
    recording = read_recording(tmp_path / "run.parquet")
    frame = joined_frames([one for one in recording.frames() if one.spec.name == "gpu_pins"])
    fresh = frame.fresh[:, 0, :].all(axis=1)
    assert fresh.sum() == pytest.approx(20, abs=1)
    assert np.isfinite(frame.values[-1, 0]).all()
    assert np.isnan(frame.values[-1, 1]).all()


def test_a_served_card_has_the_files_of_its_driver_and_the_collector_reads_them(tmp_path: Path) -> None:
    server = PlantServer(
        NODE,
        load_scenario("healthy", NODE),
        seed=1,
        run_dir=tmp_path,
        clock=SystemClock(),
        workload=load_workload("burn"),
    )
    try:
        server.advance(500)
        root = tmp_path / "sys"
        devices = pin_devices(root)
        assert [one.pci for one in devices] == [slot.pci for slot in NODE.slots]
        assert (devices[0].folder / "name").read_text(encoding="utf-8") == "astral12vhpwr\n"
        assert (devices[0].folder / "update_interval").read_text(encoding="utf-8") == "200\n"
        assert (devices[0].folder / "curr6_label").read_text(encoding="utf-8") == "12VHPWR Pin6 Current\n"
        assert (devices[0].folder / "device").resolve().is_dir()
        found = assigned(devices, _identities(), wireview_gpu="")
        collector = PinTable(found.monitors, root)
        values = np.empty(collector.spec.shape)
        collector.read(values)
        assert server.bank.pins is not None
        np.testing.assert_allclose(values[:, 6:], server.bank.pins.current_a, atol=0.001)
        collector.close()
    finally:
        server.close()


def _identities() -> tuple[GpuIdentity, ...]:
    return tuple(
        GpuIdentity(
            uuid=NODE.gpu_uuid(index), index=index, name=NODE.gpu.name, pci=slot.pci, serial=None, driver_version="580"
        )
        for index, slot in enumerate(NODE.slots)
    )
