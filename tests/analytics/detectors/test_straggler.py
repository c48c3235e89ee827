from dataclasses import replace

import numpy as np
import pytest

from analytics.detectors.bus_limits import StragglerLimits
from analytics.detectors.straggler import Straggler
from telemetry.clock import NS_PER_S
from telemetry.entities import EntityKind
from telemetry.frames import FloatArray, Frame
from telemetry.records import Cause, Finding, Severity
from tests.analytics.detectors.bus_scenes import GPUS, lagging
from tests.analytics.scenes import frame_of, gpu, node_of

_LOAD_HZ = 50


def sensed(load_w: FloatArray, rng: np.random.Generator, *, window_s: float, rate_hz: float) -> Frame:
    """Return readings of a load at 50 Hz ``(n_times, n_gpus)``, of sensors that average over a window.

    Each sensor takes another value every 0.1 s, at times of its own, and has a scale of its own. One poll in 100 is
    lost.
    """
    n_times, n_gpus = load_w.shape
    summed = np.concatenate((np.zeros((1, n_gpus)), np.cumsum(load_w, axis=0)))
    at_s = np.arange(window_s + 0.2, n_times / _LOAD_HZ - 1.0, 1 / rate_hz)
    at_s = at_s[rng.random(len(at_s)) > 0.01][:, np.newaxis]
    own_s = rng.uniform(0.0, 0.1, n_gpus)
    stop = np.round((np.floor((at_s - own_s) / 0.1) * 0.1 + own_s) * _LOAD_HZ).astype(int)
    rows = max(round(window_s * _LOAD_HZ), 1)
    each = np.arange(n_gpus)
    power_w = (summed[stop, each] - summed[stop - rows, each]) / rows * rng.normal(1.0, 0.02, n_gpus)
    frame = frame_of(EntityKind.GPU, tuple(map(gpu, range(n_gpus))), {"power_w": power_w}, rate_hz=rate_hz)
    return replace(frame, time_ns=frame.time_ns[0] + (at_s[:, 0] * NS_PER_S).astype(np.int64))


def training_w(rng: np.random.Generator, *, seconds: int, step_s: float, late: float = 0.0) -> FloatArray:
    """Return the load of eight GPUs whose steps are computing, waiting and exchanging; the first works longer."""
    load_w, start_s = np.full((seconds * _LOAD_HZ, 8), 330.0), 0.0
    while start_s < seconds:
        work_s = 0.75 * step_s * (rng.normal(1.0, 0.008, 8) + late * (np.arange(8) == 0))
        first, wait = round(start_s * _LOAD_HZ), round((start_s + work_s.max()) * _LOAD_HZ)
        for one, stop in enumerate(np.round((start_s + work_s) * _LOAD_HZ).astype(int).tolist()):
            load_w[first:stop, one] = 680.0
            load_w[stop:wait, one] = 290.0
        start_s += work_s.max() + 0.25 * step_s * rng.normal(1.0, 0.02)
    return load_w


def requests_w(rng: np.random.Generator, *, seconds: int, busy: FloatArray) -> FloatArray:
    """Return the load of GPUs that answer requests of their own, each for a share of the time."""
    return np.repeat(np.where(rng.random((seconds // 2, len(busy))) < busy, 600.0, 110.0), 2 * _LOAD_HZ, axis=0)


def stages_w(rng: np.random.Generator, *, seconds: int, step_s: float) -> FloatArray:
    """Return the load of eight stages of a pipeline, each with a level of its own, one after the other."""
    rows = (np.arange(seconds * _LOAD_HZ) / _LOAD_HZ)[:, np.newaxis]
    begin_s = np.arange(8) * 0.04 * step_s
    busy = ((rows - begin_s) % step_s) < 0.72 * step_s
    return np.where(busy & (rows > begin_s), rng.uniform(350.0, 680.0, 8), 200.0)


def reported(frame: Frame) -> tuple[Finding, ...]:
    detector = Straggler(limits=StragglerLimits())
    return detector.step(detector.start(frame.spec), frame, node_of(len(frame.spec.entities)))[1]


def test_a_rank_that_computes_while_the_others_wait_is_reported_with_its_clock() -> None:
    for seed in range(5):
        findings = reported(lagging(seed))
        assert [(one.entity_id, one.cause, one.severity) for one in findings[:1]] == [
            ("gpu:GPU-0", Cause.STRAGGLER, Severity.WARNING)
        ]
        assert findings[0].number("late_ratio") == pytest.approx(0.2, abs=0.05)
        assert "clock 1005 MHz, siblings 1400 MHz" in findings[0].summary


def test_ranks_in_step_are_silent() -> None:
    for seed in range(5):
        assert reported(lagging(seed, late_rows=0, rows=1000)) == ()


@pytest.mark.parametrize("late_s", [0.0, 0.2])
@pytest.mark.parametrize("seed", range(5))
def test_steps_in_time_with_the_updates_of_the_sensors_are_late_only_by_more_than_an_update(
    seed: int, late_s: float
) -> None:
    rng = np.random.default_rng(seed)
    at_s = np.arange(3000)[:, np.newaxis] / 10.0 + rng.uniform(0.0, 0.1, 4)
    step_s = rng.normal(0.0, 0.005, (700, 4))
    ends_s = 0.35 + np.array([late_s, 0.0, 0.0, 0.0]) * (0.5 / 0.35) + step_s[(at_s / 0.8).astype(int), range(4)]
    power_w = np.where(at_s % 0.8 < ends_s, 300.0, 130.0) + rng.normal(0.0, 2.0, at_s.shape)
    found = reported(frame_of(EntityKind.GPU, GPUS, {"power_w": power_w}, rate_hz=10.0))
    assert {one.entity_id for one in found} == (set() if not late_s else {"gpu:GPU-0"})


def test_updates_and_steps_are_the_same_however_the_rows_are_cut_and_gaps_are_none_of_them() -> None:
    high = np.arange(300) // 3 % 2 == 0
    power_w = np.where(high[:, np.newaxis], 300.0, 130.0) + np.zeros(4)
    power_w[::10, 0] = np.nan
    frame = frame_of(EntityKind.GPU, GPUS, {"power_w": power_w}, rate_hz=10.0)
    detector = Straggler(limits=StragglerLimits())
    whole = cut = detector.start(frame.spec)
    whole, _ = detector.step(whole, frame, node_of(4))
    for row in range(len(frame)):
        cut, _ = detector.step(cut, frame.rows(row, row + 1), node_of(4))
    assert cut.phases.updates.tolist() == whole.phases.updates.tolist()
    assert cut.phases.steps.tolist() == whole.phases.steps.tolist()
    assert 0.0 < whole.phases.updates[0] <= whole.phases.updates[1]
    assert 0.0 < whole.phases.steps[0] <= whole.phases.steps[1]


def test_it_is_found_at_one_row_a_second_of_a_step_that_lasts_no_whole_second() -> None:
    at_s = np.arange(400)[:, np.newaxis] * 1.0
    phase = (at_s / 0.93) % 1.0
    power_w = np.where(phase < np.array([0.75, 0.55, 0.55, 0.55]), 300.0, 130.0)
    findings = reported(frame_of(EntityKind.GPU, GPUS, {"power_w": power_w}, rate_hz=1.0))
    assert [one.entity_id for one in findings if one.status == "raised"] == ["gpu:GPU-0"]


@pytest.mark.parametrize(
    ("period_s", "others_s"), [(1.378, 2.237), (0.435, 1.667), (0.733, 1.845), (0.788, 1.375), (2.635, 2.609)]
)
def test_steps_of_another_job_that_compute_longer_make_no_straggler(period_s: float, others_s: float) -> None:
    """GPU 0 of eight has a job of its own, and each is read once a second."""
    gpus, alone = tuple(gpu(number) for number in range(8)), np.arange(8) == 0
    at_s = np.arange(1200.0)[:, np.newaxis]
    phase = (at_s / np.where(alone, period_s, others_s)) % 1.0
    power_w = np.where(phase < np.where(alone, 0.85, 0.61), 300.0, 130.0)
    assert reported(frame_of(EntityKind.GPU, gpus, {"power_w": power_w}, rate_hz=1.0)) == ()


def test_independent_loads_have_no_straggler_however_busy_each_is() -> None:
    for seed in range(10):
        rng = np.random.default_rng(seed)
        busy = np.repeat(rng.random((250, 4)) < rng.uniform(0.05, 0.95, 4), 4, axis=0)
        power_w = np.where(busy, 300.0, 80.0)
        assert reported(frame_of(EntityKind.GPU, GPUS, {"power_w": power_w}, rate_hz=2.0)) == ()


def test_a_sensor_that_shows_everything_later_is_no_straggler() -> None:
    frame = lagging(late_rows=0)
    values = frame.values.copy()
    values[1:, 0] = frame.values[:-1, 0]
    assert reported(replace(frame, values=values)) == ()


def test_what_heat_or_a_brake_slows_is_left_to_their_findings() -> None:
    frame = lagging()
    columns = {name: frame.signal(name) for name in frame.spec.signals}
    hot = {**columns, "throttle_reasons": np.where(np.arange(4) == 0, 0x20, 0.0) + np.zeros((400, 1))}
    assert reported(frame_of(EntityKind.GPU, GPUS, hot, rate_hz=2.0)) == ()


@pytest.mark.parametrize(("n_late", "found"), [(1, 1), (2, 2), (3, 0), (4, 0)])
def test_many_gpus_that_are_late_together_run_a_job_of_their_own(n_late: int, found: int) -> None:
    at_s = np.arange(2400)[:, np.newaxis] / 10.0
    phase = (at_s / 0.93) % 1.0
    gpus, slow = tuple(gpu(number) for number in range(8)), np.arange(8) < n_late
    power_w = np.where(phase < np.where(slow, 0.75, 0.5), 300.0, 130.0)
    power_w += np.random.default_rng(1).normal(0.0, 2.0, power_w.shape)
    frame = frame_of(EntityKind.GPU, gpus, {"power_w": power_w}, rate_hz=10.0)
    detector = Straggler(limits=StragglerLimits())
    raised = detector.step(detector.start(frame.spec), frame, node_of(8))[1]
    assert len({one.entity_id for one in raised}) == found


def test_constant_power_has_no_phases() -> None:
    flat = frame_of(EntityKind.GPU, GPUS, {"power_w": np.full((400, 4), 250.0)}, rate_hz=2.0)
    assert reported(flat) == ()


@pytest.mark.parametrize("seed", range(5))
def test_gpus_with_requests_of_their_own_are_no_stragglers_of_a_job(seed: int) -> None:
    rng = np.random.default_rng(seed)
    phase = (np.arange(4000)[:, np.newaxis] / 25.0 / 1.3) % 1.0
    requests = np.repeat(rng.random((200, 3)) < 0.25, 20, axis=0)
    high = np.concatenate((np.broadcast_to(phase < 0.1, (4000, 5)), requests), axis=1)
    power_w = np.where(high, 500.0, 200.0) + rng.normal(0.0, 3.0, high.shape)
    frame = frame_of(EntityKind.GPU, tuple(map(gpu, range(8))), {"power_w": power_w}, rate_hz=25.0)
    detector = Straggler(limits=StragglerLimits())
    assert detector.step(detector.start(frame.spec), frame, node_of(8))[1] == ()


def test_a_job_that_goes_on_beside_gpus_that_are_idle_now_has_no_straggler() -> None:
    rows = np.arange(1200)
    steps = np.where((rows % 8 < 5)[:, np.newaxis], 300.0, 130.0) * np.ones(8)
    steps[600:, 3:] = 60.0
    frame = frame_of(EntityKind.GPU, tuple(gpu(one) for one in range(8)), {"power_w": steps}, rate_hz=5.0)
    detector = Straggler(limits=StragglerLimits())
    assert detector.step(detector.start(frame.spec), frame, node_of(8))[1] == ()


@pytest.mark.parametrize("seed", range(3))
def test_a_steady_job_after_requests_of_their_own_has_no_straggler(seed: int) -> None:
    rng = np.random.default_rng(seed)
    busy = np.repeat(rng.random((270, 4)) < np.array([0.25, 0.1, 0.1, 0.1]), 10, axis=0)
    power_w = np.where(busy, 500.0, 200.0) + rng.normal(0.0, 3.0, busy.shape)
    steady = 600.0 + rng.normal(0.0, 3.0, (1500, 4))
    frame = frame_of(EntityKind.GPU, GPUS, {"power_w": np.concatenate((power_w, steady))}, rate_hz=10.0)
    assert reported(frame) == ()


def test_a_steady_job_after_a_synchronous_one_has_no_straggler() -> None:
    rows = np.arange(1200)
    steps = np.where((rows % 8 < 5)[:, np.newaxis], 300.0, 130.0) * np.ones(4)
    steps[600:] = 215.0 + np.array([4.0, -4.0, -4.0, -4.0])
    assert reported(frame_of(EntityKind.GPU, GPUS, {"power_w": steps}, rate_hz=5.0)) == ()


@pytest.mark.parametrize("window_s", [0.02, 0.1, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_a_job_after_requests_of_their_own_has_no_straggler(seed: int, window_s: float) -> None:
    rng = np.random.default_rng(seed)
    busy = np.where(np.isin(np.arange(8), (0, 5)), 0.6, 0.1)
    loads = (requests_w(rng, seconds=140, busy=busy), training_w(rng, seconds=160, step_s=2.0))
    assert reported(sensed(np.concatenate(loads), rng, window_s=window_s, rate_hz=5.0)) == ()


@pytest.mark.parametrize("rate_hz", [4.0, 5.0, 10.0])
@pytest.mark.parametrize("seed", range(3))
def test_stages_of_a_pipeline_after_a_job_of_other_levels_are_no_stragglers(seed: int, rate_hz: float) -> None:
    rng = np.random.default_rng(seed)
    loads = (training_w(rng, seconds=150, step_s=3.0), stages_w(rng, seconds=150, step_s=2.0))
    assert reported(sensed(np.concatenate(loads), rng, window_s=1.0, rate_hz=rate_hz)) == ()


@pytest.mark.parametrize("rate_hz", [4.0, 5.0, 10.0])
@pytest.mark.parametrize("seed", range(3))
def test_a_job_whose_load_grows_after_a_pipeline_has_no_straggler(seed: int, rate_hz: float) -> None:
    rng = np.random.default_rng(seed)
    stages, training = stages_w(rng, seconds=150, step_s=2.0), training_w(rng, seconds=120, step_s=1.6)
    grown = np.minimum(0.55 + 0.45 * np.arange(len(training)) / (40 * _LOAD_HZ), 1.0)[:, np.newaxis]
    loads = (stages, 100.0 + (training - 100.0) * grown)
    assert reported(sensed(np.concatenate(loads), rng, window_s=1.0, rate_hz=rate_hz)) == ()


@pytest.mark.parametrize("window_s", [0.02, 0.1, 1.0])
@pytest.mark.parametrize("rate_hz", [4.0, 5.0, 10.0])
def test_a_straggler_is_found_through_the_average_of_its_sensor(rate_hz: float, window_s: float) -> None:
    rng = np.random.default_rng(1)
    frame = sensed(training_w(rng, seconds=240, step_s=3.0, late=0.35), rng, window_s=window_s, rate_hz=rate_hz)
    assert {one.entity_id for one in reported(frame)} == {"gpu:GPU-0"}


def test_a_gpu_that_goes_on_alone_once_in_a_while_is_no_straggler() -> None:
    rng = np.random.default_rng(1)
    load_w = training_w(rng, seconds=400, step_s=1.5)
    for start_s in range(30, 400, 60):
        load_w[start_s * _LOAD_HZ : (start_s + 12) * _LOAD_HZ] = np.where(np.arange(8) == 0, 680.0, 290.0)
    assert reported(sensed(load_w, rng, window_s=0.02, rate_hz=10.0)) == ()


def test_a_gpu_that_waits_no_more_runs_another_job_than_its_siblings() -> None:
    rng = np.random.default_rng(1)
    load_w = training_w(rng, seconds=200, step_s=1.5, late=0.3)
    load_w[65 * _LOAD_HZ :, 0] = 600.0
    assert reported(sensed(load_w, rng, window_s=0.02, rate_hz=10.0)) == ()


def waits_below_exchanges_w(*, seconds: int, late: float, low_w: float = 480.0) -> FloatArray:
    """Return the load of eight GPUs that draw less while they wait for the first than while they exchange data."""
    work_s, step_s = 1.2 * (1.0 + late * (np.arange(8) == 0)), 1.2 * (1.0 + late) + 0.6
    in_step_s = (np.arange(seconds * _LOAD_HZ)[:, np.newaxis] / _LOAD_HZ) % step_s
    return np.where(in_step_s < work_s, 680.0, np.where(in_step_s < work_s.max(), 200.0, low_w))


@pytest.mark.parametrize("low_w", [400.0, 560.0])
def test_a_rank_is_late_whose_siblings_wait_at_less_than_an_exchange_draws(low_w: float) -> None:
    rng = np.random.default_rng(1)
    before, after = (waits_below_exchanges_w(seconds=150, late=late, low_w=low_w) for late in (0.0, 0.3))
    frame = sensed(np.concatenate((before, after)), rng, window_s=0.02, rate_hz=10.0)
    assert {one.entity_id for one in reported(frame)} == {"gpu:GPU-0"}


def test_a_load_of_small_swings_beside_a_job_of_large_ones_is_no_straggler() -> None:
    rng = np.random.default_rng(1)
    load_w = training_w(rng, seconds=300, step_s=1.5)
    rows = np.arange(len(load_w)) / _LOAD_HZ
    load_w[:, 0] = np.where(rows % 1.9 < 1.3, 660.0, 540.0)
    assert reported(sensed(load_w, rng, window_s=0.02, rate_hz=10.0)) == ()
