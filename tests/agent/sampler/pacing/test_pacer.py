"""The pacer against sensors that it does not know."""

import math

import numpy as np
import pytest

from agent.guard.waking import EVERY_S
from agent.sampler.pacing.budget import BudgetSettings
from agent.sampler.pacing.pacer import IDLE_AFTER_S, PaceMode, Pacer, PacerSettings
from analytics.detectors.gpu_lost import GpuLost
from analytics.detectors.limits import GpuLostLimits
from telemetry.clock import NS_PER_S
from telemetry.frames import FloatArray, Frame
from tests.agent.fakes import START_NS, gpu_fast_spec, node_topology
from tests.agent.sampler.pacing.sensors import Polled, SimulatedSensor, poll

START_S = 1000.0


def begun(count: int, *, settings: PacerSettings | None = None, load: bool = False) -> Pacer:
    pacer = Pacer(tuple(range(count)), settings or PacerSettings(), busy_cells=(count,) if load else ())
    pacer.restart(START_S)
    return pacer


def missed_after(polled: Polled, sensor: int, first: int) -> int:
    """Count the updates after that number that no poll saw."""
    seen = [number for number in polled.seen[sensor] if number >= first]
    return seen[-1] - seen[0] + 1 - len(seen)


@pytest.mark.parametrize("period_s", [0.02, 0.1])
@pytest.mark.parametrize("phases", [(0.3,), (0.0, 0.5), (0.1, 0.2, 0.75, 0.8)])
def test_polls_fall_into_step_and_see_every_update_with_little_more_than_one_call_each(
    period_s: float, phases: tuple[float, ...]
) -> None:
    sensors = [
        SimulatedSensor(period_s=period_s * 1.00003, phase_s=phase * period_s, seed=n) for n, phase in enumerate(phases)
    ]
    pacer = begun(len(sensors))
    poll(pacer, sensors, start_s=START_S, end_s=START_S + 15.0, late_s=0.0005)
    assert pacer.report().mode is PaceMode.IN_STEP
    assert pacer.report().locked_ratio == 1.0
    assert pacer.report().sensor_period_s == pytest.approx(period_s, rel=0.002)
    later = poll(pacer, sensors, start_s=START_S + 15.0, end_s=START_S + 55.0, late_s=0.0005)
    updates = round(40.0 / period_s)
    assert all(missed_after(later, n, 0) <= updates / 1000 for n in range(len(sensors)))
    assert len(later.times_s) < 1.2 * updates
    assert pacer.report().missed == 0


def test_a_sensor_that_repeats_one_value_in_five_and_trembles_is_locked_onto_all_the_same() -> None:
    sensors = [SimulatedSensor(period_s=0.02, phase_s=0.004, jitter_s=0.001, repeats=0.2)]
    pacer = begun(1)
    poll(pacer, sensors, start_s=START_S, end_s=START_S + 8.0, late_s=0.0005)
    assert pacer.report().mode is PaceMode.IN_STEP
    assert pacer.report().sensor_period_s == pytest.approx(0.02, rel=0.005)


def test_a_sensor_that_jumps_away_is_measured_again_and_found_again() -> None:
    sensor = SimulatedSensor(period_s=0.02, phase_s=0.0)
    pacer = begun(1)
    poll(pacer, [sensor], start_s=START_S, end_s=START_S + 6.0)
    assert pacer.report().mode is PaceMode.IN_STEP
    sensor.period_s, sensor.phase_s = 0.0215, 0.011
    after = poll(pacer, [sensor], start_s=START_S + 6.0, end_s=START_S + 26.0)
    assert PaceMode.IN_STEP in after.modes[-200:]
    assert pacer.report().sensor_period_s == pytest.approx(0.0215, rel=0.005)
    assert missed_after(after, 0, sensor.number_at(START_S + 20.0)) == 0


def test_a_sensor_faster_than_the_polls_is_read_at_the_ceiling() -> None:
    pacer = begun(1)
    polled = poll(pacer, [SimulatedSensor(period_s=0.004, phase_s=0.0)], start_s=START_S, end_s=START_S + 10.0)
    assert pacer.report().mode is PaceMode.CEILING
    assert len(polled.times_s) > 10.0 / 0.0135


def test_polls_never_come_faster_than_the_ceiling_but_for_a_probe() -> None:
    settings = PacerSettings(max_hz=20.0)
    pacer = begun(1, settings=settings)
    polled = poll(pacer, [SimulatedSensor(period_s=0.02, phase_s=0.0)], start_s=START_S, end_s=START_S + 20.0)
    assert len(polled.times_s) <= 20 * 20 + 1


def test_without_load_it_slows_and_a_job_start_is_a_burst() -> None:
    start_s = START_S + IDLE_AFTER_S + 10.0
    sensors = [SimulatedSensor(period_s=0.02, phase_s=0.0)]
    pacer = begun(1, load=True)
    quiet = poll(pacer, sensors, start_s=START_S, end_s=start_s, busy=lambda _: 0.0)
    assert quiet.modes[-1] is PaceMode.IDLE
    assert sum(time_s > start_s - 4.0 for time_s in quiet.times_s) <= 4 * 2.5 + 1
    busy = poll(pacer, sensors, start_s=start_s, end_s=start_s + 12.0)
    # Noticed at the first look after the load came.
    first = busy.modes.index(PaceMode.BURST)
    assert busy.times_s[first] - start_s < 0.8
    assert busy.modes[-1] is PaceMode.IN_STEP


def test_a_burst_that_others_ask_for_is_at_the_ceiling_and_ends() -> None:
    sensors = [SimulatedSensor(period_s=0.1, phase_s=0.0)]
    pacer = begun(1)
    poll(pacer, sensors, start_s=START_S, end_s=START_S + 8.0)
    pacer.burst_until_s = START_S + 10.0
    burst = poll(pacer, sensors, start_s=START_S + 8.0, end_s=START_S + 10.0)
    assert len(burst.times_s) > 2 * 75
    after = poll(pacer, sensors, start_s=START_S + 10.5, end_s=START_S + 14.5)
    assert len(after.times_s) < 4 * 12


def test_a_sensor_that_rests_is_left_aside_and_found_again() -> None:
    rest = SimulatedSensor(
        period_s=0.02, phase_s=0.013, resting=lambda time_s: START_S + 8 < time_s < START_S + 20, seed=2
    )
    sensors = [SimulatedSensor(period_s=0.02, phase_s=0.002), rest]
    pacer = begun(2)
    during = poll(pacer, sensors, start_s=START_S, end_s=START_S + 19.0)
    assert during.modes[-1] is PaceMode.IN_STEP
    after = poll(pacer, sensors, start_s=START_S + 19.0, end_s=START_S + 40.0)
    assert after.modes[-1] is PaceMode.IN_STEP
    assert missed_after(after, 1, rest.number_at(START_S + 26.0)) == 0


def test_over_budget_it_reads_less_often_and_states_what_is_over() -> None:
    cost_s = [0.0]

    def spent() -> tuple[float, float]:
        return 0.0, cost_s[0]

    pacer = Pacer((0,), PacerSettings(budget=BudgetSettings(driver_ratio=0.1)), spent=spent)
    pacer.restart(START_S)
    sensor = SimulatedSensor(period_s=0.02, phase_s=0.0)
    end_s = START_S
    for _ in range(40):
        polled = poll(pacer, [sensor], start_s=end_s, end_s=end_s + 1.0)
        cost_s[0] += 0.01 * len(polled.times_s)  # a call takes 10 ms
        end_s += 1.0
    assert len(polled.times_s) < 20
    assert pacer.report().stretch > 1.0
    assert "slowed, over budget" in pacer.report().summary


def in_step(period_s: float = 0.02, count: int = 1) -> tuple[Pacer, list[SimulatedSensor], float]:
    """A pacer that is in step with sensors, and the time by then."""
    sensors = [SimulatedSensor(period_s=period_s, phase_s=0.003 * n, seed=n) for n in range(count)]
    pacer, end_s = begun(count), START_S + 15.0
    poll(pacer, sensors, start_s=START_S, end_s=end_s)
    assert pacer.report().mode is PaceMode.IN_STEP
    return pacer, sensors, end_s


def test_while_reads_fail_in_step_the_ticks_keep_their_pace() -> None:
    pacer, _, now_s = in_step()
    end_s, ticks = now_s + 5.0, 0
    while now_s < end_s and ticks < 1000:
        now_s = max(now_s, pacer.deadline_s) + 0.0002
        pacer.advance(now_s)  # nothing was read, so nothing was seen
        ticks += 1
    assert ticks < 1.2 * 5.0 / 0.02


def test_over_budget_by_a_little_it_never_reads_more_often_than_in_step() -> None:
    pacer, sensors, end_s = in_step()
    pacer.budget.stretch = 1.5
    slowed = poll(pacer, sensors, start_s=end_s, end_s=end_s + 4.0)
    assert set(slowed.modes[1:]) == {PaceMode.WHOLE_PERIOD}
    assert len(slowed.times_s) <= 4.0 / (1.5 * 0.02)


@pytest.mark.parametrize(("before_s", "after_s"), [(0.1, 0.02), (0.1, 0.05), (0.04, 0.02), (0.1, 0.033)])
@pytest.mark.parametrize("count", [1, 3])
def test_sensors_that_become_faster_by_a_whole_factor_are_noticed_and_followed(
    before_s: float, after_s: float, count: int
) -> None:
    pacer, sensors, end_s = in_step(before_s, count)
    for sensor in sensors:
        sensor.period_s = after_s
    poll(pacer, sensors, start_s=end_s, end_s=end_s + 10.0)
    assert pacer.report().sensor_period_s == pytest.approx(after_s, rel=0.01)
    later = poll(pacer, sensors, start_s=end_s + 10.0, end_s=end_s + 20.0)
    assert all(missed_after(later, n, 0) <= 1 for n in range(count))


@pytest.mark.parametrize(("before_s", "after_s"), [(0.02, 0.1), (0.02, 0.04), (0.02, 0.06)])
@pytest.mark.parametrize("count", [1, 3])
def test_sensors_that_become_slower_by_a_whole_factor_are_noticed_and_read_less_often(
    before_s: float, after_s: float, count: int
) -> None:
    pacer, sensors, end_s = in_step(before_s, count)
    for sensor in sensors:
        sensor.period_s = after_s
    poll(pacer, sensors, start_s=end_s, end_s=end_s + 15.0)
    assert pacer.report().sensor_period_s == pytest.approx(after_s, rel=0.01)
    later = poll(pacer, sensors, start_s=end_s + 15.0, end_s=end_s + 25.0)
    assert len(later.times_s) < 1.4 * 10.0 / after_s


@pytest.mark.parametrize("repeats", [0.3, 0.4, 0.5, 0.6])
@pytest.mark.parametrize("seed", [1, 3, 7])
def test_a_sensor_whose_values_often_repeat_is_not_taken_for_a_slower_one(repeats: float, seed: int) -> None:
    sensors = [SimulatedSensor(period_s=0.02, phase_s=0.004, repeats=repeats, seed=seed)]
    pacer = begun(1)
    poll(pacer, sensors, start_s=START_S, end_s=START_S + 10.0, late_s=0.0005)
    assert pacer.report().sensor_period_s == pytest.approx(0.02, rel=0.01)


@pytest.mark.parametrize(("load", "mode"), [(math.nan, PaceMode.IN_STEP), (0.0, PaceMode.IDLE)])
def test_a_gpu_without_a_load_counts_as_busy_while_it_shows_a_power(load: float, mode: PaceMode) -> None:
    pacer = begun(1, load=True)
    sensors = [SimulatedSensor(period_s=0.1, phase_s=0.0)]
    polled = poll(pacer, sensors, start_s=START_S, end_s=START_S + IDLE_AFTER_S + 10.0, busy=lambda _: load)
    assert polled.modes[-1] is mode


def test_a_gpu_that_shows_neither_load_nor_power_is_not_busy() -> None:
    pacer, now_s = begun(1, load=True), START_S
    while now_s < START_S + IDLE_AFTER_S + 1.0:
        now_s = max(now_s, pacer.deadline_s) + 0.0002
        pacer.saw(now_s - 0.0002, now_s, bytes(2), np.full((1, 2), math.nan))
        pacer.advance(now_s)
    assert pacer.report().mode is PaceMode.IDLE


def test_updates_that_came_while_a_read_hung_are_counted_as_missed() -> None:
    pacer, sensors, end_s = in_step()
    assert pacer.report().missed == 0
    pacer.restart(end_s + 1.0)  # another thread goes on
    poll(pacer, sensors, start_s=end_s + 1.0, end_s=end_s + 2.0)
    assert 45 <= pacer.report().missed <= 52


def test_a_gpu_lost_while_nothing_runs_is_reported_within_two_seconds() -> None:
    # The worst case: it is lost right after a row, and the rows come a hair too early for the hold.
    period_ns = round((1.0 / PacerSettings().idle_hz - 1e-4) * NS_PER_S)
    spec, topology, detector = gpu_fast_spec(2), node_topology(2), GpuLost(limits=GpuLostLimits())
    state, found_ns = detector.start(spec), None
    for number in range(50):
        values = np.full((1, *spec.shape), 50.0)
        if number > 9:
            values[:, 0] = math.nan
        time_ns = np.array([START_NS + number * period_ns])
        frame = Frame(spec=spec, time_ns=time_ns, values=values, fresh=np.ones(values.shape, dtype=np.bool_))
        state, findings = detector.step(state, frame, topology)
        found_ns = int(time_ns[0]) if findings and found_ns is None else found_ns
    assert found_ns is not None
    assert (found_ns - START_NS) / NS_PER_S - 9 * period_ns / NS_PER_S + EVERY_S < 2.0


def ages(pacer: Pacer, sensors: list[SimulatedSensor], *, start_s: float, end_s: float) -> list[tuple[int, float]]:
    """The sensor and the error of the age of each update that polls saw, NaN where there is none."""
    errors: list[tuple[int, float]] = []
    age_s = pacer.age_s

    def noting(began_s: float, ended_s: float, fresh: bytes, values: FloatArray) -> None:
        for n, sensor in enumerate(sensors):
            if fresh[n]:
                at_s = sensor.phase_s + sensor.number_at(began_s) * sensor.period_s
                errors.append((n, abs(began_s - age_s(began_s, ended_s, n) - at_s)))
        saw(began_s, ended_s, fresh, values)

    saw, pacer.saw = pacer.saw, noting  # type: ignore[method-assign]
    poll(pacer, sensors, start_s=start_s, end_s=end_s, late_s=0.0005)
    return errors


@pytest.mark.parametrize("period_s", [0.02, 0.1])
def test_in_step_the_age_of_an_update_is_ordered_to_a_few_hundredths_of_the_period(period_s: float) -> None:
    sensors = [
        SimulatedSensor(period_s=period_s * 1.00003, phase_s=phase * period_s, seed=n)
        for n, phase in enumerate((0.1, 0.2, 0.75))
    ]
    pacer = begun(len(sensors))
    poll(pacer, sensors, start_s=START_S, end_s=START_S + 15.0, late_s=0.0005)
    errors = ages(pacer, sensors, start_s=START_S + 15.0, end_s=START_S + 30.0)
    reported_s = [error for _, error in errors if not math.isnan(error)]
    assert len(reported_s) > 0.99 * len(errors)
    assert np.percentile(reported_s, 50) < 0.06 * period_s
    assert np.percentile(reported_s, 99) < 0.1 * period_s


def test_while_nothing_is_known_of_the_updates_no_age_is_reported() -> None:
    sensors = [SimulatedSensor(period_s=0.02, phase_s=0.003)]
    errors = ages(begun(1), sensors, start_s=START_S, end_s=START_S + 0.2)
    assert errors
    assert all(math.isnan(error) for _, error in errors)
