"""The plant obeys the laws of Kirchhoff and Ohm, and its meters show no more than such meters do."""

from dataclasses import replace

import numpy as np
import pytest

from evaluation.domain.plant.circuit import Circuit, Slow
from evaluation.domain.plant.drawn import Wanted, drawn_machine
from evaluation.domain.plant.faults import Fault, FaultKind
from evaluation.domain.plant.machines import together
from evaluation.domain.plant.meters import KINDS, RATES_HZ, TURNS, MeterKind, Turn
from evaluation.domain.plant.world import World
from telemetry.frames import FloatArray
from tests.evaluation.domain.worlds import machines_of, world_of

SEEDS = tuple(range(1, 13))
TIMES_S = np.linspace(1.0, 39.0, 200)
AT_S = 10.0
FAULTS = {
    "healthy": FaultKind.NONE,
    "a joint": FaultKind.JOINT,
    "all joints": FaultKind.ALL_JOINTS,
    "a lost supply": FaultKind.LOST,
    "a sag of the outputs": FaultKind.DEEP_SAG,
}


def solved(world: World) -> tuple[FloatArray, Circuit]:
    n = len(world.machines)
    time_s = np.repeat(TIMES_S[:, np.newaxis], n, axis=1)
    awake = np.zeros((len(TIMES_S), len(world.machines.supplies.node)), dtype=np.bool_)
    return time_s, world.plant.at(time_s, Slow(warm_k=np.zeros_like(time_s), asleep=awake))


def on_bus(world: World, values: FloatArray) -> FloatArray:
    starts = np.searchsorted(world.machines.supplies.bus, np.arange(len(world.machines.buses.node)))
    return np.asarray(np.add.reduceat(values, starts, axis=1))


@pytest.mark.parametrize("kind", FAULTS.values(), ids=FAULTS)
def test_the_currents_of_a_bus_carry_the_power_of_its_load(kind: FaultKind) -> None:
    fault = Fault(kind=kind, at_s=AT_S, size=0.05)
    world = world_of(machines_of(SEEDS, wanted=Wanted(rated=True)), *(fault,) * len(SEEDS))
    _, circuit = solved(world)
    np.testing.assert_allclose(circuit.board_v * on_bus(world, circuit.current_a), circuit.load_w, rtol=1e-9)
    assert (circuit.current_a >= 0.0).all(), "no current flows back into a supply"


def test_outputs_lie_above_the_bus_by_what_the_path_takes_and_below_the_source_by_its_droop() -> None:
    world = world_of(machines_of(SEEDS, wanted=Wanted(shared=False)))
    _, circuit = solved(world)
    supplies, nodes = world.machines.supplies, world.machines.nodes
    np.testing.assert_allclose(circuit.output_v - circuit.bus_v, supplies.path_ohm * circuit.current_a)
    open_v = circuit.output_v + supplies.droop_ohm * circuit.current_a
    wanted_v = np.broadcast_to(nodes.volts[supplies.node] + supplies.off_v, open_v.shape)
    carries = (circuit.current_a > 0.0) & (circuit.current_a < supplies.rated_w / nodes.nominal_v[supplies.node])
    np.testing.assert_allclose(open_v[carries], wanted_v[carries], rtol=supplies.wander_ratio.max())


@pytest.mark.parametrize("shared", [False, True])
def test_a_joint_moves_current_to_the_siblings_only_where_no_loop_shares_it(*, shared: bool) -> None:
    machines = machines_of(SEEDS, wanted=Wanted(shared=shared, stiff=False))
    world = world_of(machines, *(Fault(kind=FaultKind.JOINT, at_s=AT_S, size=1.0),) * len(SEEDS))
    _, circuit = solved(world)
    share = circuit.current_a / on_bus(world, circuit.current_a)[:, machines.supplies.bus]
    first = machines.supplies.number == 0
    before, after = share[TIMES_S < AT_S][:, first].mean(axis=0), share[TIMES_S > AT_S][:, first].mean(axis=0)
    assert np.all(np.abs(after / before - 1.0) < 0.01) if shared else np.all(after < 0.9 * before)


def test_the_supplies_of_a_dead_feed_are_off_and_the_others_carry_the_load() -> None:
    machines = machines_of(SEEDS, wanted=Wanted(two_feeds=True))
    world = world_of(machines, *(Fault(kind=FaultKind.FEED, at_s=AT_S, place=1),) * len(SEEDS))
    _, circuit = solved(world)
    off, after = machines.supplies.feed == 1, TIMES_S > AT_S + 1.0
    assert (circuit.current_a[after][:, off] == 0.0).all()
    assert (circuit.current_a[after][:, ~off].sum(axis=1) > 0.0).all()
    assert (circuit.output_v[after][:, off] < 1.0).all()


def test_cold_redundant_supplies_sleep_at_a_low_load_alone() -> None:
    world = world_of(machines_of(SEEDS, wanted=Wanted(sleeps=True)), seconds=600, work="mixed", rate_hz=1.0)
    asleep, ratio = [], []
    for stretch in world.stretches():
        taken = stretch.after.warmth.asleep
        asleep.append(taken)
        load = np.add.reduceat(stretch.after.warmth.gpu_w, np.searchsorted(world.machines.gpus.node, range(len(SEEDS))))
        ratio.append(load[world.machines.supplies.node])
    slept, load_w = np.stack(asleep), np.stack(ratio)
    assert 0.01 < slept.mean() < 0.9
    assert load_w[slept].mean() < 0.6 * load_w[~slept].mean()


@pytest.mark.parametrize("rate_hz", RATES_HZ)
def test_readings_lie_on_the_steps_of_their_meter_and_near_the_truth(rate_hz: float) -> None:
    machines = machines_of(SEEDS, rate_hz=rate_hz)
    world = world_of(machines, seconds=20, work="steady", rate_hz=rate_hz)
    (stretch,) = world.stretches()
    node, meters = machines.supplies.node, machines.meters
    for shown, true, step in (
        (stretch.readings.voltage_v, stretch.clean.voltage_v, meters.v_step[node]),
        (stretch.readings.current_a, stretch.clean.current_a, meters.a_step[node]),
    ):
        known = np.isfinite(shown)
        assert known.mean() > 0.8
        counts = shown / step
        off = np.abs(counts - np.round(counts))[known]
        # hwmon rounds to whole mV and mA on top.
        assert off.max() < 1e-6 or off[~np.broadcast_to(meters.milli[node], shown.shape)[known]].max(initial=0.0) < 1e-6
        within = 0.03 * np.abs(true) + 2.0 * step + 0.8
        assert (np.abs(np.nanmedian(shown, axis=0) - np.median(true, axis=0)) < within.max(axis=0)).all()


def test_meters_that_are_read_in_turn_have_one_new_reading_a_row() -> None:
    machines = machines_of(SEEDS)
    turns = np.array([TURNS.index(Turn.SUPPLIES), TURNS.index(Turn.PAIR)] * (len(SEEDS) // 2))
    meters = replace(machines.meters, turn=turns, repeats=np.zeros(len(SEEDS), dtype=np.bool_))
    (stretch,) = world_of(replace(machines, meters=meters), seconds=20).stretches()
    for node in range(len(SEEDS)):
        own = machines.supplies_of(node)
        new_v, new_a = stretch.readings.new_v[:, own], stretch.readings.new_a[:, own]
        if turns[node] == TURNS.index(Turn.SUPPLIES):
            assert new_v.sum(axis=1).max() == 1
            assert np.array_equal(new_v, new_a)
        else:
            assert not (new_v & new_a).any()
        assert new_v.any(axis=0).all()
        assert new_a.any(axis=0).all()


def test_a_stuck_value_repeats_the_last_one_and_a_late_current_is_that_of_a_moment_before() -> None:
    machines = together([drawn_machine(3, rate_hz=10.0, wanted=Wanted(meter=MeterKind.SHUNT))] * 3)
    faults = [Fault(kind=kind, at_s=12.0, size=0.4) for kind in (FaultKind.STUCK_V, FaultKind.LATE)]
    (stretch,) = world_of(machines, *faults, seconds=20, rate_hz=10.0).stretches()
    n = len(machines.supplies.node) // 3
    stuck = stretch.readings.voltage_v[stretch.row_s > 12.0, 0]
    assert (stuck == stretch.readings.voltage_v[stretch.row_s < 12.0, 0][-1]).all()
    late, usual = stretch.clean.current_a[:, n], stretch.clean.current_a[:, 2 * n]
    assert np.array_equal(late[stretch.taken_s[:, 1] < 12.0], usual[stretch.taken_s[:, 1] < 12.0])
    after = stretch.row_s > 13.0
    np.testing.assert_allclose(late[after], usual[np.flatnonzero(after) - 4], rtol=2e-2)


def test_a_machine_shows_the_same_alone_and_among_others() -> None:
    fault = Fault(kind=FaultKind.JOINT, at_s=12.0, size=0.5)
    alone = next(world_of(machines_of((4,)), fault, seconds=20, work="mixed").stretches())
    among = next(world_of(machines_of((4, 1, 2, 3)), fault, seconds=20, work="mixed").stretches())
    own = {frame.spec.name: frame for frame in alone.frames}
    for frame in among.frames:
        if frame.spec.name in own:
            mine = own[frame.spec.name].values
            np.testing.assert_array_equal(frame.values[:, : mine.shape[1]], mine)


def test_a_gpu_warms_with_its_power_its_interface_its_slot_and_the_air() -> None:
    machines = together([drawn_machine(5, rate_hz=1.0)] * 4)
    machines = replace(machines, nodes=replace(machines.nodes, controlled=np.zeros(4, dtype=np.bool_)))
    faults = [
        Fault(kind=kind, at_s=100.0, size=size)
        for kind, size in ((FaultKind.INTERFACE, 0.3), (FaultKind.FANS, 0.5), (FaultKind.INLET, 10.0))
    ]
    world = world_of(machines, *faults, seconds=600, work="steady", rate_hz=1.0)
    *_, last = world.stretches()
    rise_k = last.gpu_c[-1].reshape(4, -1) - last.gpu_c[-1].reshape(4, -1)[3]
    interface, fans, inlet, _ = rise_k
    assert interface[0] > 4.0
    assert np.abs(interface[1:]).max() < 0.01
    assert fans.min() > 3.0
    np.testing.assert_allclose(inlet, 10.0, atol=0.1)


def test_machines_differ_in_all_that_the_suite_is_to_cover() -> None:
    many = {rate_hz: machines_of(tuple(range(1, 61)), rate_hz=rate_hz) for rate_hz in RATES_HZ}
    kinds = {KINDS[kind] for machines in many.values() for kind in machines.meters.kind.tolist()}
    turns = {TURNS[turn] for machines in many.values() for turn in machines.meters.turn.tolist()}
    assert kinds == set(KINDS)
    assert turns == set(TURNS)
    machines = many[5.0]
    assert set(machines.nodes.nominal_v.tolist()) == {12.0, 48.0, 54.0}
    assert {1, 2} <= set(np.bincount(machines.buses.node).tolist())
    steps_v = np.concatenate([one.meters.v_step for one in many.values()])
    assert steps_v.min() < 0.003
    assert {0.25, 0.0625} <= set(steps_v.tolist())
    for name in ("shared", "sleeps", "controlled"):
        assert 0.05 < getattr(machines.nodes, name).mean() < 0.95, name
    for name in [one for one in machines.nodes.__dataclass_fields__ if one.startswith("shows_")]:
        assert 0.05 < getattr(machines.nodes, name).mean() < 0.97, name
    slots_k = [np.ptp(machines.gpus.slot_k[machines.gpus_of(node)]) for node in range(60)]
    assert max(slots_k) > 7.0
    drift = np.concatenate((machines.meters.drift_v, machines.meters.drift_a))
    assert drift.max() <= 0.002
    assert np.median(machines.meters.drift_a) > 4e-4
