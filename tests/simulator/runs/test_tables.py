import math

import numpy as np
import pytest

from simulator.files.node import NodeFile, load_node
from simulator.files.scenario import ScenarioFile
from simulator.plant.plant import default_settings
from simulator.plant.state import PlantNodeState
from simulator.runs.description import START_NS
from simulator.runs.fast_tables import FastTables
from simulator.runs.slow_tables import SlowTables
from simulator.runs.stream import RowStream
from simulator.runs.topology import NodeEntities, entities_of
from simulator.sensors.bank import SensorBank
from telemetry.entities import NOMINAL_SOURCE_TAG, NominalSource
from telemetry.recording_rows import TICK
from tests.simulator.runs.kept import Kept
from tests.simulator.runs.orders import QUIET
from tests.simulator.sensors.truths import state_of, stretch_of

NODE = load_node("v100x4")
GPUS = [NODE.gpu_uuid(index) for index in range(4)]
FAULTY = {"at": "200ms", "sensor": "gpu1.power_w", "fault": "dead"}


class Recorded:
    """The fast tables of a node whose truth the test decides."""

    def __init__(self, scenario: ScenarioFile = QUIET) -> None:
        self.state = state_of(NODE)
        self.bank = SensorBank(NODE, scenario, 1)
        self.kept = Kept()
        self._out = RowStream(self.kept)
        self._tables = FastTables(NODE, entities_of(NODE), self.bank, out=self._out)
        self._now_ms = 0

    def go_on(self, *, until_ms: int) -> None:
        for start_ms in range(self._now_ms, until_ms, 10):
            self.bank.advance(stretch_of(NODE, start_ms), self.state)
            self._tables.take(start_ms, self.state)
        self._now_ms = until_ms
        self._out.flush()


def test_stamps_are_off_by_what_the_clock_of_an_instrument_is() -> None:
    run = Recorded()
    assert run.bank.rail.fast is not None
    run.bank.rail.fast.skew_ms = 7
    run.go_on(until_ms=500)
    assert run.kept.series("psu0", "voltage_v")[-1][0] == run.bank.rail.fast.at_ms[0] + 7


def test_power_is_reported_with_every_update_and_the_clock_when_it_changes() -> None:
    run = Recorded()
    run.go_on(until_ms=500)
    run.state.gpus.clock_mhz[2] = 1005.7
    run.go_on(until_ms=1000)
    assert len(run.kept.series(GPUS[2], "power_w")) == pytest.approx(50, abs=1)
    assert [value for _, value in run.kept.series(GPUS[2], "sm_clock_mhz")] == [1530.0, 1005.0]
    assert len(run.kept.series(GPUS[3], "sm_clock_mhz")) == 1


def test_nothing_is_reported_of_a_node_that_is_off_and_everything_when_it_is_back() -> None:
    run = Recorded()
    run.go_on(until_ms=200)
    run.state.powered = False
    run.go_on(until_ms=400)
    run.state.powered = True
    run.go_on(until_ms=600)
    for signal in ("power_w", "sm_clock_mhz"):
        assert not [at_ms for at_ms, _ in run.kept.series(GPUS[0], signal) if 220 < at_ms <= 390]
    assert [value for _, value in run.kept.series(GPUS[0], "sm_clock_mhz")] == [1530.0, 1530.0]


def test_a_dead_power_sensor_ends_its_series_with_one_empty_row() -> None:
    run = Recorded(ScenarioFile.model_validate({"name": "dead", "description": "", "sensor_faults": [FAULTY]}))
    run.go_on(until_ms=600)
    values = [value for _, value in run.kept.series(GPUS[1], "power_w")]
    assert math.isnan(values[-1])
    assert sum(map(math.isnan, values)) == 1


def test_ticks_state_that_a_table_was_read_where_nothing_of_it_changed() -> None:
    run = Recorded()
    run.go_on(until_ms=200)
    run.state.gpus.present[:] = False
    run.go_on(until_ms=400)
    ticks = [at_ms for part in run.kept.parts for at_ms in (part.time_ns[part.kind == TICK] - START_NS) / 1e6]
    assert ticks == [230.0 + 20.0 * index for index in range(9)]


def slow_values(node: NodeFile, state: PlantNodeState, *, jobs: tuple[str, ...] = ()) -> dict[str, np.ndarray]:
    """Return the values of the slow tables for a node after its first block, by table and signal."""
    bank = SensorBank(node, QUIET, 1)
    bank.advance(stretch_of(node, 0), state)
    entities: NodeEntities = entities_of(node, jobs=jobs)
    tables = SlowTables(node, entities, bank)
    return {
        f"{frame.spec.name}.{signal}": frame.signal(signal)[0]
        for frame in tables.frames(0, state, default_settings(node))
        for signal in frame.spec.signals
    }


def test_a_lost_gpu_has_no_counters_but_its_absence_is_reported() -> None:
    state = state_of(NODE)
    state.gpus.present[1] = False
    state.gpus.aer_fatal[:] = 3
    state.gpus.nvlink_crc[:] = 5
    state.gpus.nvlink_replays[:] = 7
    reported = slow_values(NODE, state)
    assert reported["gpu_bus.pci_present"].tolist() == [1.0, 0.0, 1.0, 1.0]
    np.testing.assert_array_equal(reported["gpu_bus.aer_fatal"], [3.0, np.nan, 3.0, 3.0])
    np.testing.assert_array_equal(np.isnan(reported["gpu_slow.energy_j"]), [False, True, False, False])
    links = reported["link.nvlink_crc_errors"].reshape(4, -1)
    assert np.isnan(links[1]).all()
    assert (links[[0, 2, 3]] == 5.0).all()
    assert set(reported["link.nvlink_replays"].reshape(4, -1)[0]) == {7.0}


def test_the_controller_reports_of_supplies_what_their_monitors_do_not() -> None:
    node = NODE.model_copy(update={"sensors": NODE.sensors.model_copy(update={"bmc": "ipmi"})})
    reported = slow_values(node, state_of(node))
    assert reported["supply_slow.input_voltage_v"] == pytest.approx([120.0] * 2, rel=0.02)
    assert reported["supply_slow.power_w"] == pytest.approx([12.2 * 60.0] * 2, rel=0.04)
    assert reported["supply_slow.joint_temp_c"] == pytest.approx([45.0] * 2, abs=1.0)
    assert reported["fan.fan_ratio"].tolist() == [0.5] * node.cooling.fans


def test_steps_are_those_of_the_job_that_runs() -> None:
    state = state_of(NODE)
    state.steps = 12
    np.testing.assert_array_equal(slow_values(NODE, state, jobs=("ddp", "idle"))["job.steps"], [12.0, np.nan])


@pytest.mark.parametrize(("name", "nominal_v"), [("v100x4", 12.0), ("h100x8", 54.0), ("h100x8-orv3", 48.0)])
def test_recorded_supplies_have_the_nominal_voltage_of_their_node(name: str, nominal_v: float) -> None:
    for supply in entities_of(load_node(name)).supplies:
        assert supply.nominal_v == nominal_v
        assert supply.tag(NOMINAL_SOURCE_TAG) == NominalSource.CONFIGURATION


def test_supplies_of_no_class_have_no_nominal_voltage() -> None:
    units = tuple(unit.model_copy(update={"open_circuit_v": 24.0}) for unit in NODE.supply.units)
    node = NODE.model_copy(update={"supply": NODE.supply.model_copy(update={"units": units})})
    assert {supply.nominal_v for supply in entities_of(node).supplies} == {None}
