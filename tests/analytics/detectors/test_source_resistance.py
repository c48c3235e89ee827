from dataclasses import replace

import numpy as np
import pytest

from analytics.detectors.source_resistance import SourceResistance, SourceResistanceState
from analytics.detectors.supply_limits import SourceResistanceLimits
from telemetry.clock import NS_PER_S
from telemetry.entities import EntityKind, Topology
from telemetry.frames import Frame
from telemetry.records import Cause, Finding, FindingStatus, Severity
from tests.analytics.detectors import supply_scenes as scenes
from tests.analytics.scenes import frame_of, gpu, node_of, supply
from tests.analytics.supply.share_rows import Bus, job, worn

TOPOLOGY = node_of(4, 2)
DETECTOR = SourceResistance(limits=SourceResistanceLimits())


def reported(
    *frames: Frame, state: SourceResistanceState | None = None, topology: Topology = TOPOLOGY
) -> tuple[Finding, ...]:
    state = DETECTOR.start(frames[0].spec) if state is None else state
    found: list[Finding] = []
    for frame in frames:
        state, more = DETECTOR.step(state, frame, topology)
        found.extend(more)
    return tuple(found)


def sensors_in_turn(frame: Frame) -> Frame:
    """Return each row twice: first one supply's sensors are read, then the other's, and what was not read is held."""
    values, times_ns = np.repeat(frame.values, 2, axis=0), np.repeat(frame.time_ns, 2)
    values[2::2, 1] = values[1:-1:2, 1]
    fresh = np.zeros(values.shape, dtype=np.bool_)
    fresh[::2, 0], fresh[1::2, 1] = True, True
    times_ns[1::2] += (frame.time_ns[1] - frame.time_ns[0]) // 2
    return replace(frame, values=values, time_ns=times_ns, fresh=fresh)


@pytest.mark.parametrize("seed", range(10))
def test_a_joint_that_works_loose_is_reported_of_its_own_supply_with_the_numbers(seed: int) -> None:
    (finding,) = reported(scenes.ageing(seed))
    assert (finding.cause, finding.entity_id) == (Cause.JOINT_AGEING, supply(0).id)
    assert finding.severity is Severity.WARNING
    assert finding.number("rise_ratio") == pytest.approx(1.6, rel=0.06)
    assert finding.number("baseline_ohm") == pytest.approx(0.005, rel=0.05)
    assert finding.number("open_circuit_v") == pytest.approx(12.3, abs=0.04)
    assert finding.since_ns < finding.time_ns
    assert "ageing joint suspected" in finding.summary


def coarse(*parts: tuple[float, float, float], step_v: float = 0.0625, noise_v: float = 0.002) -> Frame:
    """Return jobs of ``(seconds, low, high)`` amperes on a sound supply of 5 milliohm with a voltmeter of 62.5 mV."""
    rng, rate_hz = np.random.default_rng(5), 20.0
    amps = np.concatenate(
        [np.where(np.arange(round(s * rate_hz)) % 20 < 12, high, low) for s, low, high in parts]
    ) + rng.normal(0.0, 0.1, round(sum(s for s, _, _ in parts) * rate_hz))
    volts = 12.3 - 0.005 * amps + rng.normal(0.0, noise_v, len(amps))
    columns = {"voltage_v": np.round(volts / step_v) * step_v, "current_a": amps}
    columns = {name: np.repeat(values[:, np.newaxis], 2, axis=1) for name, values in columns.items()}
    return frame_of(EntityKind.SUPPLY, (supply(0), supply(1)), columns, rate_hz=rate_hz)


@pytest.mark.parametrize("high_a", [64.0, 66.0, 68.0, 70.0])
def test_a_job_at_other_levels_of_a_coarse_voltmeter_is_no_joint(high_a: float) -> None:
    """The load moves the voltage by two steps of its meter: they show three at the levels of another job."""
    frame = coarse((60.0, 41.0, 63.0), (60.0, 40.0, high_a))
    assert [one for one in reported(frame) if one.cause is Cause.JOINT_AGEING] == []


def test_noise_as_large_as_the_steps_makes_a_coarse_voltmeter_as_good_as_a_fine_one() -> None:
    frame = coarse((60.0, 20.0, 90.0), (60.0, 20.0, 90.0), noise_v=0.06)
    aged = replace(frame, values=frame.values.copy())
    volts, amps = (frame.spec.signals.index(name) for name in ("voltage_v", "current_a"))
    after = len(frame) // 2
    aged.values[after:, 0, volts] -= np.round(0.005 * aged.values[after:, 0, amps] / 0.0625) * 0.0625
    assert {one.entity_id for one in reported(aged) if one.cause is Cause.JOINT_AGEING} == {supply(0).id}


@pytest.mark.parametrize("seed", range(3))
def test_supplies_that_all_fall_steeply_at_more_current_than_ever_have_no_worse_joints(seed: int) -> None:
    assert reported(scenes.at_limit(seed)) == ()


def test_one_supply_that_falls_more_steeply_under_a_larger_load_has_a_worse_joint() -> None:
    assert {one.entity_id for one in reported(scenes.at_limit(1, one_alone=True))} == {supply(0).id}


@pytest.mark.parametrize("at_bus", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_a_joint_under_a_loop_that_shares_the_current_is_laid_on_no_other_supply(seed: int, *, at_bus: bool) -> None:
    """The voltage of all siblings falls more steeply than before, by a third of the joint: all at the bus, or none."""
    bus = Bus(shared=True, meters_at_bus=at_bus, step_v=2.0**-9)
    frame = bus.frame(job(240, seed=seed), worn(240, 4.0), seed=seed)
    found = {one.entity_id for one in reported(frame, topology=node_of(4, 3)) if one.cause is Cause.JOINT_AGEING}
    assert found == ({supply(number).id for number in range(3)} if at_bus else set())


@pytest.mark.parametrize("seed", range(10))
def test_a_path_that_is_a_tenth_up_within_seconds_is_left_to_the_hours(seed: int) -> None:
    assert reported(scenes.ageing(seed, times=1.1)) == ()


def test_a_path_that_was_weak_from_its_first_day_is_not_reported() -> None:
    amps = scenes.load(3)
    assert reported(scenes.frame(scenes.rail(amps, seed=3, ohm=0.013), amps)) == ()


@pytest.mark.parametrize("seed", range(10))
def test_a_supply_that_goes_off_is_reported_within_a_second_and_not_its_sibling(seed: int) -> None:
    (finding,) = reported(scenes.lost(seed))
    assert (finding.cause, finding.entity_id) == (Cause.SUPPLY_LOST, supply(1).id)
    assert finding.severity is Severity.CRITICAL
    assert finding.time_ns - finding.since_ns <= NS_PER_S


@pytest.mark.parametrize(("gpus_w", "is_lost"), [(500.0, False), (1000.0, True)])
def test_a_supply_may_be_asleep_while_its_gpus_draw_less_than_half_of_their_limits(
    gpus_w: float, *, is_lost: bool
) -> None:
    """The load is what it was all the time: nothing else shows that it is a light one."""
    frame = scenes.lost(3)
    volts, amps = frame.signal("voltage_v"), frame.signal("current_a")
    watts, limits_w = np.full(volts.shape, gpus_w), np.full(volts.shape, 1400.0)
    found = reported(scenes.frame(volts, amps, gpus_w=watts, gpus_limit_w=limits_w))
    assert any(one.cause is Cause.SUPPLY_LOST for one in found) is is_lost


def test_a_supply_that_goes_off_is_reported_though_another_bus_idles() -> None:
    """By the current of the whole node such a load is light, and the supply might sleep."""
    rows = 1600
    amps = np.concatenate(
        (scenes.load(3, rows, low=36.0, high=44.0), scenes.load(4, rows, low=36.0, high=44.0)), axis=1
    )
    amps[600:, 2:] /= 20.0
    amps[1400:, 1] *= 1.8
    amps[1400:, 0] = np.random.default_rng(5).normal(0.0, 0.02, rows - 1400)
    volts = 12.2 - scenes.OHM * amps[:, [1, 1, 2, 3]] + np.random.default_rng(6).normal(0.0, 0.004, amps.shape)
    frame = frame_of(EntityKind.SUPPLY, tuple(supply(n) for n in range(4)), {"voltage_v": volts, "current_a": amps})
    assert {one.entity_id for one in reported(frame, topology=two_buses()) if one.cause is Cause.SUPPLY_LOST} == {
        supply(0).id
    }


def with_another_bus(others_ratio: float, *, loses: bool = True) -> Frame:
    """Return the rows of two buses: on one supply 0 carries nothing from row 600 on, on the other the load changes.

    Its sibling takes over where the supply is lost, else its meter hangs at nothing. The other bus carries
    `others_ratio` times its load from then on.
    """
    rows, rng = 900, np.random.default_rng(6)
    amps = np.concatenate(
        (scenes.load(3, rows, low=36.0, high=44.0), scenes.load(4, rows, low=36.0, high=44.0)), axis=1
    )
    amps[600:, 2:] *= others_ratio
    through_a = amps.copy()
    if loses:
        amps[600:, 1] += amps[600:, 0]
        through_a[600:, 1] = amps[600:, 1]
    amps[600:, 0] = rng.normal(0.0, 0.02, rows - 600) if loses else 0.0
    if loses:
        through_a[600:, 0] = through_a[600:, 1]
    volts = 12.2 - scenes.OHM * through_a + rng.normal(0.0, 0.004, amps.shape)
    return frame_of(EntityKind.SUPPLY, tuple(supply(n) for n in range(4)), {"voltage_v": volts, "current_a": amps})


@pytest.mark.parametrize("others_ratio", [0.05, 0.5, 1.6])
def test_a_supply_that_goes_off_is_reported_as_soon_whatever_another_bus_does(others_ratio: float) -> None:
    steady, changing = (
        [one for one in reported(with_another_bus(ratio), topology=two_buses()) if one.cause is Cause.SUPPLY_LOST]
        for ratio in (1.0, others_ratio)
    )
    assert [one.entity_id for one in steady] == [supply(0).id]
    assert [(one.entity_id, one.time_ns) for one in changing] == [(supply(0).id, steady[0].time_ns)]


@pytest.mark.parametrize("others_ratio", [1.0, 1.6, 2.5])
def test_a_meter_that_hangs_at_nothing_is_no_lost_supply_though_another_bus_draws_more(
    others_ratio: float,
) -> None:
    found = reported(with_another_bus(others_ratio, loses=False), topology=two_buses())
    assert Cause.SUPPLY_LOST not in {one.cause for one in found}


def alone_on_its_bus(*, own_v: float, noise_a: float, others_ratio: float) -> Frame:
    """Return the rows of two buses, one of which has supply 0 alone: from row 600 on it shows no current.

    Its voltage is `own_v` from then on, and the other bus carries `others_ratio` times its load.
    """
    rows, rng = 900, np.random.default_rng(6)
    amps = np.concatenate(
        (scenes.load(3, rows, low=36.0, high=44.0), scenes.load(4, rows, low=36.0, high=44.0)), axis=1
    )
    amps[600:, 2:] *= others_ratio
    volts = 12.2 - scenes.OHM * amps
    amps[600:, 0], volts[600:, 0] = 0.0, own_v
    amps, volts = amps[:, [0, 2, 3]], volts[:, [0, 2, 3]]
    amps[600:, 0] += rng.normal(0.0, 1.0, rows - 600) * noise_a
    volts += rng.normal(0.0, 0.004, volts.shape)
    return frame_of(EntityKind.SUPPLY, tuple(supply(n) for n in (0, 2, 3)), {"voltage_v": volts, "current_a": amps})


@pytest.mark.parametrize("others_ratio", [0.3, 1.0, 1.6])
def test_a_supply_alone_on_its_bus_is_lost_once_its_output_is_gone_while_the_node_runs(others_ratio: float) -> None:
    frame = alone_on_its_bus(own_v=0.1, noise_a=0.02, others_ratio=others_ratio)
    (finding,) = (one for one in reported(frame, topology=two_buses()) if one.cause is Cause.SUPPLY_LOST)
    assert finding.entity_id == supply(0).id
    assert finding.summary.endswith("supply off or disconnected; alone on its bus")


@pytest.mark.parametrize("others_ratio", [1.0, 1.6, 2.5])
def test_a_meter_that_hangs_at_nothing_alone_on_its_bus_is_no_lost_supply(others_ratio: float) -> None:
    frame = alone_on_its_bus(own_v=11.8, noise_a=0.0, others_ratio=others_ratio)
    assert Cause.SUPPLY_LOST not in {one.cause for one in reported(frame, topology=two_buses())}


def two_buses() -> Topology:
    """Return a node with two supplies and two GPUs on each of two buses."""
    whole = node_of(4, 4)
    feeds = [edge for edge in whole.edges if edge[1].startswith("supply:")]
    links = [(supply(n).id, gpu(2 * (n // 2) + one).id) for n in range(4) for one in range(2)]
    return replace(whole, edges=(*feeds, *links))


def test_a_current_sensor_that_shows_nothing_is_no_lost_supply() -> None:
    assert reported(scenes.lost(1, taken_over=False)) == ()


def test_a_load_that_ends_is_no_lost_supply() -> None:
    amps = scenes.load(2)
    amps[200:] = np.random.default_rng(0).normal(1.0, 0.1, (200, 2))
    assert reported(scenes.frame(scenes.rail(amps, seed=2), amps)) == ()


def off_as_the_job_ends(seed: int, *, own_v: float, noise_a: float = 0.02) -> Frame:
    """Return a frame in which the second supply goes off as the load falls to less than each carried.

    The load never steps before, so that no source resistance is known.
    """
    rng = np.random.default_rng(seed)
    amps = 30.0 + rng.normal(0.0, 0.5, (scenes.ROWS, 2))
    amps[200:, 0] -= 10.0
    amps[200:, 1] = rng.normal(0.0, noise_a, scenes.ROWS - 200)
    volts = scenes.rail(amps, seed=seed)
    volts[200:, 1] = own_v
    return scenes.frame(volts, amps)


@pytest.mark.parametrize("seed", range(5))
def test_a_supply_that_goes_off_as_a_job_ends_is_reported_by_its_own_output(seed: int) -> None:
    (finding,) = reported(off_as_the_job_ends(seed, own_v=0.0))
    assert (finding.cause, finding.entity_id) == (Cause.SUPPLY_LOST, supply(1).id)
    assert (finding.time_ns - finding.since_ns) / NS_PER_S < 1.2


def test_a_supply_whose_readings_all_hang_at_nothing_as_a_job_ends_is_not_reported_lost() -> None:
    assert reported(off_as_the_job_ends(1, own_v=0.0, noise_a=0.0)) == ()


def test_a_supply_that_idles_with_its_output_up_is_not_reported_lost() -> None:
    assert reported(off_as_the_job_ends(1, own_v=12.3)) == ()


@pytest.mark.parametrize("in_turn", [False, True])
def test_a_supply_that_comes_back_clears_after_some_seconds(*, in_turn: bool) -> None:
    amps, gone = scenes.load(4), slice(160, 200)
    volts = scenes.rail(amps, seed=4)
    amps[gone, 0], amps[gone, 1] = amps[gone, 0] * 2.0, np.random.default_rng(0).normal(0.0, 0.02, 40)
    frame = scenes.frame(volts, amps)
    found = reported(sensors_in_turn(frame) if in_turn else frame)
    assert [one.status for one in found if one.cause is Cause.SUPPLY_LOST] == [
        FindingStatus.RAISED,
        FindingStatus.CLEARED,
    ]


@pytest.mark.parametrize("seed", range(5))
def test_mains_that_sag_are_reported_on_every_supply_and_never_as_ageing(seed: int) -> None:
    found = reported(scenes.input_sag(seed))
    assert {one.cause for one in found} == {Cause.INPUT_SAG}
    assert {one.entity_id for one in found} == {supply(0).id, supply(1).id}
    assert found[0].number("fallen_v") == pytest.approx(0.3, abs=0.05)


@pytest.mark.parametrize(("fall_v", "reported_on"), [(0.3, 0), (0.9, 2)])
def test_a_rail_of_54_v_sags_by_as_many_times_more(fall_v: float, reported_on: int) -> None:
    amps = scenes.load(1)
    open_v = np.full(amps.shape, 54.0)
    open_v[200:] -= fall_v
    found = reported(scenes.frame(scenes.rail(amps, seed=1, open_v=open_v), amps))
    assert len({one.entity_id for one in found if one.cause is Cause.INPUT_SAG}) == reported_on


def test_one_supply_whose_set_point_fell_is_no_sag_of_the_mains() -> None:
    assert reported(scenes.input_sag(1, both=False)) == ()


def test_a_voltage_that_falls_beside_a_sibling_of_unknown_path_that_does_not_is_no_input_sag() -> None:
    sag = scenes.input_sag(1, both=False)
    steady = sag.values.copy()
    steady[:, 1, sag.spec.signals.index("current_a")] = 50.0
    steady[:, 1, sag.spec.signals.index("voltage_v")] = np.where(np.arange(len(sag)) % 2, 12.05, 12.06)
    assert reported(replace(sag, values=steady)) == ()


def test_one_sensor_for_a_whole_rail_reports_a_lost_supply_by_the_step_of_its_resistance() -> None:
    amps = scenes.load(5)[:, :1]
    ohm = np.where(np.arange(scenes.ROWS) < 160, 0.003, 0.006)[:, np.newaxis]
    columns = {"voltage_v": scenes.rail(amps, seed=5, ohm=ohm), "current_a": amps}
    rail = frame_of(EntityKind.SUPPLY, (supply(0),), columns, rate_hz=scenes.RATE_HZ)
    state = DETECTOR.start(rail.spec)
    _, found = DETECTOR.step(state, rail, node_of(4, 1))
    assert [one.cause for one in found] == [Cause.SUPPLY_LOST]


def weeks(*, seed: int, days: float, rise: float, from_day: float) -> Frame:
    """Return a pair read every ten minutes for weeks, in which the first path's resistance rises."""
    rows = int(days * 144)
    rng = np.random.default_rng(seed)
    amps = rng.choice([36.0, 62.0, 74.0], size=(rows, 1)) + rng.normal(0, 0.3, (rows, 2))
    day = np.arange(rows)[:, np.newaxis] / 144.0
    grown = 1.0 + (rise - 1.0) * np.clip((day - from_day) / max(days - from_day, 1e-9), 0.0, 1.0)
    ohm = 0.005 * np.where(np.arange(2) == 0, grown, 1.0)
    columns = {"voltage_v": 12.3 - ohm * amps + rng.normal(0, 0.006, (rows, 2)), "current_a": amps}
    return frame_of(EntityKind.SUPPLY, scenes.MEMBERS, columns, rate_hz=1 / 600)


@pytest.mark.parametrize("seed", range(3))
def test_a_joint_that_ages_over_weeks_is_found_on_its_way_to_a_tenth(seed: int) -> None:
    found = reported(weeks(seed=seed, days=60, rise=1.25, from_day=10))
    assert [(one.cause, one.entity_id) for one in found[:1]] == [(Cause.JOINT_AGEING, supply(0).id)]
    ratio = found[0].number("hourly_rise_ratio")
    assert ratio is not None
    assert 1.08 <= ratio < 1.12
    assert {one.entity_id for one in found} == {supply(0).id}
    low, high = found[0].number("hourly_rise_low_ratio"), found[0].number("hourly_rise_high_ratio")
    assert low is not None
    assert high is not None
    assert 1.0 < low < ratio < high
    assert found[0].number("imbalance_ratio") == pytest.approx(0.0, abs=0.05)
    assert "W more at" in found[0].summary


@pytest.mark.parametrize("only", [False, True])
def test_mains_that_dip_are_reported_within_rows_and_are_over_when_they_are_back(*, only: bool) -> None:
    rng = np.random.default_rng(2)
    amps = np.full((240, 2), 4.0) + rng.normal(0, 0.02, (240, 2))
    volts = 230.0 + rng.normal(0, 0.05, (240, 2))
    dip = (slice(120, 180), slice(0, 1) if only else slice(None))
    volts[dip] *= 0.85
    amps[dip] /= 0.85
    columns = {"voltage_v": volts, "current_a": amps}
    frame = frame_of(EntityKind.SUPPLY, scenes.MEMBERS, columns, rate_hz=1.0)
    sags = [one for one in reported(frame) if one.cause is Cause.INPUT_SAG]
    assert {one.entity_id for one in sags} == (set() if only else {supply(0).id, supply(1).id})
    if not only:
        assert [one.status for one in sags[:2]] == [FindingStatus.RAISED, FindingStatus.RAISED]
        assert {one.status for one in sags[-2:]} == {FindingStatus.CLEARED}
        assert (sags[0].time_ns - int(frame.time_ns[120])) <= 3 * NS_PER_S


@pytest.mark.parametrize("seed", range(3))
def test_weeks_of_a_stable_path_are_silent(seed: int) -> None:
    assert reported(weeks(seed=seed, days=60, rise=1.0, from_day=0)) == ()


def test_a_warm_room_is_not_taken_for_a_worn_joint() -> None:
    frame = weeks(seed=1, days=40, rise=1.14, from_day=10)
    warm_c = 25.0 + 36.0 * np.clip((np.arange(len(frame)) / 144 - 10) / 30, 0, 1)
    with_inlet = replace(
        frame,
        spec=replace(frame.spec, signals=(*frame.spec.signals, "inlet_temp_c")),
        values=np.concatenate([frame.values, np.repeat(warm_c[:, None, None], 2, axis=1)], axis=2),
        fresh=np.ones((*frame.values.shape[:2], 3), dtype=np.bool_),
    )
    assert reported(frame) != ()
    assert reported(with_inlet) == ()


def test_what_a_person_accepted_becomes_the_new_reference() -> None:
    state, _ = DETECTOR.step(DETECTOR.start(scenes.ageing(1).spec), scenes.ageing(1), TOPOLOGY)
    assert np.isfinite(state.shares.usual.level).all()
    state = DETECTOR.accept(state, np.array([True, False]))
    assert np.isfinite(state.shares.usual.level).tolist() == [False, True]
    assert np.isfinite(state.carried.high_w).tolist() == [False, True]
    amps = scenes.load(8, 1200)
    later = scenes.frame(scenes.rail(amps, seed=8, ohm=np.array([0.008, 0.005])), amps)
    later = replace(later, time_ns=later.time_ns + 60 * NS_PER_S)
    _, found = DETECTOR.step(state, later, TOPOLOGY)
    assert [one.status for one in found] == [FindingStatus.CLEARED]


@pytest.mark.parametrize("case", ["millivolts", "constant", "nan storm", "clock back", "swapped"])
def test_nonsense_is_never_worth_a_warning(case: str) -> None:
    amps = scenes.load(6)
    volts = scenes.rail(amps, seed=6)
    frame = scenes.frame(volts, amps)
    match case:
        case "millivolts":
            frame = scenes.frame(volts * 1000.0, amps)
        case "constant":
            frame = scenes.frame(np.full_like(volts, 12.0), np.full_like(amps, 50.0))
        case "nan storm":
            holes = np.random.default_rng(1).random(volts.shape) < 0.9
            frame = scenes.frame(np.where(holes, np.nan, volts), amps)
        case "clock back":
            back = np.where(np.arange(len(frame)) % 50 == 49, 3600, 0) * NS_PER_S
            frame = replace(frame, time_ns=frame.time_ns - back)
        case _:
            frame = scenes.frame(amps, volts)
    assert reported(frame) == ()
