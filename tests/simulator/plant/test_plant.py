"""The plant against the field report blbadger.github.io/gpu-server, within stated tolerances."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.files.node import load_node
from simulator.files.scenario import Change, ScenarioFile, load_scenario
from simulator.plant.plant import Plant, Stretch
from telemetry.frames import FloatArray

NODE = load_node("v100x4")
HEALTHY = load_scenario("healthy", NODE)


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
    capped = run(60, app_clock_mhz=1005.0)
    assert sensed_peak_w(capped) == pytest.approx(205.0, abs=8.0)
    assert float(capped.power_w.mean()) == pytest.approx(174.0, abs=5.0)
    assert step_ms(capped) / step_ms(run(60)) - 1.0 == pytest.approx(0.129, abs=0.015)


def test_a_power_cap_of_200_w_bounds_the_average_and_not_the_peak() -> None:
    capped = run(60, power_limit_w=200.0)
    assert float(capped.power_w.mean()) == pytest.approx(189.0, abs=5.0)
    assert sensed_peak_w(capped) > 300.0
    assert step_ms(capped) / step_ms(run(60)) - 1.0 == pytest.approx(0.126, abs=0.025)


def test_the_clock_cap_saves_some_600_w_of_the_nodes_peak() -> None:
    peaks_w = [float(stretch.power_w.sum(axis=1).max()) for stretch in (run(60), run(60, app_clock_mhz=1005.0))]
    assert peaks_w[0] - peaks_w[1] == pytest.approx(617.0, abs=40.0)


def test_a_healthy_node_stays_cool_and_far_from_the_limit_of_the_rail() -> None:
    plant = Plant(NODE, HEALTHY, 1)
    stretch = plant.advance(30_000)
    assert plant.die_c.max() <= 60.0
    assert stretch.voltage_v.min() > 11.75
    assert plant.collapsed_ms == 0
    assert int(plant.counters_ms["power_brake"].sum()) == 0


def test_energy_is_the_integral_of_the_true_power() -> None:
    plant = Plant(NODE, HEALTHY, 1)
    before_j = plant.energy_j.copy()
    stretch = plant.advance(10_000)
    np.testing.assert_allclose(plant.energy_j - before_j, stretch.power_w.sum(axis=0) / 1000.0)


def trace(seed: int, cuts: tuple[int, ...]) -> tuple[FloatArray, FloatArray, FloatArray]:
    plant = Plant(NODE, load_scenario("psu-sag", NODE), seed)
    parts = [plant.advance(n_ms) for n_ms in cuts]
    return (
        np.concatenate([part.voltage_v for part in parts]),
        np.concatenate([part.power_w for part in parts]),
        plant.rail.voltage_v,
    )


def test_the_same_seed_gives_the_same_trace_and_another_seed_another() -> None:
    first, second, other = trace(7, (2000,)), trace(7, (2000,)), trace(8, (2000,))
    for left, right in zip(first, second, strict=True):
        np.testing.assert_array_equal(left, right)
    assert not np.array_equal(first[0], other[0])


@settings(max_examples=20, deadline=None)
@given(cuts=st.lists(st.integers(0, 70), min_size=1, max_size=20))
def test_the_trace_does_not_depend_on_how_time_is_cut(cuts: list[int]) -> None:
    whole, parts = trace(7, (sum(cuts),)), trace(7, tuple(cuts))
    for left, right in zip(whole, parts, strict=True):
        np.testing.assert_array_equal(left, right)


@settings(max_examples=15, deadline=None)
@given(
    joint_mohm=st.floats(1.0, 25.0),
    inlet_c=st.floats(5.0, 45.0),
    app_clock_mhz=st.sampled_from([135.0, 1005.0, 1290.0, np.inf]),
    power_limit_w=st.floats(150.0, 300.0),
    seed=st.integers(0, 2**31),
)
def test_power_is_never_negative_and_the_voltage_never_leaves_its_range(
    joint_mohm: float, inlet_c: float, app_clock_mhz: float, power_limit_w: float, seed: int
) -> None:
    changes = (
        Change(at="0s", what="supplies.joint_mohm", to=joint_mohm),  # type: ignore[arg-type] # as in a file
        Change(at="0s", what="node.inlet_c", to=inlet_c, over="1s"),  # type: ignore[arg-type] # as in a file
        Change(at="1s", what="gpu1.present", to=0.0),  # type: ignore[arg-type] # as in a file
    )
    plant = Plant(NODE, ScenarioFile(name="any", description="any", changes=changes), seed)
    plant.obey(
        replace(
            plant.settings,
            app_clock_mhz=np.full(4, app_clock_mhz),
            power_limit_w=np.full(4, power_limit_w),
        )
    )
    stretch = plant.advance(2000)
    assert (stretch.power_w >= 0.0).all()
    assert ((stretch.voltage_v > 5.0) & (stretch.voltage_v < 12.6)).all()
    assert (stretch.current_a >= 0.0).all()
    assert np.isin(stretch.clock_mhz, NODE.gpu.clocks.supported_mhz).all()
    assert (plant.sensed_power_w >= 0.0).all()
    assert not plant.present[1]
    assert stretch.power_w[-1, 1] == 0.0


def test_it_runs_many_times_faster_than_real_time() -> None:
    # A quarter of one core is the budget; the bound is loose because the machine may be busy.
    from time import process_time  # noqa: PLC0415 -- only here is the processor's own time wanted

    plant = Plant(NODE, HEALTHY, 1)
    before_s = process_time()
    plant.advance(10_000)
    assert process_time() - before_s < 2.5
