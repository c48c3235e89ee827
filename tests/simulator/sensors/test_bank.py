import numpy as np
import pytest

from simulator.files.node import NodeFile, load_node
from simulator.files.scenario import ScenarioFile
from simulator.plant.state import CountArray
from simulator.sensors.bank import SensorBank
from tests.simulator.sensors.truths import state_of, stretch_of

QUIET = ScenarioFile(name="quiet", description="")


def node_with(**sensors: str | None) -> NodeFile:
    node = load_node("v100x4")
    return node.model_copy(update={"sensors": node.sensors.model_copy(update=sensors)})


def faulty(**fault: object) -> ScenarioFile:
    return ScenarioFile.model_validate({"name": "faulty", "description": "", "sensor_faults": [fault]})


def advance(bank: SensorBank, node: NodeFile, *, until_ms: int, start_ms: int = 0) -> None:
    state = state_of(node)
    for begin_ms in range(start_ms, until_ms, 10):
        bank.advance(stretch_of(node, begin_ms), state)


def rail_at_ms(bank: SensorBank) -> CountArray:
    assert bank.rail.fast is not None
    return bank.rail.fast.at_ms


def shown(bank: SensorBank) -> list[list[float]]:
    parts = (
        bank.driver.power.shown,
        bank.driver.gpu_temp_c,
        bank.driver.hbm_temp_c,
        bank.rail.voltage_v,
        bank.rail.current_a,
    )
    return [part.tolist() for part in parts]


def test_nothing_is_known_before_the_first_block_and_everything_after_it() -> None:
    node = node_with(bmc="ipmi")
    bank = SensorBank(node, QUIET, 1)
    assert np.isnan(bank.driver.power.shown).all()
    assert bank.bmc is None
    advance(bank, node, until_ms=10)
    assert not np.isnan(shown(bank)[0]).any()
    assert bank.bmc is not None
    assert bank.gpu_answers.all()


def test_the_same_seed_returns_the_same_readings_and_another_one_others() -> None:
    node = node_with(bmc="redfish")
    banks = [SensorBank(node, QUIET, seed) for seed in (1, 1, 2)]
    for bank in banks:
        advance(bank, node, until_ms=500)
    assert shown(banks[0]) == shown(banks[1])
    assert shown(banks[0]) != shown(banks[2])


def test_a_stretch_of_several_blocks_is_read_block_by_block() -> None:
    node = load_node("v100x4")
    whole, cut = SensorBank(node, QUIET, 1), SensorBank(node, QUIET, 1)
    state = state_of(node)
    whole.advance(stretch_of(node, 0, n_ms=200), state)
    advance(cut, node, until_ms=200)
    assert shown(whole) == shown(cut)


def test_temperatures_are_whole_degrees_and_readings_lie_near_the_truth() -> None:
    node = load_node("v100x4")
    bank = SensorBank(node, QUIET, 4)
    advance(bank, node, until_ms=2000)
    assert (bank.driver.gpu_temp_c == np.rint(bank.driver.gpu_temp_c)).all()
    assert np.abs(bank.driver.gpu_temp_c - 50.0).max() <= 1.5
    assert 0.01 < np.abs(bank.driver.power.shown / 300.0 - 1.0).max() <= 0.05 + 1e-4
    assert bank.driver.hbm_temp_c == pytest.approx([53.0] * 4, abs=1.5)
    assert bank.driver.mem_util_ratio.tolist() == [0.6] * 4
    assert np.abs(bank.rail.voltage_v - 12.06).max() < 0.03
    assert bank.driver.average.shown is bank.driver.power.shown
    assert bank.inlet_c == pytest.approx(22.2, abs=0.7)


def test_hopper_shows_a_second_as_its_power_usage_beside_the_newest_window() -> None:
    node = load_node("h100x8")
    assert node.gpu.sensor.average_window_ms == 1000
    bank = SensorBank(node, QUIET, 1)
    state = state_of(node)
    for start_ms in range(0, 2000, 10):
        bank.advance(stretch_of(node, start_ms, power_w=200.0), state)
    for start_ms in range(2000, 2500, 10):
        bank.advance(stretch_of(node, start_ms, power_w=600.0), state)
    gain = bank.driver.power.shown / 600.0
    assert np.abs(gain - 1.0).max() <= 0.05 + 1e-4
    assert bank.driver.average.shown == pytest.approx(gain * 380.0, rel=0.12)


def test_a_lost_gpu_does_not_answer_and_the_others_go_on() -> None:
    node = load_node("v100x4")
    bank = SensorBank(node, QUIET, 1)
    advance(bank, node, until_ms=500)
    state = state_of(node)
    state.gpus.present[2] = False
    state.gpus.die_c[:] = 70.0
    for start_ms in range(500, 1000, 10):
        bank.advance(stretch_of(node, start_ms), state)
    assert (bank.driver.gpu_temp_c > 60.0).tolist() == [True, True, False, True]
    assert bank.gpu_answers.tolist() == [True, True, False, True]
    assert bank.driver.power.at_ms[2] <= 500 < bank.driver.power.at_ms[[0, 1, 3]].min()


def test_the_clock_of_each_kind_of_sensor_is_off_by_some_milliseconds() -> None:
    banks = [SensorBank(load_node("v100x4"), QUIET, seed) for seed in range(60)]
    skews_ms = np.array([[bank.driver.power.skew_ms, bank.rail.fast.skew_ms] for bank in banks if bank.rail.fast])
    assert skews_ms.std(axis=0) == pytest.approx([4.8, 4.8], abs=1.2)
    assert np.abs(skews_ms).max() <= 10
    assert (skews_ms[:, 0] != skews_ms[:, 1]).mean() > 0.7


def test_a_dead_exporter_silences_all_gpus_while_the_rail_is_still_measured() -> None:
    node = load_node("v100x4")
    bank = SensorBank(node, faulty(at="200ms", sensor="exporter", fault="dead", last="300ms"), 1)
    advance(bank, node, until_ms=400)
    assert not bank.exporter_alive
    assert not bank.gpu_answers.any()
    assert rail_at_ms(bank).min() > 380
    advance(bank, node, start_ms=400, until_ms=600)
    assert bank.gpu_answers.all()


def test_a_fault_of_one_signal_leaves_all_others_alone() -> None:
    node = load_node("v100x4")
    bank = SensorBank(node, faulty(at="0s", sensor="psu1.voltage_v", fault="offset", value=-1.0), 1)
    advance(bank, node, until_ms=100)
    assert bank.rail.voltage_v.tolist() == pytest.approx([12.06, 11.06], abs=0.05)
    assert bank.rail.current_a == pytest.approx([60.0, 60.0], rel=0.02)


def test_a_node_without_sensors_shows_nothing_of_its_rail() -> None:
    node = node_with(rail=None, inlet=None, bmc=None)
    bank = SensorBank(node, QUIET, 1)
    advance(bank, node, until_ms=100)
    assert np.isnan(bank.rail.voltage_v).all()
    assert np.isnan(bank.inlet_c)
    assert bank.bmc is None


def test_the_boards_controller_reports_eight_bits_every_five_seconds() -> None:
    node = node_with(bmc="ipmi", inlet=None)
    bank = SensorBank(node, QUIET, 3)
    rounds = set()
    state = state_of(node)
    for start_ms in range(0, 20_000, 10):
        bank.advance(stretch_of(node, start_ms), state)
        assert bank.bmc is not None
        rounds.add(bank.bmc.at_ms)
    assert len(rounds) == 5
    assert bank.bmc is not None
    steps = bank.bmc.rail_v / 0.063
    assert steps == pytest.approx(round(steps))
    assert bank.bmc.rail_v == pytest.approx(12.06, abs=0.16)
    assert bank.inlet_c == bank.bmc.inlet_c
    assert bank.bmc.psu_ok.all()
    assert len(bank.bmc.fan_rpm) == node.cooling.fans


def test_supplies_report_their_own_output_over_pmbus() -> None:
    node = node_with(rail="pmbus")
    bank = SensorBank(node, QUIET, 3)
    state = state_of(node)
    state.supplies.output_v[:] = 13.0
    for start_ms in range(0, 1000, 10):
        bank.advance(stretch_of(node, start_ms, voltage_v=12.0), state)
    assert bank.rail.voltage_v == pytest.approx([13.0, 13.0], rel=0.015)
    assert bank.rail.shown["input_voltage_v"] == pytest.approx([120.0, 120.0], rel=0.02)
    assert "joint_temp_c" not in bank.rail.shown
    assert bank.rail.shown["power_w"] == pytest.approx([13.0 * 60.0] * 2, rel=0.03)


def test_the_sensors_of_a_node_that_is_off_are_not_read() -> None:
    node = load_node("v100x4")
    bank = SensorBank(node, QUIET, 1)
    advance(bank, node, until_ms=100)
    state = state_of(node)
    state.powered = False
    state.inlet_c, state.supplies.joint_c[:] = 60.0, 90.0
    for start_ms in range(100, 2300, 10):
        bank.advance(stretch_of(node, start_ms), state)
    assert bank.inlet_c < 23.0
    assert bank.rail.shown["joint_temp_c"].max() < 46.0
    assert rail_at_ms(bank).max() <= 100
    assert not bank.gpu_answers.any()


@pytest.mark.parametrize("name", ["a100x8", "h100x8", "b200x8"])
def test_the_controller_of_a_node_can_report_what_its_bus_and_power_reach(name: str) -> None:
    node = load_node(name)
    bank = SensorBank(node, QUIET, 1)
    state = state_of(node)
    bus_v = node.supply.units[0].open_circuit_v
    state.node_power_w = sum(unit.rated_w for unit in node.supply.units) / 2.0
    bank.advance(stretch_of(node, 0, voltage_v=bus_v), state)
    assert bank.bmc is not None
    assert bank.bmc.rail_v == pytest.approx(bus_v, rel=0.03)
    assert bank.bmc.node_power_w == pytest.approx(state.node_power_w, rel=0.03)


def test_the_controller_reports_input_and_output_of_each_supply() -> None:
    node = node_with(bmc="ipmi")
    bank = SensorBank(node, QUIET, 1)
    bank.advance(stretch_of(node, 0), state_of(node))
    assert bank.bmc is not None
    assert bank.bmc.psu_input_v == pytest.approx([120.0] * 2, rel=0.02)
    assert bank.bmc.psu_output_v == pytest.approx([12.2] * 2, rel=0.02)
    assert bank.bmc.psu_output_a == pytest.approx([60.0] * 2, rel=0.03)


def test_a_driver_that_is_not_loaded_answers_for_no_gpu() -> None:
    node = load_node("v100x4")
    bank = SensorBank(node, QUIET, 1)
    state = state_of(node)
    state.driver_loaded = False
    bank.advance(stretch_of(node, 0), state)
    assert not bank.gpu_answers.any()
    assert bank.exporter_alive
