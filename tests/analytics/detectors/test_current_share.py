"""Joints behind the supplies' own meters: named by the share of the bus, and nothing else is taken for one."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from analytics.detectors.current_share import CurrentShare, CurrentShareState
from analytics.detectors.supply_limits import CurrentShareLimits
from analytics.incidents.book import IncidentBook
from analytics.supply.usual_share import LEARN_BLOCKS, RELEARN_BLOCKS, SWAPPED_BLOCKS
from telemetry.clock import NS_PER_S
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.frames import FloatArray, Frame
from telemetry.records import Cause, FaultClass, Finding, FindingStatus
from tests.analytics.scenes import gpu, node_of, supply
from tests.analytics.supply.share_rows import BLOCK_ROWS, RATE_HZ, Bus, job, rows_of, sound, worn

DETECTOR = CurrentShare(limits=CurrentShareLimits())
BUS = Bus()
TOPOLOGY = node_of(8, 3)


def run(*frames: Frame, topology: Topology = TOPOLOGY) -> tuple[CurrentShareState, list[Finding]]:
    state = DETECTOR.start(frames[0].spec)
    found: list[Finding] = []
    for frame in frames:
        state, more = DETECTOR.step(state, frame, topology)
        found += more
    return state, found


def reported(frame: Frame, topology: Topology = TOPOLOGY) -> list[Finding]:
    return run(frame, topology=topology)[1]


def changed(frame: Frame, name: str, rows: slice, who: int, value: FloatArray | float) -> Frame:
    values = frame.values.copy()
    values[rows, who, frame.spec.signals.index(name)] = value
    return replace(frame, values=values)


@pytest.mark.parametrize("who", range(3))
@pytest.mark.parametrize("seed", range(5))
def test_a_joint_half_as_much_again_is_found_on_its_own_supply_within_a_minute(seed: int, who: int) -> None:
    frame = BUS.frame(job(240, seed=seed), worn(240, 1.5, who=who), seed=seed)
    found = reported(frame)
    assert [(one.cause, one.entity_id, one.status) for one in found[:1]] == [
        (Cause.JOINT_AGEING, supply(who).id, FindingStatus.RAISED)
    ]
    assert {one.entity_id for one in found} == {supply(who).id}
    after_s = (found[0].time_ns - int(frame.time_ns[0])) / NS_PER_S - 60.0
    assert 0.0 < after_s < 60.0
    assert found[0].since_ns <= found[0].time_ns
    assert "of its usual share of the bus at" in found[0].summary
    assert found[0].summary.endswith("ageing joint suspected")


@pytest.mark.parametrize(
    ("seed", "high_a", "low_a", "fallen_v"),
    [(3, 21.0, 18.0, 0.05), (3, 21.0, 18.0, 0.1), (1, 21.0, 15.0, -0.1), (4, 20.0, 13.0, 0.05)],
)
def test_a_set_point_that_moves_steps_of_few_counts_over_the_rounding_of_the_meter_is_no_joint(
    seed: int, high_a: float, low_a: float, fallen_v: float
) -> None:
    bus = Bus(step_a=0.5, meters_at_bus=True)
    moved = replace(bus, open_v=(bus.open_v[0] - fallen_v, *bus.open_v[1:]))
    load_a, at = job(240, high=high_a, low=low_a, seed=seed), rows_of(100.0)
    before, after = (one.frame(load_a, sound(240), seed=seed, noise_a=0.02) for one in (bus, moved))
    frame = replace(before, values=np.concatenate([before.values[:at], after.values[at:]]))
    assert reported(frame) == []


@pytest.mark.parametrize("seed", range(3))
def test_a_joint_a_tenth_up_is_found_within_minutes(seed: int) -> None:
    found = reported(BUS.frame(job(400, seed=seed), worn(400, 1.1, from_s=100.0), seed=seed))
    assert {one.entity_id for one in found} == {supply(0).id}
    assert reported(BUS.frame(job(400, seed=seed), sound(400), seed=seed)) == []


def read_in_turn(frame: Frame) -> Frame:
    """Return the rows of a meter that reads one supply in each, and holds the values of the others."""
    values, n = frame.values.copy(), len(frame.spec.entities)
    fresh = np.zeros(values.shape, dtype=np.bool_)
    for who in range(n):
        own = np.arange(len(frame)) % n == who
        fresh[own, who] = True
        places = np.maximum.accumulate(np.where(own, np.arange(len(frame)), 0))
        values[:, who] = values[places, who]
    return replace(frame, values=values, fresh=fresh)


@pytest.mark.parametrize("pause_s", [60.0, 200.0])
@pytest.mark.parametrize("off", [0.002, 0.005, 0.01, -0.01])
def test_supplies_read_in_turn_that_beat_with_the_steps_of_the_load_have_no_worse_joints(
    off: float, pause_s: float
) -> None:
    """Each supply lies below its siblings for as long as it is read where the load is low, its voltage above them."""
    steady_a, seconds = np.full(rows_of(pause_s), 100.0), 600.0
    phase = np.arange(rows_of(seconds)) / 3.0 * (1.0 + off) % 1.0
    load_a = np.concatenate((steady_a, np.where(phase < 0.6, 150.0, 90.0)))
    frame = BUS.frame(load_a, np.ones((len(load_a), 3)))
    assert reported(read_in_turn(frame)) == []


def test_a_joint_of_supplies_read_in_turn_is_found_under_a_steady_load() -> None:
    frame = read_in_turn(BUS.frame(np.full(rows_of(600.0), 140.0), worn(600.0, 3.0, from_s=150.0)))
    assert {one.entity_id for one in reported(frame)} == {supply(0).id}


@pytest.mark.parametrize("seed", range(5))
def test_voltages_in_steps_of_the_rise_itself_show_none(seed: int) -> None:
    """A loop shares the current, and another job moves each voltage to other steps of its meter."""
    bus = Bus(shared=True, step_v=0.0625, droop_ohm=0.002, joint_ohm=0.001)
    jobs = [job(120, high=60.0, low=40.0, seed=seed), job(120, high=130.0, low=70.0), job(120, high=90.0, low=45.0)]
    load_a = np.concatenate(jobs)
    assert reported(bus.frame(load_a, np.ones((len(load_a), 3)), seed=seed)) == []


@pytest.mark.parametrize("who", [0, 1])
def test_a_contact_of_one_feed_of_mains_is_laid_on_no_other_feed(who: int) -> None:
    """Its own meter lies behind it: the other feed's voltage is higher in proportion to the load."""
    bus = Bus(open_v=(120.0, 120.2), gain_v=(1.0, 1.0), gain_a=(1.0, 1.0), step_v=0.01, step_a=0.01)
    load_a = job(240, high=2.6, low=2.0)
    before = bus.frame(np.zeros(len(load_a)), np.ones((len(load_a), 2)), noise_a=0.0)
    values = before.values.copy()
    volts, amps = (before.spec.signals.index(name) for name in ("voltage_v", "current_a"))
    worn_ohm = np.where((np.arange(len(load_a)) > len(load_a) // 3)[:, np.newaxis] & (np.arange(2) == who), 0.5, 0.3)
    values[:, :, amps] = load_a[:, np.newaxis]
    values[:, :, volts] = np.array(bus.open_v) - worn_ohm * load_a[:, np.newaxis]
    values[:, :, volts] += np.random.default_rng(1).normal(0.0, 0.01, worn_ohm.shape)
    assert reported(replace(before, values=values), node_of(8, 2)) == []


def test_its_incident_is_an_ageing_joint_of_that_supply() -> None:
    found = reported(BUS.frame(job(120), worn(120, 2.0)))
    book = IncidentBook()
    (incident,) = book.step(found, found[-1].time_ns, TOPOLOGY)[-1:]
    assert (incident.cause, incident.entity_id) == (Cause.JOINT_AGEING, supply(0).id)
    best = incident.hypotheses[0]
    assert best.cause is FaultClass.JOINT_AGEING
    assert any("of its usual share" in line for line in best.for_)


def test_the_numbers_are_those_of_the_bus() -> None:
    factors = worn(600, 3.0)
    frame = BUS.frame(job(600), factors, seed=2)
    last = reported(frame)[-1]
    _, before_a = BUS.solved(job(600)[:1000], BUS.joint_ohm * factors[:1000])
    own_v, after_a = BUS.solved(job(600)[-1000:], BUS.joint_ohm * factors[-1000:])
    usual, now = before_a.mean(axis=0) / before_a.mean(), after_a.mean(axis=0) / after_a.mean()
    assert last.number("share_ratio") == pytest.approx(now[0] / usual[0], abs=0.06)
    assert last.number("current_a") == pytest.approx(after_a[:, 0].mean(), rel=0.05)
    assert last.number("siblings") == 2
    risen_v, joint_ohm = last.number("over_siblings_v"), last.number("joint_rise_ohm")
    assert risen_v is not None
    assert joint_ohm is not None
    assert risen_v > 0.05
    # The droop that the lower current takes off the voltage comes on top: it is a lower bound.
    assert 0.2 * 0.018 < joint_ohm < 0.018
    assert own_v.shape == after_a.shape


def test_a_joint_that_is_mended_clears() -> None:
    factors = worn(300, 2.0)
    factors[rows_of(180) :] = 1.0
    found = reported(BUS.frame(job(300), factors))
    assert [one.status for one in found if one.status is not FindingStatus.UPDATED] == [
        FindingStatus.RAISED,
        FindingStatus.CLEARED,
    ]
    assert "carries its usual share of the bus again" in found[-1].summary


def test_joints_that_age_alike_move_no_share() -> None:
    assert reported(BUS.frame(job(240), worn(240, 3.0) ** 0 * np.linspace(1, 3, rows_of(240))[:, np.newaxis])) == []


@pytest.mark.parametrize("step_v", [2.0**-7, 2.0**-4, 0.25])
@pytest.mark.parametrize("seed", range(3))
def test_a_set_point_that_fell_is_no_joint(seed: int, step_v: float) -> None:
    """The share falls by a quarter, and the voltage with it, however coarse its meter."""
    bus = replace(BUS, step_v=step_v)
    sound_rows, fallen = bus.frame(job(60), sound(60)), replace(bus, open_v=(53.8, 54.03, 53.98))
    later = fallen.frame(job(180, seed=seed), sound(180), seed=seed)
    later = replace(later, time_ns=later.time_ns + 60 * NS_PER_S)
    state, found = run(sound_rows, later)
    assert state.test.fall[0] < np.log(0.85)
    assert found == []


def test_a_current_meter_whose_gain_fell_is_no_joint() -> None:
    frame = BUS.frame(job(240), sound(240))
    late = slice(rows_of(60), None)
    shown_a = frame.signal("current_a")[late, 0]
    assert reported(changed(frame, "current_a", late, 0, 0.8 * shown_a)) == []


@pytest.mark.parametrize("seed", range(5))
def test_meters_at_the_common_bus_show_a_joint_by_its_part_in_the_steps_of_the_load(seed: int) -> None:
    bus = replace(BUS, meters_at_bus=True)
    found = reported(bus.frame(job(240, seed=seed), worn(240, 1.5), seed=seed))
    assert {one.entity_id for one in found} == {supply(0).id}
    assert {one.number("joint_extra_w") for one in found} == {None}, "its voltage shows none of the joint's heat"


@pytest.mark.parametrize("seed", range(5))
def test_a_voltage_in_steps_of_a_quarter_volt_decides_nothing(seed: int) -> None:
    """Rounding moves the mean of such a meter by more than the joint does; the currents show it alone."""
    bus = replace(BUS, step_v=0.25)
    found = reported(bus.frame(job(240, seed=seed), worn(240, 2.0), seed=seed))
    assert {one.entity_id for one in found} == {supply(0).id}
    steady = np.full(rows_of(240), 120.0)
    assert reported(bus.frame(steady, worn(240, 2.0), seed=seed)) == []


def shifts(seed: int) -> FloatArray:
    """Return 300 s of a job that changes between two loads every 20 s from the hundredth on."""
    parts = [job(20, high=high, low=0.6 * high, seed=seed) for high in (150.0, 110.0) * 5]
    return np.concatenate((job(100, seed=seed), *parts))


@pytest.mark.parametrize("step_v", [2.0**-9, 2.0**-6])
@pytest.mark.parametrize("seed", range(3))
def test_a_joint_under_a_loop_that_shares_the_current_is_found_by_the_voltage_of_its_output(
    seed: int, step_v: float
) -> None:
    bus = replace(BUS, shared=True, step_v=step_v)
    state, found = run(bus.frame(shifts(seed), worn(300, 3.0), seed=seed))
    assert {one.entity_id for one in found} == {supply(0).id}
    assert abs(state.test.fall[0]) < 0.01
    joint_ohm = found[0].number("joint_rise_ohm")
    assert joint_ohm is not None
    assert 0.5 * 0.018 < joint_ohm < 1.1 * 0.018
    assert "mV higher over its siblings' than usual at" in found[0].summary
    assert found[0].summary.endswith("ageing joint suspected")


@pytest.mark.parametrize("moved_v", [-0.2, 0.2, 0.6])
@pytest.mark.parametrize("shared", [False, True])
def test_a_voltage_meter_whose_offset_moved_is_no_joint(*, moved_v: float, shared: bool) -> None:
    frame = replace(BUS, shared=shared).frame(shifts(0), sound(300))
    late = slice(rows_of(60), None)
    assert reported(changed(frame, "voltage_v", late, 0, frame.signal("voltage_v")[late, 0] + moved_v)) == []


@pytest.mark.parametrize("seed", range(3))
def test_a_voltage_that_hangs_while_the_load_grows_is_no_joint(seed: int) -> None:
    bus = replace(BUS, shared=True, step_v=2.0**-9, droop_ohm=0.02)
    load_a = np.concatenate((job(100, seed=seed), job(10, high=30.0, low=24.0, seed=seed), shifts(seed)[rows_of(90) :]))
    frame = bus.frame(load_a, sound(320), seed=seed)
    late = slice(rows_of(105), None)
    assert reported(changed(frame, "voltage_v", late, 0, frame.signal("voltage_v")[late.start, 0])) == []


@pytest.mark.parametrize("seed", range(3))
def test_a_joint_under_a_loop_is_nothing_at_meters_of_the_bus(seed: int) -> None:
    bus = replace(BUS, shared=True, meters_at_bus=True)
    assert reported(bus.frame(shifts(seed), worn(300, 3.0), seed=seed)) == []


@pytest.mark.parametrize("seed", range(3))
def test_a_set_point_that_fell_at_meters_of_the_bus_is_no_joint_at_any_load(seed: int) -> None:
    bus = replace(BUS, meters_at_bus=True)
    fallen = replace(bus, open_v=(53.9, 54.03, 53.98))
    later = fallen.frame(shifts(seed), sound(300), seed=seed)
    later = replace(later, time_ns=later.time_ns + 60 * NS_PER_S)
    state, found = run(bus.frame(job(60), sound(60)), later)
    assert state.test.cusum.below[0] > 12.0
    assert found == []


LOADS: dict[str, FloatArray] = {
    "twice the load": np.concatenate((job(60), job(180, high=290.0, low=180.0))),
    "little load": np.concatenate((job(60), job(180, high=30.0, low=28.0))),
    "other jobs": np.concatenate([job(20, high=high, low=low) for high, low in ((150, 90), (240, 80), (120, 110)) * 4]),
    "idle, then a job": np.concatenate((job(60, high=24.0, low=23.0), job(180))),
    "a load that stands still": np.full(rows_of(240), 120.0),
}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("spread_v", [0.0, 0.1])
@pytest.mark.parametrize("load", LOADS)
def test_a_load_of_another_shape_is_no_joint(load: str, spread_v: float, seed: int) -> None:
    bus = replace(BUS, open_v=(54.0 - spread_v, 54.03 + spread_v, 53.98))
    amps = LOADS[load]
    assert reported(bus.frame(amps, np.ones((len(amps), 3)), seed=seed)) == []


def test_a_joint_is_found_at_a_load_that_was_learnt_after_the_baseline() -> None:
    load = np.concatenate((job(60), job(240, high=230.0, low=150.0)))
    found = reported(BUS.frame(load, worn(300, 2.0, from_s=180.0)))
    assert {one.entity_id for one in found} == {supply(0).id}
    assert (found[0].time_ns - found[0].since_ns) / NS_PER_S < 120.0


def lost(seconds: float, gone: slice, *, who: int = 1) -> Frame:
    """Return rows in which one supply is off for a while and the others carry its current."""
    load, factors = job(seconds, high=110.0, low=70.0), sound(seconds)
    factors[gone, who] = 1e9
    return BUS.frame(load, factors, noise_a=0.02)


def test_nothing_is_reported_when_a_supply_is_lost_or_comes_back() -> None:
    assert reported(lost(300, slice(rows_of(60), None))) == []
    assert reported(lost(300, slice(rows_of(60), rows_of(64)))) == []
    assert reported(lost(300, slice(rows_of(60), rows_of(120)))) == []


def test_a_supply_that_stays_off_lets_the_others_learn_again() -> None:
    seconds = 60 + (RELEARN_BLOCKS + 2 * LEARN_BLOCKS) * BLOCK_ROWS / RATE_HZ
    state, found = run(lost(seconds, slice(rows_of(60), None)))
    assert found == []
    assert state.usual.carriers.tolist() == [2.0, 3.0, 2.0]
    assert state.usual.known.all()


def test_a_supply_that_was_swapped_is_learnt_again_with_its_bus() -> None:
    out_s = 60 + (SWAPPED_BLOCKS + 3) * BLOCK_ROWS / RATE_HZ
    before = lost(out_s, slice(rows_of(60), None))
    other = replace(BUS, open_v=(54.0, 53.92, 53.98), gain_v=(0.996, 1.006, 1.003)).frame(job(120), sound(120))
    other = replace(other, time_ns=other.time_ns + round(out_s * NS_PER_S))
    state, found = run(before, other)
    assert found == []
    assert state.usual.known.all()
    assert float(np.abs(state.test.fall).max()) < 0.01


def test_a_current_that_hangs_holds_the_judgement_of_its_bus() -> None:
    frame = BUS.frame(np.concatenate((job(60), job(180, high=260.0, low=140.0))), sound(240))
    late = slice(rows_of(58), None)
    assert reported(changed(frame, "current_a", late, 1, 40.0)) == []


def test_a_supply_alone_on_its_bus_is_not_judged() -> None:
    alone = Bus(open_v=(54.0,), gain_v=(1.0,), gain_a=(1.0,))
    state, found = run(alone.frame(job(120, high=60.0, low=30.0), worn(120, 3.0, n=1)), topology=node_of(8, 1))
    assert found == []
    assert not state.usual.known.any()


def test_supplies_of_two_buses_are_no_siblings() -> None:
    """Each of two supplies feeds GPUs of its own, and one job ends."""
    node = Entity(kind=EntityKind.NODE, key="box", name="box")
    supplies, gpus = (supply(0), supply(1)), (gpu(0), gpu(1))
    edges = [(node.id, one.id) for one in supplies] + [(supplies[n].id, gpus[n].id) for n in range(2)]
    topology = Topology(entities=(node, *supplies, *gpus), edges=tuple(edges))
    one = Bus(open_v=(54.0,), gain_v=(1.0,), gain_a=(1.0,))
    loads = job(120, high=60.0, low=40.0), np.concatenate((job(60, high=60.0, low=40.0), job(60, high=30.0, low=25.0)))
    columns: list[Any] = [one.frame(load, sound(120, 1), seed=seed) for seed, load in enumerate(loads)]
    values = np.concatenate([frame.values for frame in columns], axis=1)
    spec = replace(columns[0].spec, entities=supplies)
    rows = Frame(spec=spec, time_ns=columns[0].time_ns, values=values, fresh=np.ones(values.shape, dtype=np.bool_))
    assert reported(rows, topology) == []


def test_what_a_person_accepted_becomes_the_new_baseline() -> None:
    state, found = run(BUS.frame(job(120), worn(120, 2.0)))
    assert found
    state = DETECTOR.accept(state, np.array([True, False, False]))
    assert state.usual.known.tolist() == [False, True, True]
    later = BUS.frame(job(300), worn(300, 2.0, from_s=0.0), seed=5)
    later = replace(later, time_ns=later.time_ns + 120 * NS_PER_S)
    state, after = DETECTOR.step(state, later, TOPOLOGY)
    assert FindingStatus.RAISED not in {one.status for one in after}
    assert state.usual.known.all()


@pytest.mark.parametrize("case", ["swapped columns", "nan storm", "clock back", "negative", "zero", "one voltage"])
def test_nonsense_is_never_worth_a_warning(case: str) -> None:
    frame = BUS.frame(job(120), sound(120))
    values = frame.values.copy()
    match case:
        case "swapped columns":
            values = values[:, :, ::-1]
        case "nan storm":
            values[np.random.default_rng(1).random(values.shape) < 0.9] = np.nan
        case "clock back":
            back = np.where(np.arange(len(frame)) % 50 == 49, 3600, 0) * NS_PER_S
            frame = replace(frame, time_ns=frame.time_ns - back)
        case "negative":
            values[rows_of(60) :, 0] *= -1.0
        case "zero":
            values[rows_of(60) :] = 0.0
        case _:
            values[:, :, 0] = 54.0
    assert reported(replace(frame, values=values)) == []
