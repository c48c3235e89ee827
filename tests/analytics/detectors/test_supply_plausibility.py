from dataclasses import replace

import numpy as np
import pytest

from analytics.detectors.supply_limits import SupplyPlausibilityLimits
from analytics.detectors.supply_plausibility import SupplyPlausibility
from telemetry.entities import EntityKind, Topology
from telemetry.frames import FloatArray, Frame
from telemetry.records import Cause, Finding, FindingStatus
from tests.analytics.detectors import supply_scenes as scenes
from tests.analytics.scenes import frame_of, gpu, node_of, supply


def reported(
    frame: Frame, limits: SupplyPlausibilityLimits | None = None, topology: Topology | None = None
) -> tuple[Finding, ...]:
    detector = SupplyPlausibility(limits=limits or SupplyPlausibilityLimits())
    return detector.step(detector.start(frame.spec), frame, topology or node_of(4, 2))[1]


@pytest.mark.parametrize("seed", range(5))
def test_a_voltage_that_repeats_under_a_moving_load_is_a_fault_of_its_sensor(seed: int) -> None:
    (finding,) = reported(scenes.stuck(seed))
    assert (finding.cause, finding.entity_id) == (Cause.SENSOR_FAULT, supply(0).id)
    assert "voltage repeats" in finding.summary
    assert finding.number("voltage_spread_v") == 0.0


def test_a_sensor_that_moves_again_clears() -> None:
    frame = scenes.stuck(1, rows=slice(60, 240))
    limits = SupplyPlausibilityLimits(clear_after_s=4.0)
    assert [one.status for one in reported(frame, limits)] == [FindingStatus.RAISED, FindingStatus.CLEARED]


def test_a_current_that_repeats_is_reported_too() -> None:
    amps = scenes.load(2)
    volts = scenes.rail(amps, seed=2)
    amps[160:, 1] = 50.0
    (finding,) = reported(scenes.frame(volts, amps))
    assert finding.entity_id == supply(1).id
    assert "current repeats" in finding.summary


def behind_coarse_volts(seed: int, *, n_supplies: int, other_a: FloatArray | None = None) -> Frame:
    """Return two minutes of supplies whose voltage hardly moves; half-way the current of the first repeats.

    `other_a` is the current of the last one, on another bus without described wiring; None for the load of all.
    """
    rng = np.random.default_rng(seed)
    amps = np.repeat(np.repeat(rng.choice([40.0, 70.0], 480), 5)[:, np.newaxis], n_supplies, axis=1)
    if other_a is not None:
        amps[:, -1] = other_a
    amps = np.round((amps + rng.normal(0.0, 0.3, amps.shape)) / 0.25) * 0.25
    volts = np.round((12.2051 - 0.0002 * amps + rng.normal(0.0, 0.001, amps.shape)) / 0.0156) * 0.0156
    amps[1200:, 0] = amps[1200, 0]
    members = tuple(supply(one) for one in range(n_supplies))
    return frame_of(EntityKind.SUPPLY, members, {"voltage_v": volts, "current_a": amps}, rate_hz=scenes.RATE_HZ)


@pytest.mark.parametrize("seed", range(3))
def test_a_current_that_repeats_is_reported_by_its_bus_where_the_voltage_hardly_moves(seed: int) -> None:
    found = reported(behind_coarse_volts(seed, n_supplies=3), topology=node_of(4, 3))
    assert [one.entity_id for one in found if "current repeats" in one.summary] == [supply(0).id]


def test_a_constant_current_beside_one_that_rests_too_or_beside_a_single_one_is_no_fault() -> None:
    resting = np.where(np.arange(2400) < 1200, np.repeat(np.arange(480) % 2 * 30.0 + 40.0, 5), 40.0)
    for frame, n in (
        (behind_coarse_volts(1, n_supplies=3, other_a=resting), 3),
        (behind_coarse_volts(1, n_supplies=2), 2),
    ):
        found = reported(frame, topology=node_of(4, n))
        assert not [one for one in found if "current repeats" in one.summary]


def test_a_constant_coarse_voltage_of_an_idle_supply_is_no_fault() -> None:
    amps = scenes.load(3)
    amps[160:] = 36.0 + np.random.default_rng(1).normal(0, 0.05, (240, 2))
    volts = np.round(scenes.rail(amps, seed=3) / 0.063) * 0.063
    assert reported(scenes.frame(volts, amps)) == ()


@pytest.mark.parametrize("open_v", np.arange(50.0, 50.25, 0.05))
def test_a_constant_coarse_current_is_no_fault_while_the_job_of_another_bus_goes_on(open_v: float) -> None:
    """Supplies 0 and 1 have a bus, 2 and 3 another one; all are read once a second by coarse meters."""
    rng = np.random.default_rng(2)
    node, *members = node_of(0, 4).entities
    gpus = tuple(gpu(number) for number in range(4))
    edges = [(node.id, one.id) for one in members]
    edges += [(members[place].id, gpus[place // 2 * 2 + side].id) for place in range(4) for side in range(2)]
    load_a = rng.uniform(9.0, 21.0, (1200, 2))
    load_a[600:, 0] = 9.0
    amps = np.repeat(load_a, 2, axis=1) + rng.normal(0, 0.04, (1200, 4))
    volts = open_v - 0.01 * amps + rng.normal(0, 0.01, (1200, 4))
    coarse = {"voltage_v": np.round(volts / 0.25) * 0.25, "current_a": np.round(amps / 0.5) * 0.5}
    frame = frame_of(EntityKind.SUPPLY, tuple(members), coarse, rate_hz=1.0)
    assert reported(frame, topology=Topology(entities=(node, *members, *gpus), edges=tuple(edges))) == ()


def test_a_current_that_comes_late_from_some_moment_on_is_reported_and_not_a_loose_contact() -> None:
    amps = scenes.load(4)
    volts = scenes.rail(amps, seed=4)
    late = amps.copy()
    late[160:, 0] = amps[158:-2, 0]
    (finding,) = reported(scenes.frame(volts, late))
    assert "no longer taken together" in finding.summary
    flicker = 1.0 + np.random.default_rng(5).choice([-0.3, 0.3], size=(scenes.ROWS, 1))
    loose = scenes.rail(amps, seed=4, ohm=0.005 * np.where(np.arange(scenes.ROWS)[:, None] < 160, 1.0, flicker))
    assert reported(scenes.frame(loose, amps)) == ()


def pmbus(seed: int, *, swing_a: float = 8.0, delay_s: float = 0.023) -> Frame:
    """Return five minutes of two stiff 54 V supplies that convert in turn: coarse steps, and a current that is late."""
    rng = np.random.default_rng(seed)
    milliseconds = np.arange(300_000)
    phase = milliseconds / 1000.0 / rng.uniform(0.8, 6.0) % 1.0
    truth_a = np.where(phase < 0.7, 24.0 + swing_a, 24.0)
    read_ms = np.arange(50, 300_000, 50) + np.array([[0], [17]])
    read_ms = np.minimum(read_ms, 299_999).T
    volts = 54.0 - 0.008 * truth_a[read_ms] + rng.normal(0, 0.005, read_ms.shape)
    amps = truth_a[np.maximum(read_ms - round(1000 * delay_s), 0)] + rng.normal(0, 0.1, read_ms.shape)
    return scenes.frame(np.round(volts / 0.0078125) * 0.0078125, np.round(amps / 0.25) * 0.25)


@pytest.mark.parametrize("swing_a", [1.0, 2.0, 8.0])
@pytest.mark.parametrize("seed", range(5))
def test_a_stiff_rail_of_coarse_meters_that_convert_in_turn_is_no_fault(seed: int, swing_a: float) -> None:
    assert reported(pmbus(seed, swing_a=swing_a)) == ()


def test_a_job_that_blurs_the_pairs_of_all_supplies_is_no_fault() -> None:
    calm, steps = pmbus(1, delay_s=0.0), pmbus(2, delay_s=0.045)
    volts, amps = (np.concatenate((calm.signal(name), steps.signal(name))) for name in ("voltage_v", "current_a"))
    assert reported(scenes.frame(volts, amps)) == ()


@pytest.mark.parametrize(("gain", "is_reported"), [(1.0, False), (1.04, False), (1.12, True), (0.85, True)])
def test_power_that_differs_for_long_from_voltage_times_current_is_reported(gain: float, *, is_reported: bool) -> None:
    amps = scenes.load(5)
    volts = scenes.rail(amps, seed=5)
    smooth_w = np.full(amps.shape, float((amps * volts).mean()))
    found = reported(scenes.frame(volts, amps, power_w=smooth_w * gain), SupplyPlausibilityLimits(power_hold_s=8.0))
    assert bool(found) is is_reported
    assert all("power differs" in one.summary for one in found)


def test_a_meter_that_stops_while_the_load_is_steady_is_reported_by_its_noise() -> None:
    rng = np.random.default_rng(1)
    amps = np.full((800, 2), 36.0) + rng.normal(0, 0.05, (800, 2))
    volts = 12.0 + rng.normal(0, 0.004, (800, 2))
    assert reported(scenes.frame(volts, amps)) == ()
    volts[600:, 0] = volts[599, 0]
    (finding,) = reported(scenes.frame(volts, amps))
    assert "voltage repeats" in finding.summary


def test_small_powers_are_compared_where_the_meters_agreed_before() -> None:
    amps = np.full((1600, 2), 0.5) + np.random.default_rng(1).normal(0, 0.01, (1600, 2))
    volts = scenes.rail(amps, seed=1)
    watts = amps * volts
    watts[800:] *= 1.15
    limits = SupplyPlausibilityLimits(power_hold_s=8.0)
    assert "power differs" in reported(scenes.frame(volts, amps, power_w=watts), limits)[0].summary
    assert reported(scenes.frame(volts, amps, power_w=amps * volts * 1.15), limits) == ()


def test_an_offset_of_the_current_is_no_gain_at_a_light_load() -> None:
    """A shelf of 48 V at 4 A a supply: a third of an ampere is 8 % of it, and nothing of the load of a job."""
    truth_a = np.where(np.arange(1600)[:, np.newaxis] < 400, 40.0, 4.0) * np.ones((1, 2))
    amps = truth_a + 0.33 + np.random.default_rng(1).normal(0, 0.05, (1600, 2))
    volts = 48.0 - 0.004 * truth_a
    limits = SupplyPlausibilityLimits(power_hold_s=8.0)
    assert reported(scenes.frame(volts, amps, power_w=volts * truth_a), limits) == ()
    assert "power differs" in reported(scenes.frame(volts, amps, power_w=volts * truth_a * 1.15), limits)[0].summary


@pytest.mark.parametrize(("own_w", "is_reported"), [(0.0, False), (600.0, True), (np.nan, True)])
def test_a_current_of_nothing_is_no_repeating_one_where_its_own_power_is_nothing_too(
    own_w: float, *, is_reported: bool
) -> None:
    """The load fell as the supply went to sleep, so that what the others carry shows nothing."""
    amps = scenes.load(2)
    volts = scenes.rail(amps, seed=2)
    amps[160:, 1], watts = 0.0, amps * volts
    watts[160:, 1] = own_w
    found = reported(scenes.frame(volts, amps, power_w=watts), SupplyPlausibilityLimits(power_hold_s=600.0))
    assert [one.entity_id for one in found] == [supply(1).id] * is_reported


def test_a_voltage_of_nothing_is_that_of_an_output_that_is_off() -> None:
    rng = np.random.default_rng(1)
    amps = np.full((800, 2), 36.0) + rng.normal(0, 0.05, (800, 2))
    volts = 12.0 + rng.normal(0, 0.004, (800, 2))
    amps[600:] += [-36.0, 36.0]
    volts[600:, 0] = 0.0
    assert reported(scenes.frame(volts, amps)) == ()


def test_a_power_that_is_read_rarely_beats_with_the_steps_of_the_load() -> None:
    """Twenty pairs a step of the load, and one power: all powers are of its upper half, for minutes."""
    rows = np.arange(4000)[:, np.newaxis]
    amps = np.where(rows % 20 < 10, 60.0, 40.0) + np.random.default_rng(1).normal(0.0, 0.2, (4000, 2))
    volts = 12.0 - 0.001 * amps
    watts = (amps * volts)[rows[:, 0] // 20 * 20]
    fresh = np.ones((4000, 2, 3), dtype=np.bool_)
    fresh[:, :, 2] = rows % 20 == 0
    frame = scenes.frame(volts, amps, power_w=watts)
    limits = SupplyPlausibilityLimits(power_hold_s=8.0)
    assert reported(replace(frame, fresh=fresh), limits) == ()
    assert reported(frame, limits)


def idle_after_a_job(seed: int) -> Frame:
    """Return five minutes of two 54 V supplies whose job ends half-way: the current is one step of the meter then."""
    rng = np.random.default_rng(seed)
    rows = np.arange(6000)[:, np.newaxis]
    steps_a = np.where(rows % 20 < 13, 9.0, 5.0) + rng.normal(0, 0.7, (6000, 1))
    truth_a = np.where(rows < 3000, steps_a, 2.9)
    amps = truth_a + rng.normal(0, 0.02, (6000, 2))
    volts = 54.0 - 0.005 * truth_a + rng.normal(0, 0.008, (6000, 2))
    return scenes.frame(np.round(volts / 0.0039) * 0.0039, np.round(amps / 0.5) * 0.5)


@pytest.mark.parametrize("seed", range(3))
def test_a_coarse_current_of_idle_supplies_is_no_fault_however_noisy_their_voltage(seed: int) -> None:
    assert reported(idle_after_a_job(seed)) == ()


def test_a_sag_of_the_input_is_no_usual_movement_of_a_coarse_voltage() -> None:
    rng = np.random.default_rng(5)
    rows = np.arange(1200)[:, np.newaxis]
    sags = rows >= 800
    amps = np.where(rows % 20 < 13, 30.0, 24.0) * np.where(sags, 1.05, 1.0) + rng.normal(0, 0.3, (1200, 2))
    open_v = 12.03 - np.where(sags, 0.6, 0.0)
    volts = np.round((open_v - amps * [0.002, 0.04] + rng.normal(0, 0.002, (1200, 2))) / 0.0625) * 0.0625
    frame = scenes.frame(volts, amps)
    detector = SupplyPlausibility(limits=SupplyPlausibilityLimits())
    state, found = detector.step(detector.start(frame.spec), frame, node_of(4, 2))
    assert found == ()
    assert (state.usual_v < 0.13).all()


def test_a_supply_that_is_off_is_no_stuck_meter_where_another_bus_changes_its_load() -> None:
    rng = np.random.default_rng(6)
    rows = np.arange(2400)[:, np.newaxis]
    load_a = np.where(rows % 20 < 13, 40.0, 30.0) + rng.normal(0, 0.3, (2400, 1))
    off = rows >= 1200
    own_a, sibling_a = np.where(off, 0.0, load_a), np.where(off, 2 * load_a, load_a)
    others_a = np.repeat(np.where(off, 0.5 * load_a, load_a), 2, axis=1)
    amps = np.round(np.concatenate((own_a, sibling_a, others_a), axis=1) / 0.5) * 0.5
    volts = 12.2 - 0.004 * amps[:, [1, 1, 2, 3]] + rng.normal(0, 0.004, amps.shape)
    members = tuple(supply(one) for one in range(4))
    frame = frame_of(EntityKind.SUPPLY, members, {"voltage_v": volts, "current_a": amps}, rate_hz=scenes.RATE_HZ)
    detector = SupplyPlausibility(limits=SupplyPlausibilityLimits())
    whole = node_of(2, 4)
    feeds = [(supply(one).id, gpu(one // 2).id) for one in range(4)]
    kept = [edge for edge in whole.edges if edge[0] not in {one.id for one in members}]
    two_buses = replace(whole, edges=(*kept, *feeds))
    assert detector.step(detector.start(frame.spec), frame, two_buses)[1] == ()


def late_on_a_bus_of_four(*, step_v: float) -> Frame:
    """Return two minutes of four supplies of one bus; half-way the current of the first comes late by a quarter second.

    The meters of their voltages have steps of `step_v`.
    """
    rng = np.random.default_rng(7)
    rows = np.arange(2400)
    steps_a = np.repeat(rng.choice([10.0, 40.0], 480), 5)
    truth_a = np.repeat(steps_a[:, np.newaxis], 4, axis=1)
    amps = truth_a + rng.normal(0.0, 0.3, truth_a.shape)
    amps[1200:, 0] = amps[rows[1200:] - 5, 0]
    volts = np.round((12.2 - 0.002 * truth_a + rng.normal(0.0, step_v, truth_a.shape)) / step_v) * step_v
    members = tuple(supply(one) for one in range(4))
    return frame_of(EntityKind.SUPPLY, members, {"voltage_v": volts, "current_a": amps}, rate_hz=scenes.RATE_HZ)


@pytest.mark.parametrize(
    ("step_v", "seen"), [(0.004, "no longer taken together (correlation"), (0.0625, "no longer follows its bus (")]
)
def test_a_late_current_is_reported_with_what_showed_it(step_v: float, seen: str) -> None:
    frame = late_on_a_bus_of_four(step_v=step_v)
    detector = SupplyPlausibility(limits=SupplyPlausibilityLimits())
    (finding,) = detector.step(detector.start(frame.spec), frame, node_of(4, 4))[1]
    assert finding.entity_id == supply(0).id
    assert seen in finding.summary
    assert (finding.number("bus_unexplained_ratio") or 0.0) > 0.5


def test_a_voltage_that_falls_while_its_current_stays_is_reported_with_both_values_and_clears() -> None:
    frame = late_on_a_bus_of_four(step_v=0.004)
    values = frame.values[:1200].repeat(2, axis=0).copy()
    values[600:1200, 0, frame.spec.signals.index("voltage_v")] *= 0.97
    gain = replace(frame, values=values)
    detector = SupplyPlausibility(limits=SupplyPlausibilityLimits())
    raised, cleared = detector.step(detector.start(gain.spec), gain, node_of(4, 4))[1]
    assert (raised.status, raised.entity_id) == (FindingStatus.RAISED, supply(0).id)
    assert "voltage fell from 12.1" in raised.summary
    assert "V at the same current: its meter" in raised.summary
    assert cleared.status is FindingStatus.CLEARED


def test_a_current_that_leaves_its_bus_with_its_share_has_a_loose_joint_and_is_not_late() -> None:
    rng = np.random.default_rng(3)
    total_a = 2.0 * np.repeat(rng.choice([10.0, 40.0], 480), 5)
    own = np.full(2400, 0.5)
    own[1200:] = 0.5 * np.repeat(rng.uniform(0.2, 0.9, 240), 5)
    truth_a = np.stack((own, 1.0 - own), axis=1) * total_a[:, np.newaxis]
    amps = truth_a + rng.normal(0.0, 0.2, truth_a.shape)
    volts = 12.3 - 0.005 * truth_a + rng.normal(0.0, 0.01, amps.shape)
    volts[1200:, 0] = 12.3 - 0.0025 * total_a[1200:] + rng.normal(0.0, 0.01, 1200)  # not by its own current
    columns = {"voltage_v": volts, "current_a": amps}
    frame = frame_of(EntityKind.SUPPLY, (supply(0), supply(1)), columns, rate_hz=scenes.RATE_HZ)
    detector = SupplyPlausibility(limits=SupplyPlausibilityLimits())
    assert detector.step(detector.start(frame.spec), frame, node_of(2, 2))[1] == ()
