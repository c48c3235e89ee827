"""The pacer against sensors that it does not know."""

import pytest

from agent.sampler.pacing.budget import BudgetSettings
from agent.sampler.pacing.pacer import IDLE_AFTER_S, PaceMode, Pacer, PacerSettings
from tests.agent.sampler.pacing.sensors import Polled, SimulatedSensor, poll

START_S = 1000.0


def begun(count: int, *, settings: PacerSettings | None = None, load: bool = False) -> Pacer:
    pacer = Pacer(tuple(range(count)), settings or PacerSettings(), busy_cells=(count,) if load else ())
    pacer.restart(START_S)
    return pacer


def missed_after(polled: Polled, sensor: int, first: int) -> int:
    """How many updates after that number no poll saw."""
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


def test_a_sensor_that_jumps_away_is_measured_anew_and_found_again() -> None:
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
    settings = PacerSettings(most_hz=20.0)
    pacer = begun(1, settings=settings)
    polled = poll(pacer, [SimulatedSensor(period_s=0.02, phase_s=0.0)], start_s=START_S, end_s=START_S + 20.0)
    assert len(polled.times_s) <= 20 * 20 + 1


def test_without_load_it_slows_and_a_job_start_is_a_burst() -> None:
    start_s = START_S + IDLE_AFTER_S + 10.0
    sensors = [SimulatedSensor(period_s=0.02, phase_s=0.0)]
    pacer = begun(1, load=True)
    quiet = poll(pacer, sensors, start_s=START_S, end_s=start_s, busy=lambda _: False)
    assert quiet.modes[-1] is PaceMode.IDLE
    assert sum(time_s > start_s - 5.0 for time_s in quiet.times_s) <= 5 * 10 + 1
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


def test_over_budget_it_reads_less_often_and_says_what_is_over() -> None:
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
    assert "slowed, over budget" in pacer.report().words
