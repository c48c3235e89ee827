from collections.abc import Sequence

import numpy as np
import pytest

from simulator.files.node import NodeFile, load_node
from simulator.files.scenario import ScenarioFile, SensorFault
from simulator.fleet.fleet import Fleet
from simulator.fleet.stretch import FleetSamples, FleetStretch

NODE = load_node("v100x4")
HOURS = 6


def run(node: NodeFile = NODE, *faults: dict[str, object], count: int = 1) -> FleetStretch:
    checked: Sequence[SensorFault] = [SensorFault.model_validate({"at": "3h", **fault}) for fault in faults]
    scenario = ScenarioFile(name="faults", description="A sensor goes wrong.", sensor_faults=tuple(checked))
    return Fleet([node] * count, scenario, seed=3).advance(HOURS)


def samples(node: NodeFile = NODE, *faults: dict[str, object]) -> FleetSamples:
    return run(node, *faults).samples


def test_two_samples_of_a_step_report_the_resistance_of_the_source() -> None:
    for name, ohm in (("v100x4-banana", 0.0148 / 2), ("v100x4-xt60", 0.0078 / 2), ("v100x4-double-ring", 0.0044 / 2)):
        node = load_node(name)
        count = len(node.supply.units)
        shown = Fleet([node], seed=3, repair_s=3600.0).advance(1).samples
        volts = shown.rail_voltage_v[0, :, 0].mean(axis=1)
        amps = shown.rail_current_a[0, :, 0].sum(axis=1)
        wanted = ohm * 2 / count + node.supply.bus_mohm / 1000.0
        assert (volts[1] - volts[0]) / (amps[0] - amps[1]) == pytest.approx(wanted, rel=0.08)


def test_a_board_keeps_its_own_error() -> None:
    stretch = run(count=200)
    power_w = stretch.samples.gpu_power_w[:, 0]
    ratio = power_w / np.nanmean(power_w, axis=2, keepdims=True)  # GPUs of one job take as much at the same time
    spread = np.nanmean(ratio, axis=0) - 1.0
    assert np.std(spread) == pytest.approx(0.025 * np.sqrt(3.0 / 4.0), rel=0.2)
    assert np.nanstd(ratio, axis=0).max() < 0.01


def test_values_come_in_steps() -> None:
    shown = samples()
    whole_c = shown.gpu_temp_c[~np.isnan(shown.gpu_temp_c)]
    np.testing.assert_allclose(whole_c, np.rint(whole_c))
    volts = shown.rail_voltage_v[~np.isnan(shown.rail_voltage_v)] / 0.0001953125
    np.testing.assert_allclose(volts, np.rint(volts), atol=1e-6)


def test_a_node_without_a_controller_shows_nothing_of_it() -> None:
    assert np.isnan(samples().bmc_rail_voltage_v).all()


def test_a_controller_shows_its_coarse_steps() -> None:
    node = NODE.model_copy(update={"sensors": NODE.sensors.model_copy(update={"bmc": "ipmi"})})
    shown = samples(node).bmc_rail_voltage_v
    known = shown[~np.isnan(shown)] / 0.063
    assert len(known)
    np.testing.assert_allclose(known, np.rint(known), atol=1e-6)


def test_a_supply_that_reports_of_itself_shows_its_own_output() -> None:
    node = NODE.model_copy(update={"sensors": NODE.sensors.model_copy(update={"rail": "pmbus"})})
    behind = samples(node).rail_voltage_v[:, 0]
    at_load = samples().rail_voltage_v[:, 0]
    assert np.nanmean(behind) > np.nanmean(at_load)


def test_sensors_lie_as_the_scenario_states() -> None:
    healthy = samples()
    stuck = samples(NODE, {"sensor": "psu0.voltage_v", "fault": "stuck"})
    assert len(np.unique(stuck.rail_voltage_v[4:, :, 0, 0])) == 1
    np.testing.assert_array_equal(stuck.rail_voltage_v[:3], healthy.rail_voltage_v[:3])
    gain = samples(NODE, {"sensor": "gpu1.power_w", "fault": "gain", "value": 2.0, "last": "1h"})
    np.testing.assert_allclose(gain.gpu_power_w[3, :, 0, 1], 2.0 * healthy.gpu_power_w[3, :, 0, 1])
    np.testing.assert_array_equal(gain.gpu_power_w[4], healthy.gpu_power_w[4])
    offset = samples(NODE, {"sensor": "psu1.current_a", "fault": "offset", "value": -5.0})
    np.testing.assert_allclose(offset.rail_current_a[4, :, 0, 1], healthy.rail_current_a[4, :, 0, 1] - 5.0)
    lost = samples(NODE, {"sensor": "supplies.voltage_v", "fault": "loss", "value": 1.0})
    assert np.isnan(lost.rail_voltage_v[3:]).all()


def test_a_dead_exporter_takes_the_metrics_of_all_gpus_and_nothing_else() -> None:
    shown = samples(NODE, {"sensor": "exporter", "fault": "dead"})
    assert np.isnan(shown.gpu_power_w[3:]).all()
    assert np.isnan(shown.gpu_temp_c[3:]).all()
    assert not np.isnan(shown.rail_voltage_v[3:]).all()
