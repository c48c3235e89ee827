"""A hang that only power shows: no steps are counted, and no thread of the driver is read."""

import csv
import gzip
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analytics.detectors.bus_limits import HangLimits
from analytics.detectors.hang import Hang
from telemetry.clock import NS_PER_S
from telemetry.entities import EntityKind
from telemetry.frames import Frame
from telemetry.records import Cause, Finding, FindingStatus, Severity
from tests.analytics.detectors.bus_scenes import hanging
from tests.analytics.scenes import START_NS, frame_of, gpu, node_of

RATE_HZ = 5
# The job trains for 100 s, and hangs for 60 s.
HUNG_S, END_S = 100, 160
HUNG_NS = START_NS + HUNG_S * NS_PER_S
ROWS = END_S * RATE_HZ
SECONDS = (np.arange(ROWS) / RATE_HZ)[:, np.newaxis]
AFTER = SECONDS >= HUNG_S


def reported(frame: Frame) -> tuple[Finding, ...]:
    detector = Hang(limits=HangLimits())
    return detector.step(detector.start(frame.spec), frame, node_of(4))[1]


def changed(frame: Frame, signal: str, values: npt.ArrayLike) -> Frame:
    column = frame.values.copy()
    column[:, :, frame.spec.signals.index(signal)] = np.asarray(values)
    return replace(frame, values=column)


def uncounted(*, seed: int = 1, hung_s: int = HUNG_S, end_s: int = END_S, rate_hz: int = RATE_HZ) -> Frame:
    """Return the scene without a counter of steps, and without threads."""
    frame = hanging(seed, rows=end_s * rate_hz, hung_row=hung_s * rate_hz, rate_hz=rate_hz)
    for signal in ("steps", "nv_queue_ratio", "nv_irq_ratio"):
        frame = changed(frame, signal, np.nan)
    return frame


def working() -> Frame:
    """Return the scene in which nothing hangs."""
    return uncounted(hung_s=10 * END_S)


def power_after(power_w: npt.ArrayLike, *, frame: Frame | None = None) -> Frame:
    """Return the scene with another power from the time of the hang."""
    frame = uncounted() if frame is None else frame
    return changed(frame, "power_w", np.where(AFTER, power_w, frame.signal("power_w")))


def noise(sd_w: float, seed: int = 3) -> npt.NDArray[np.float64]:
    return np.random.default_rng(seed).normal(0, sd_w, (ROWS, 4))


def test_a_job_without_a_counter_whose_gpus_all_turn_constant_and_low_is_reported_within_thirty_seconds() -> None:
    findings = reported(uncounted())
    assert {one.entity_id for one in findings} == {f"gpu:GPU-{number}" for number in range(4)}
    assert {(one.cause, one.severity) for one in findings} == {(Cause.HANG, Severity.WARNING)}
    assert all(20 * NS_PER_S <= one.time_ns - HUNG_NS <= 30 * NS_PER_S for one in findings)
    assert findings[0].number("swing_before_ratio") == pytest.approx(0.29, abs=0.03)
    assert findings[0].number("power_spread_ratio") == pytest.approx(0.013, abs=0.004)


def test_the_summary_names_what_was_seen_and_that_a_constant_kernel_looks_the_same() -> None:
    summary = reported(uncounted())[0].summary
    assert summary.startswith("GPU 0 seems to hang: all 4 GPUs constant at 36 % of compute power")
    assert summary.endswith("; or a constant kernel")
    assert len(summary) <= 100


def test_quiet_threads_of_the_driver_do_not_deny_it_but_a_checkpoint_is_over_before_it_is_reported() -> None:
    hung_s = 85
    findings = reported(changed(uncounted(hung_s=hung_s), "nv_queue_ratio", 0.01))
    assert {one.severity for one in findings} == {Severity.WARNING}
    assert all(60 <= (one.time_ns - START_NS) / NS_PER_S - hung_s <= 65 for one in findings)


@pytest.mark.parametrize("steps", [True, False])
def test_a_checkpoint_of_forty_seconds_on_a_node_whose_driver_threads_are_quiet_is_no_hang(*, steps: bool) -> None:
    """All GPUs draw a constant low power at full utilisation while the state is written, and no step ends."""
    hung_s = 85
    frame = hanging(rows=ROWS, hung_row=hung_s * RATE_HZ) if steps else uncounted(hung_s=hung_s)
    for signal in ("nv_queue_ratio", "nv_irq_ratio"):
        frame = changed(frame, signal, 0.01)
    assert reported(frame.rows(0, (hung_s + 40) * RATE_HZ)) == ()


def test_link_errors_as_it_begins_make_it_critical() -> None:
    findings = reported(changed(uncounted(), "nvlink_crc_errors", np.where(AFTER, 3.0, 0.0)))
    assert {one.severity for one in findings} == {Severity.CRITICAL}
    assert "; link errors" in findings[0].summary


def test_a_counter_that_stops_and_gpus_that_fall_silent_are_evidence_together() -> None:
    counted = hanging(rows=ROWS, hung_row=HUNG_S * RATE_HZ)
    for signal in ("nv_queue_ratio", "nv_irq_ratio"):
        counted = changed(counted, signal, np.nan)
    findings = reported(counted.rows(0, (HUNG_S + 30) * RATE_HZ))
    assert len(findings) == 4
    assert all("no step for" in one.summary for one in findings)


def test_a_counter_that_stops_alone_is_not_reported_within_most_of_a_minute() -> None:
    counted = changed(hanging(rows=ROWS, hung_row=HUNG_S * RATE_HZ), "nv_queue_ratio", 0.01)
    noisy = power_after(115.0 + noise(4.5), frame=counted)
    assert reported(noisy.rows(0, (HUNG_S + 50) * RATE_HZ)) == ()


@pytest.mark.parametrize("period_s", [0.86, 1.63, 2.9])
def test_readings_of_one_a_second_that_beat_with_the_steps_show_them_too(period_s: float) -> None:
    """Now and then one falls into the wait of a step, which alone looks like a second of a spin."""
    findings = reported(beating(period_s, hung_s=400, end_s=440))
    assert len(findings) == 4
    assert all(0 < (one.time_ns - START_NS) / NS_PER_S - 400 <= 32 for one in findings)
    assert reported(beating(period_s, hung_s=200, end_s=310)) == (), "as much as a beat may show"


def beating(period_s: float, *, hung_s: int, end_s: int, busy_ratio: float = 0.78, low_w: float = 100.0) -> Frame:
    """Return the scene of a job with these steps, one reading a second."""
    frame, seconds = uncounted(hung_s=hung_s, end_s=end_s, rate_hz=1), np.arange(end_s)[:, np.newaxis]
    steps_w = np.where((seconds % period_s) > busy_ratio * period_s, low_w, 290.0)
    steps_w = steps_w * (1.0 + np.random.default_rng(3).normal(0, 0.007, (end_s, 4)))
    return changed(frame, "power_w", np.where(seconds >= hung_s, frame.signal("power_w"), steps_w))


def test_readings_that_all_fall_into_the_wait_of_the_steps_for_half_a_minute_are_no_hang() -> None:
    """A step of 0.988 s and a reading a second have the same phase again after 84 s, and a third of that is a wait."""
    seconds, end_s = np.arange(700)[:, np.newaxis], 700
    other, beats = (beating(period_s, hung_s=10_000, end_s=end_s, busy_ratio=0.68) for period_s in (2.53, 0.988))
    idle, first = (seconds >= 250) & (seconds < 300), seconds < 250
    power_w = np.where(first, other.signal("power_w"), np.where(idle, 70.0, beats.signal("power_w")))
    frame = changed(changed(beats, "power_w", power_w), "gpu_util_ratio", np.where(idle, 0.0, 1.0))
    assert reported(frame) == ()


def test_a_job_that_read_its_memory_and_now_only_spins_is_reported_though_its_power_hardly_swung() -> None:
    steady_w = 320.0 * (1.0 + 0.03 * np.sign(np.sin(SECONDS * 4.0))) + noise(2.0)
    level = np.where(AFTER, uncounted().signal("power_w"), steady_w)
    assert len(reported(changed(with_memory_use(0.01), "power_w", level))) == 4
    assert reported(changed(with_memory_use(0.2), "power_w", level)) == ()


def utilisation_falls() -> Frame:
    return changed(uncounted(), "gpu_util_ratio", np.where(AFTER, 0.05, 1.0))


def short_pause() -> Frame:
    frame, on = uncounted(), SECONDS >= HUNG_S + 20
    return changed(frame, "power_w", np.where(on, working().signal("power_w"), frame.signal("power_w")))


def load_that_never_stepped() -> Frame:
    return changed(uncounted(), "power_w", np.where(AFTER, 115.0, 320.0) + noise(3.0))


def low_power_with_steps() -> Frame:
    return power_after(115.0 + 15.0 * np.sign(np.sin(SECONDS * 4.0)) + noise(1.0))


def with_memory_use(ratio: float) -> Frame:
    """Return the scene with a share of time with memory traffic after the hang; it takes the column of a thread."""
    frame = changed(uncounted(), "nv_irq_ratio", np.where(AFTER, ratio, 0.4))
    names = tuple("mem_util_ratio" if name == "nv_irq_ratio" else name for name in frame.spec.signals)
    return replace(frame, spec=replace(frame.spec, signals=names))


def memory_bound_work() -> Frame:
    return with_memory_use(0.7)


def another_job() -> Frame:
    """Return the scene with a steady kernel of another job instead of the hang: other memory is in use."""
    return changed(uncounted(), "memory_used_bytes", np.where(AFTER, 6.0e10, 6.4e10))


def a_kernel_after_a_pause() -> Frame:
    """Return the scene in which the job ended, and a steady kernel of another one began some seconds later."""
    pause = (SECONDS >= HUNG_S - 8) & (SECONDS < HUNG_S)
    frame = changed(uncounted(), "power_w", np.where(pause, 60.0, uncounted().signal("power_w")))
    return changed(frame, "gpu_util_ratio", np.where(pause, 0.0, 1.0))


def power_near_that_of_work() -> Frame:
    return power_after(220.0 + noise(1.0))


def one_gpu_works_on() -> Frame:
    own = np.array([False, False, True, False])
    return power_after(np.where(own, working().signal("power_w"), uncounted().signal("power_w")))


def one_gpu_is_idle() -> Frame:
    """Rank 0 writes a checkpoint, and the others wait for it."""
    return changed(uncounted(), "gpu_util_ratio", np.where(AFTER & (np.arange(4) == 0), 0.0, 1.0))


def readings_that_stopped() -> Frame:
    return power_after(115.0)


def noisy_low_power() -> Frame:
    return power_after(115.0 + noise(4.5))


@pytest.mark.parametrize(
    "scene",
    [
        working,
        utilisation_falls,
        short_pause,
        load_that_never_stepped,
        low_power_with_steps,
        memory_bound_work,
        another_job,
        a_kernel_after_a_pause,
        power_near_that_of_work,
        one_gpu_works_on,
        one_gpu_is_idle,
        readings_that_stopped,
        noisy_low_power,
    ],
)
def test_what_is_no_hang_or_cannot_be_separated_from_work_is_not_reported(scene: Callable[[], Frame]) -> None:
    assert reported(scene()) == ()


def test_memory_that_is_hardly_read_does_not_deny_it() -> None:
    assert len(reported(with_memory_use(0.05))) == 4


def test_a_job_of_less_than_a_minute_has_not_shown_its_steps() -> None:
    assert reported(uncounted(hung_s=45)) == ()
    assert len(reported(uncounted(hung_s=85))) == 4


def test_a_gpu_alone_waits_for_no_other() -> None:
    frame = uncounted()
    alone = np.where(np.arange(4) == 0, frame.signal("power_w"), 30.0)
    idle = changed(changed(frame, "power_w", alone), "gpu_util_ratio", np.where(np.arange(4) == 0, 1.0, 0.0))
    assert reported(idle) == ()


def test_gpus_that_have_no_work_do_not_hide_the_hang_of_the_others() -> None:
    job = np.arange(4) < 2
    frame = changed(uncounted(), "power_w", np.where(job, uncounted().signal("power_w"), 30.0))
    findings = reported(changed(frame, "gpu_util_ratio", np.where(job, 1.0, 0.0)))
    assert {one.entity_id for one in findings} == {"gpu:GPU-0", "gpu:GPU-1"}


def test_a_checkpoint_shortly_before_does_not_hide_a_hang() -> None:
    pause = (SECONDS >= HUNG_S - 35) & (SECONDS < HUNG_S - 5)
    frame = changed(uncounted(), "power_w", np.where(pause, 60.0, uncounted().signal("power_w")))
    findings = reported(changed(frame, "gpu_util_ratio", np.where(pause, 0.05, 1.0)))
    assert len(findings) == 4


def test_after_a_pause_that_ended_in_work_only_three_times_as_long_a_one_is_reported() -> None:
    pause = (SECONDS >= 70) & (SECONDS < 85)
    frame = uncounted()
    power_w = np.where(pause, 115.0 + noise(1.5), frame.signal("power_w"))
    findings = reported(changed(frame, "power_w", power_w))
    assert len(findings) == 4
    assert all(40 * NS_PER_S <= one.time_ns - HUNG_NS <= 50 * NS_PER_S for one in findings)


@pytest.mark.parametrize("level_w", [310.0, 110.0], ids=["full power", "low power with steps"])
def test_it_clears_when_the_power_swings_again(level_w: float) -> None:
    again = SECONDS >= HUNG_S + 35
    swings = level_w + 0.2 * level_w * np.sign(np.sin(SECONDS * 4.0)) + noise(1.0)
    findings = reported(power_after(np.where(again, swings, uncounted().signal("power_w"))))
    assert [one.status for one in findings if one.entity_id == "gpu:GPU-0"] == [
        FindingStatus.RAISED,
        FindingStatus.CLEARED,
    ]


def test_in_parts_of_any_size_the_rows_give_the_same_findings() -> None:
    frame, detector = uncounted(), Hang(limits=HangLimits())
    state = detector.start(frame.spec)
    found: list[Finding] = []
    for start in range(0, ROWS, 7):
        state, findings = detector.step(state, frame.rows(start, min(start + 7, ROWS)), node_of(4))
        found.extend(findings)
    assert tuple(found) == reported(frame)


@settings(max_examples=25, deadline=None)
@given(
    scale=st.floats(0.2, 4.0),
    share=st.floats(0.15, 0.45),
    noise_ratio=st.floats(0.001, 0.012),
    seed=st.integers(0, 1000),
)
def test_it_is_found_at_any_power_and_level_that_is_constant_within_the_noise_of_sensors(
    scale: float, share: float, noise_ratio: float, seed: int
) -> None:
    level_w = 320.0 * share * (1.0 + noise(noise_ratio, seed))
    frame = power_after(level_w)
    findings = reported(changed(frame, "power_w", scale * frame.signal("power_w")))
    assert len(findings) == 4
    assert all(0 < one.time_ns - HUNG_NS <= 30 * NS_PER_S for one in findings)


@settings(max_examples=25, deadline=None)
@given(swing=st.floats(0.0, 0.07), seed=st.integers(0, 1000))
def test_without_a_clear_swing_before_nothing_is_reported(swing: float, seed: int) -> None:
    steady_w = 320.0 * (1.0 + swing * np.sign(np.sin(SECONDS * 4.0))) + noise(3.0, seed)
    assert reported(changed(uncounted(), "power_w", np.where(AFTER, 115.0 + noise(1.0), steady_w))) == ()


DATA = os.environ.get("RAILWATCH_DATA", "")


@pytest.mark.skipif(not DATA, reason="RAILWATCH_DATA does not name a folder of public recordings")
@pytest.mark.parametrize("limits", [HangLimits(), HangLimits(swing_ratio=0.0, swing_s=0.0)], ids=["usual", "any swing"])
def test_the_power_of_real_training_jobs_raises_nothing_even_if_no_swing_were_required(limits: HangLimits) -> None:
    paths = sorted((Path(DATA) / "mlperf_training_power").glob("*.csv.gz"))[::6]
    assert paths
    for path in paths:
        with gzip.open(path, "rt") as text:
            rows = list(csv.DictReader(text))
        watts = np.array([float(row["watts"]) for row in rows if row["node"] == rows[0]["node"]])[:, np.newaxis]
        power_w = watts / 8 * (1.0 + np.random.default_rng(1).normal(0, 0.01, (len(watts), 8)))
        # The meter is one of the node, without utilisation: a node above 40 % of its peak is taken to be at work.
        util = np.where(watts > 0.4 * watts.max(), 1.0, 0.0) + np.zeros((1, 8))
        gpus = tuple(gpu(number) for number in range(8))
        frame = frame_of(EntityKind.GPU, gpus, {"power_w": power_w, "gpu_util_ratio": util}, rate_hz=1.0)
        detector = Hang(limits=limits)
        assert detector.step(detector.start(frame.spec), frame, node_of(8))[1] == (), path.name
