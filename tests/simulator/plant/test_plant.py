"""The plant against the field report blbadger.github.io/gpu-server, within stated tolerances."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.files.node import load_node
from simulator.files.scenario import Change, JobStart, ScenarioFile, load_scenario
from simulator.files.workload import load_workload
from simulator.plant.events import PlantEvent, PlantEventKind
from simulator.plant.plant import BLOCK_MS, Plant
from simulator.plant.state import Stretch
from telemetry.frames import FloatArray

NODE = load_node("v100x4")
HEALTHY = load_scenario("healthy", NODE)


def scenario(*changes: tuple[str, str, float]) -> ScenarioFile:
    parsed = tuple(Change.model_validate({"at": at, "what": what, "to": to}) for at, what, to in changes)
    return ScenarioFile(name="any", description="any", changes=parsed)


def events_of(plant: Plant) -> list[tuple[PlantEventKind, int | None]]:
    """Return what happened, each with the supply or the GPU that it concerns."""
    return [(event.kind, event.gpu if event.supply is None else event.supply) for event in plant.take_events()]


@cache
def run(n_s: int, *, app_clock_mhz: float = np.inf, power_limit_w: float = 300.0) -> Stretch:
    plant = Plant(NODE, HEALTHY, 1)
    plant.obey(
        replace(
            plant.settings,
            app_clock_mhz=np.full(4, app_clock_mhz),
            power_limit_w=np.full(4, power_limit_w),
        )
    )
    plant.advance(5000)
    return plant.advance(n_s * 1000)


def sensed_peak_w(stretch: Stretch) -> float:
    total = np.cumsum(stretch.power_w, axis=0)
    return float(((total[10:] - total[:-10]) / 10.0).max())


def step_ms(stretch: Stretch) -> float:
    busy = (stretch.level == 1.0).any(axis=1)
    starts = np.flatnonzero(busy[1:] & ~busy[:-1])
    return float((starts[-1] - starts[0]) / (len(starts) - 1))


def test_a_clock_cap_of_1005_mhz_bounds_the_peak_and_costs_13_percent() -> None:
    capped = run(20, app_clock_mhz=1005.0)
    assert sensed_peak_w(capped) == pytest.approx(205.0, abs=8.0)
    assert float(capped.power_w.mean()) == pytest.approx(174.0, abs=5.0)
    assert step_ms(capped) / step_ms(run(20)) - 1.0 == pytest.approx(0.129, abs=0.015)


def test_a_power_cap_of_200_w_bounds_the_average_and_not_the_peak() -> None:
    capped = run(20, power_limit_w=200.0)
    assert float(capped.power_w.mean()) == pytest.approx(189.0, abs=5.0)
    assert sensed_peak_w(capped) > 300.0
    assert step_ms(capped) / step_ms(run(20)) - 1.0 == pytest.approx(0.126, abs=0.025)


def test_the_clock_cap_saves_some_600_w_of_the_nodes_peak() -> None:
    peaks_w = [float(stretch.power_w.sum(axis=1).max()) for stretch in (run(20), run(20, app_clock_mhz=1005.0))]
    assert peaks_w[0] - peaks_w[1] == pytest.approx(617.0, abs=40.0)


def test_a_healthy_node_stays_cool_and_far_from_the_limit_of_the_rail() -> None:
    plant = Plant(NODE, HEALTHY, 1)
    stretch = plant.advance(30_000)
    assert plant.state.gpus.die_c.max() <= 60.0
    assert stretch.voltage_v.min() > 11.75
    assert plant.state.collapsed_ms == 0
    assert int(plant.state.gpus.counters_ms["power_brake"].sum()) == 0
    assert plant.take_events() == ()


@pytest.mark.parametrize(
    ("name", "plateau_v", "dip_v"),
    [
        ("v100x4-xt60", None, 11.60),
        ("v100x4-corroded-3psu", None, 11.32),
        ("v100x4-double-ring", 12.06, 11.99),
    ],
)
def test_the_states_of_the_field_report_dip_as_far_as_its_meter_showed(
    name: str, plateau_v: float | None, dip_v: float
) -> None:
    # blbadger.github.io/gpu-server; a meter shows the mean over some ten milliseconds
    node = load_node(name)
    stretch = Plant(node, ScenarioFile(name="any", description="any"), 1).advance(20_000)
    total_v = np.cumsum(stretch.voltage_v)
    assert float((total_v[10:] - total_v[:-10]).min()) / 10.0 == pytest.approx(dip_v, abs=0.04)
    if plateau_v is not None:
        busy = (stretch.level == 1.0).all(axis=1)
        assert float(np.median(stretch.voltage_v[busy])) == pytest.approx(plateau_v, abs=0.01)


def test_energy_is_the_integral_of_the_true_power() -> None:
    plant = Plant(NODE, HEALTHY, 1)
    before_j = plant.state.gpus.energy_j.copy()
    stretch = plant.advance(10_000)
    np.testing.assert_allclose(plant.state.gpus.energy_j - before_j, stretch.power_w.sum(axis=0) / 1000.0)


def test_what_the_branches_carry_is_what_gpus_fans_and_the_rest_take() -> None:
    plant = Plant(NODE, HEALTHY, 1)
    stretch = plant.advance(10_000)
    other_w = NODE.other_power_w + plant.state.fan_power_w
    load_w = stretch.voltage_v * stretch.current_a.sum(axis=1)
    np.testing.assert_allclose(load_w, stretch.power_w.sum(axis=1) + other_w, rtol=1e-9)
    state = plant.state
    lost_v = np.array([unit.branch_mohm - unit.psu_mohm for unit in NODE.supply.units]) / 1000.0
    lost_v = lost_v * state.supplies.current_a + NODE.supply.bus_mohm / 1000.0 * state.supplies.current_a.sum()
    np.testing.assert_allclose(state.supplies.output_v, state.rail_v + lost_v)
    assert state.node_power_w == pytest.approx(float(state.supplies.output_v @ state.supplies.current_a))


def trace(seed: int, cuts: tuple[int, ...]) -> tuple[FloatArray, FloatArray, FloatArray]:
    plant = Plant(NODE, load_scenario("psu-sag", NODE), seed)
    parts = [plant.advance(n_ms) for n_ms in cuts]
    return (
        np.concatenate([part.voltage_v for part in parts]),
        np.concatenate([part.power_w for part in parts]),
        plant.state.gpus.die_c,
    )


def test_the_same_seed_returns_the_same_trace_and_another_seed_another() -> None:
    first, second, other = trace(7, (2000,)), trace(7, (2000,)), trace(8, (2000,))
    for left, right in zip(first, second, strict=True):
        np.testing.assert_array_equal(left, right)
    assert not np.array_equal(first[0], other[0])


@settings(max_examples=20)
@given(cuts=st.lists(st.integers(0, 70), min_size=1, max_size=20))
def test_the_trace_does_not_depend_on_how_time_is_cut(cuts: list[int]) -> None:
    whole, parts = trace(7, (sum(cuts),)), trace(7, tuple(cuts))
    for left, right in zip(whole, parts, strict=True):
        np.testing.assert_array_equal(left, right)


def test_what_happens_does_not_depend_on_how_time_is_cut_either() -> None:
    changes = (("1s", "supplies.joint_mohm", 16.0), ("2s", "gpu0.present", 0.0), ("3s", "psu1.in_service", 0.0))
    whole, parts = Plant(NODE, scenario(*changes), 3), Plant(NODE, scenario(*changes), 3)
    whole.advance(5000)
    reported: list[PlantEvent] = []
    for _ in range(715):
        parts.advance(7)
        reported += parts.take_events()
    assert len(reported) > 5
    assert sorted(reported, key=lambda event: event.time_ms) == list(whole.take_events())


def test_a_block_may_be_begun_and_finished_with_a_load_of_ones_own() -> None:
    plant = Plant(NODE, HEALTHY, 1)
    plant.begin_block()
    assert plant.state.gpus.clock_mhz.tolist() == [1530.0] * 4
    level = np.zeros((BLOCK_MS, 4))
    level[:, 2] = 1.0
    stretch = plant.finish_block(level)
    assert stretch.level[-1].tolist() == [0.0, 0.0, 1.0, 0.0]
    assert plant.state.now_ms == BLOCK_MS


def test_a_gpu_that_cannot_work_does_not_whatever_load_is_asked_of_it() -> None:
    plant = Plant(NODE, scenario(("0s", "gpu2.present", 0.0), ("10ms", "node.driver", 0.0)), 1)
    seen = []
    for _ in range(2):
        plant.begin_block()
        seen.append(plant.finish_block(np.ones((BLOCK_MS, 4))).level[-1].tolist())
    assert seen == [[1.0, 1.0, 0.0, 1.0], [0.0] * 4]


def test_neighbours_warm_the_inlet_and_lower_the_mains() -> None:
    plant = Plant(NODE, HEALTHY, 1)
    plant.rack_inputs.inlet_offset_k = 4.0
    plant.rack_inputs.input_ratio = 0.9
    plant.advance(100)
    assert plant.state.inlet_c == pytest.approx(NODE.inlet_c + 4.0)
    assert plant.state.supplies.input_v == pytest.approx([108.0, 108.0])
    alone = Plant(NODE, HEALTHY, 1)
    alone.advance(100)
    assert alone.state.rail_v - plant.state.rail_v == pytest.approx(0.2, abs=0.03)


@settings(max_examples=15)
@given(
    joint_mohm=st.floats(1.0, 60.0),
    inlet_c=st.floats(5.0, 45.0),
    app_clock_mhz=st.sampled_from([135.0, 1005.0, 1290.0, np.inf]),
    power_limit_w=st.floats(150.0, 300.0),
    off=st.sampled_from(["psu0.in_service", "node.powered", "node.driver", "supplies.input_ratio", "gpu0.present"]),
    seed=st.integers(0, 2**31),
)
def test_power_is_never_negative_and_the_voltage_never_leaves_its_range(
    *, joint_mohm: float, inlet_c: float, app_clock_mhz: float, power_limit_w: float, off: str, seed: int
) -> None:
    changes = (
        ("0s", "supplies.joint_mohm", joint_mohm),
        ("0s", "node.inlet_c", inlet_c),
        ("1s", "gpu1.present", 0.0),
        ("1500ms", off, 0.0),
        ("1700ms", off, 1.0),
    )
    plant = Plant(NODE, scenario(*changes), seed)
    plant.obey(
        replace(
            plant.settings,
            app_clock_mhz=np.full(4, app_clock_mhz),
            power_limit_w=np.full(4, power_limit_w),
        )
    )
    stretch = plant.advance(2000)
    assert (stretch.power_w >= 0.0).all()
    assert ((stretch.voltage_v >= 0.0) & (stretch.voltage_v < 12.6)).all()
    assert (stretch.current_a >= 0.0).all()
    assert np.isin(stretch.clock_mhz, NODE.gpu.clocks.supported_mhz).all()
    assert not plant.state.gpus.present[1]
    assert stretch.power_w[-1, 1] == 0.0
    delivered_w = stretch.voltage_v * stretch.current_a.sum(axis=1)
    assert (stretch.power_w.sum(axis=1) <= delivered_w + 1e-6).all()
    times_ms = [event.time_ms for event in plant.take_events()]
    assert times_ms == sorted(times_ms)


@settings(max_examples=10)
@given(low_mhz=st.sampled_from([405.0, 750.0, 1005.0]), high_mhz=st.sampled_from([1200.0, 1290.0, 1530.0]))
def test_a_lower_clock_cap_never_lowers_the_voltage_nor_raises_the_peak(low_mhz: float, high_mhz: float) -> None:
    low, high = run(3, app_clock_mhz=low_mhz), run(3, app_clock_mhz=high_mhz)
    assert low.voltage_v.min() > high.voltage_v.min()
    assert low.power_w.max() < high.power_w.max()


def test_without_one_of_two_supplies_the_other_trips_and_the_node_is_off_until_they_are_back() -> None:
    plant = Plant(
        NODE,
        scenario(
            ("1s", "psu0.in_service", 0.0),
            ("2s", "load.level", 0.0),
            ("3s", "supplies.in_service", 0.0),
            ("4s", "supplies.in_service", 1.0),
        ),
        1,
    )
    plant.advance(1500)
    kinds = [
        (PlantEventKind.SUPPLY_OFF, 0),
        (PlantEventKind.OVER_CURRENT, 1),
        (PlantEventKind.SUPPLY_OFF, 1),
        (PlantEventKind.POWER_OFF, None),
        (PlantEventKind.JOB_DIED, None),
    ]
    assert events_of(plant) == kinds
    state = plant.state
    assert (state.powered, state.driver_loaded, state.rail_v, state.node_power_w) == (False, False, 0.0, 0.0)
    assert not state.gpus.present.any()
    assert not state.gpus.power_w.any()
    assert not state.fan_rpm.any()
    plant.advance(3000)
    assert events_of(plant)[-2:] == [(PlantEventKind.POWER_ON, None), (PlantEventKind.DRIVER_LOADED, None)]
    assert state.powered
    assert state.gpus.present.all()
    assert state.rail_v > 12.0


def test_a_gpu_that_is_gone_stays_gone_until_the_node_was_off() -> None:
    plant = Plant(
        NODE,
        scenario(
            ("1s", "gpu3.present", 0.0),
            ("2s", "gpu3.present", 1.0),
            ("5s", "node.powered", 0.0),
            ("6s", "node.powered", 1.0),
        ),
        1,
    )
    plant.advance(4900)
    reported = events_of(plant)
    assert (PlantEventKind.GPU_LOST, 3) in reported
    assert (PlantEventKind.XID, 3) in reported
    assert plant.state.gpus.present.tolist() == [True, True, True, False]
    assert plant.state.hung
    plant.advance(2000)
    assert plant.state.gpus.present.all()
    assert not plant.state.hung


@pytest.mark.parametrize("joint_mohm", [60.0, 400.0])  # without GPUs the first carries the rest, the second does not
def test_a_rail_that_collapses_takes_all_gpus(joint_mohm: float) -> None:
    no_hazard = NODE.gpu.hazard.model_copy(update={"rate_per_s": 0.0})
    node = NODE.model_copy(update={"gpu": NODE.gpu.model_copy(update={"hazard": no_hazard})})
    plant = Plant(node, scenario(("1s", "supplies.joint_mohm", joint_mohm)), 1)
    stretch = plant.advance(1200)
    assert plant.state.collapsed_ms > 0
    assert events_of(plant).count((PlantEventKind.RAIL_COLLAPSE, None)) == 1
    assert not plant.state.gpus.present.any()
    assert plant.state.powered
    delivered_w = stretch.voltage_v * stretch.current_a.sum(axis=1)
    assert (stretch.power_w.sum(axis=1) <= delivered_w + 1e-6).all()


def test_a_gpu_as_hot_as_its_shutdown_temperature_leaves_the_bus() -> None:
    plant = Plant(NODE, scenario(("1s", "node.fans", 0.0), ("1s", "gpu2.interface_k_per_w", 0.5)), 1)
    reasons = set()
    for _ in range(100):
        plant.advance(100)
        reasons |= {hex(int(reason)) for reason in plant.state.gpus.reasons}
    assert {"0x20", "0x68"} <= reasons
    reported = events_of(plant)
    assert reported.index((PlantEventKind.GPU_SHUTDOWN, 2)) + 1 == reported.index((PlantEventKind.GPU_LOST, 2))
    assert plant.state.gpus.present.tolist() == [True, True, False, True]


def test_a_driver_that_is_loaded_again_has_forgotten_settings_and_counts() -> None:
    plant = Plant(NODE, scenario(("1s", "node.driver", 0.0), ("2s", "node.driver", 1.0)), 1)
    plant.obey(replace(plant.settings, app_clock_mhz=np.full(4, 1005.0)))
    plant.advance(1500)
    assert not plant.state.driver_loaded
    assert plant.state.gpus.present.all()
    assert plant.state.gpus.power_w.max() < 50.0
    plant.advance(600)
    assert [kind for kind, _ in events_of(plant)] == [
        PlantEventKind.DRIVER_UNLOADED,
        PlantEventKind.JOB_DIED,
        PlantEventKind.DRIVER_LOADED,
    ]
    assert np.isinf(plant.settings.app_clock_mhz).all()
    assert plant.state.gpus.clock_mhz.tolist() == [1530.0] * 4
    assert plant.state.gpus.energy_j.max() < 50.0


def test_another_job_brings_another_load_memory_and_data() -> None:
    jobs = (JobStart.model_validate({"at": "1s", "workload": "burn", "input_factor": 0.6}),)
    plant = Plant(NODE, ScenarioFile(name="any", description="any", jobs=jobs), 1, workload=load_workload("idle"))
    plant.advance(990)
    assert (plant.state.job, plant.state.gpus.reasons.tolist()) == ("idle", [0x1] * 4)
    assert plant.state.gpus.power_w == pytest.approx([42.0] * 4, abs=3.0)
    plant.advance(1000)
    assert events_of(plant) == [(PlantEventKind.JOB_STARTED, None)]
    assert plant.state.job == "burn"
    expected_w = 113.0 + 0.6 * 237.0  # below the power limit
    assert plant.state.gpus.power_w == pytest.approx([expected_w] * 4, rel=0.05)


def test_a_hang_keeps_utilisation_at_one_and_steps_where_they_are() -> None:
    plant = Plant(NODE, scenario(("2s", "load.hang", 1.0)), 1)
    plant.advance(3000)
    steps = plant.state.steps
    plant.advance(40_000)
    state = plant.state
    assert (state.hung, state.steps) == (True, steps)
    assert state.gpus.util_ratio.tolist() == [1.0] * 4
    assert min(state.nv_queue_ratio, state.nv_irq_ratio) > 0.9
    assert PlantEventKind.JOB_HUNG in [kind for kind, _ in events_of(plant)]


def test_a_joint_that_ages_fast_takes_the_voltage_with_it() -> None:
    fast = 50.0 * 86_400.0  # a second for 50 days
    plant = Plant(NODE, scenario(("0s", "supplies.ageing", fast)), 1)
    before_v, before_mohm = plant.state.rail_v, plant.state.supplies.joint_mohm[0]
    plant.advance(1000)
    assert plant.state.supplies.joint_mohm[0] > before_mohm + 1.0
    assert plant.state.rail_v < before_v
    assert (plant.state.supplies.joint_c > plant.state.inlet_c).all()


def test_a_node_that_is_off_and_a_driver_that_is_gone_report_of_no_gpu() -> None:
    def reported(what: str) -> set[PlantEventKind]:
        found = set()
        for seed in range(4):
            plant = Plant(NODE, scenario(("50ms", "gpu1.present", 0.0), ("100ms", what, 0.0)), seed)
            plant.advance(5100)
            late = {event.kind for event in plant.take_events() if event.time_ms > 100}
            assert not plant.state.gpus.present[1]
            found |= late
        return found

    assert PlantEventKind.XID in reported("load.level")
    assert PlantEventKind.XID not in reported("node.driver")
    assert reported("node.powered") == {PlantEventKind.BMC_CRITICAL}  # the board's controller has power of its own
