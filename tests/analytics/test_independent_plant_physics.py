"""The independent plant obeys Kirchhoff's and Ohm's laws, and its meters show no more than such meters do."""

from dataclasses import replace

import numpy as np
import pytest

from tests.analytics.independent_plant import HEALTHY, Circuit, Fault, MeterKind, Plant, plant_of, solve
from tests.analytics.independent_plant_12v import Drawn, node_of
from tests.analytics.independent_plant_load import Load, load_of
from tests.analytics.independent_plant_meters import record

SEEDS = range(6)
# Of every kind, those of 12 V read together and in turn.
METERED = (
    *(plant_of(3, kind=kind) for kind in (MeterKind.SHUNT, MeterKind.PMBUS, MeterKind.BMC)),
    *(node_of(3, Drawn(kind=kind)) for kind in (MeterKind.HWMON, MeterKind.COARSE, MeterKind.SHUNT)),
)
FAULTS = {
    "healthy": HEALTHY,
    "an aged joint": Fault(at_s=10.0, path_ratio=2.0),
    "a lost supply": Fault(at_s=10.0, lost=True),
    "a sag of the input": Fault(at_s=10.0, open_ratio=0.95),
}


def solved(plant: Plant, seed: int, fault: Fault = HEALTHY) -> tuple[Load, Circuit]:
    load = load_of(plant, seed, seconds=30.0, jobs=("training",), fault=fault)
    return load, solve(plant, load.time_s, load.bus_w, load.inlet_c, fault)


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
@pytest.mark.parametrize("seed", SEEDS)
def test_the_currents_of_the_supplies_carry_the_power_of_the_load(seed: int, fault: Fault) -> None:
    plant = plant_of(seed)
    load, circuit = solved(plant, seed, fault)
    total_a = circuit.current_a.sum(axis=1)
    at_load_v = circuit.bus_v[:, 0] - plant.bus_ohm * total_a
    np.testing.assert_allclose(at_load_v * total_a, load.node_w, rtol=2e-3)
    assert (circuit.current_a >= 0.0).all(), "no current flows back into a supply"


@pytest.mark.parametrize("seed", SEEDS)
def test_the_bus_lies_below_each_open_circuit_by_what_droop_and_path_take(seed: int) -> None:
    plant = replace(plant_of(seed, shared=False), ppm_per_k=0.0)
    load, circuit = solved(plant, seed)
    path_ohm = plant.path_ohm * (1.0 + 0.0039 * (load.inlet_c - load.inlet_c[0]))[:, np.newaxis]
    open_v = circuit.bus_v + (plant.droop_ohm + path_ohm) * circuit.current_a
    carries = circuit.current_a > 0.0
    expected_v = np.broadcast_to(plant.set_v + plant.off_v, open_v.shape)
    np.testing.assert_allclose(open_v[carries], expected_v[carries], rtol=1e-6)
    np.testing.assert_allclose(circuit.output_v - circuit.bus_v, path_ohm * circuit.current_a)


@pytest.mark.parametrize("shared", [False, True])
def test_an_aged_joint_moves_current_to_the_siblings_only_where_no_loop_shares_it(*, shared: bool) -> None:
    plant = plant_of(1, shared=shared)
    shares = [circuit.current_a[-1, 0] / circuit.current_a[-1].sum() for circuit in _aged_twice(plant)]
    assert shares[1] == pytest.approx(shares[0], rel=1e-3) if shared else shares[1] < 0.8 * shares[0]


def _aged_twice(plant: Plant) -> list[Circuit]:
    return [solved(plant, 1, fault)[1] for fault in (HEALTHY, Fault(path_ratio=2.0))]


def test_a_lost_supply_carries_nothing_and_its_siblings_carry_the_load() -> None:
    load, circuit = solved(plant_of(2), 2, Fault(at_s=10.0, lost=True))
    after = load.time_s >= 10.0
    assert (circuit.current_a[after, 0] == 0.0).all()
    assert (circuit.current_a[~after, 0] > 0.0).all()


@pytest.mark.parametrize("plant", METERED, ids=lambda one: f"{one.meter.kind} {one.set_v:g} V")
def test_readings_lie_on_the_steps_of_their_meter_and_near_the_truth(plant: Plant) -> None:
    supplies = record(plant, 3, seconds=60.0, jobs=("steady",)).frames[0]
    for name, step, within in (("voltage_v", plant.meter.v_step, 0.05), ("current_a", plant.meter.a_step, 0.3)):
        values = supplies.signal(name)
        counts = values[np.isfinite(values)] / step
        # hwmon rounds to whole mV and mA on top.
        rounding = 0.0005 / step if plant.meter.milli else 1e-5
        np.testing.assert_allclose(counts, np.round(counts), rtol=0.0, atol=rounding + 1e-9)
        truth = plant.set_v if name == "voltage_v" else np.nanmedian(values)
        assert np.abs(np.nanmedian(values, axis=0) / truth - 1.0).max() < within


@pytest.mark.parametrize("seed", SEEDS)
def test_the_supplies_of_each_bus_carry_its_load(seed: int) -> None:
    plant = node_of(seed, Drawn(buses=2, sleeps=False))
    load, circuit = solved(plant, seed)
    for bus in range(2):
        own = plant.bus_of == bus
        total_a = circuit.current_a[:, own].sum(axis=1)
        at_load_v = circuit.bus_v[:, own][:, 0] - plant.bus_ohm * total_a
        np.testing.assert_allclose(at_load_v * total_a, load.bus_w[:, bus], rtol=2e-3)
    np.testing.assert_allclose(load.bus_w.sum(axis=1), load.node_w)


def test_cold_redundant_supplies_sleep_at_a_low_load_alone() -> None:
    plant = node_of(6, Drawn(sleeps=True, buses=1, at_output=True))
    assert plant.sleep is not None
    load = load_of(plant, 6, seconds=1800.0, jobs=(), fault=HEALTHY)
    circuit = solve(plant, load.time_s, load.bus_w, load.inlet_c, HEALTHY)
    asleep = circuit.current_a[:, -1] == 0.0
    assert 0.02 < asleep.mean() < 0.98
    assert load.bus_w[asleep, 0].max() < plant.sleep.above_w
    assert (circuit.output_v[asleep, -1] < circuit.bus_v[asleep, -1]).all()


def test_the_supplies_of_a_dead_feed_are_off_and_the_others_carry_the_load() -> None:
    plant = node_of(2, Drawn(sleeps=False, buses=1))
    _, circuit = solved(plant, 2, Fault(at_s=10.0, dead_feed=1))
    off = plant.feed_of == 1
    assert (circuit.current_a[-1, off] == 0.0).all()
    assert (circuit.current_a[-1, ~off] > 0.0).all()


def test_supplies_that_are_read_in_turn_have_one_new_reading_a_row() -> None:
    plant = node_of(3, Drawn(kind=MeterKind.COARSE, sleeps=False))
    plant = replace(plant, meter=replace(plant.meter, turns=2))
    frame = record(plant, 3, seconds=20.0).frames[0]
    assert frame.fresh.sum(axis=(1, 2)).max() == 1
    assert frame.fresh.any(axis=0).all()


def test_a_recording_is_the_same_for_the_same_seed() -> None:
    first, again = (record(plant_of(4), 4, seconds=20.0).frames[0] for _ in range(2))
    np.testing.assert_array_equal(first.values, again.values)
