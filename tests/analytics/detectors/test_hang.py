from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest

from analytics.detectors.bus_limits import HangLimits
from analytics.detectors.hang import Hang
from telemetry.clock import NS_PER_S
from telemetry.frames import Frame
from telemetry.records import Cause, Finding, FindingStatus, Severity
from tests.analytics.detectors.bus_scenes import hanging
from tests.analytics.scenes import START_NS, node_of

# The scene hangs at row 150 of 5 Hz.
HUNG_NS = START_NS + 30 * NS_PER_S


def reported(frame: Frame) -> tuple[Finding, ...]:
    detector = Hang(limits=HangLimits())
    return detector.step(detector.start(frame.spec), frame, node_of(4))[1]


def changed(frame: Frame, signal: str, values: npt.ArrayLike) -> Frame:
    column = frame.values.copy()
    column[:, :, frame.spec.signals.index(signal)] = np.asarray(values)
    return replace(frame, values=column)


def without(frame: Frame, *signals: str) -> Frame:
    for signal in signals:
        frame = changed(frame, signal, np.nan)
    return frame


def after_the_hang(frame: Frame, signal: str, value: npt.ArrayLike, *, before: float) -> Frame:
    hung = (frame.time_ns >= HUNG_NS)[:, np.newaxis]
    return changed(frame, signal, np.where(hung, value, before))


def test_a_job_whose_steps_stop_while_its_gpus_spin_hangs_within_thirty_seconds() -> None:
    findings = reported(hanging())
    assert {one.entity_id for one in findings} == {f"gpu:GPU-{number}" for number in range(4)}
    assert {(one.cause, one.severity) for one in findings} == {(Cause.HANG, Severity.CRITICAL)}
    assert all(0 < one.time_ns - HUNG_NS <= 30 * NS_PER_S for one in findings)
    assert findings[0].number("compute_power_w") == pytest.approx(320, rel=0.05)
    assert findings[0].number("power_w") == pytest.approx(115, rel=0.05)
    assert "no step for" in findings[0].summary


def test_training_alone_never_hangs() -> None:
    for seed in range(10):
        assert reported(hanging(seed, hung_row=10_000)) == ()


def test_errors_of_a_link_are_a_witness_where_the_threads_are_quiet_or_not_read() -> None:
    frame = without(hanging(), "nv_queue_ratio", "nv_irq_ratio")
    findings = reported(after_the_hang(frame, "nvlink_crc_errors", 3.0, before=0.0))
    assert {one.severity for one in findings} == {Severity.CRITICAL}
    assert "; link errors" in findings[0].summary


def test_missing_steps_alone_are_reported_later_and_as_a_warning() -> None:
    quiet = changed(hanging(rows=600), "nv_queue_ratio", 0.01)
    findings = reported(quiet)
    assert {one.severity for one in findings} == {Severity.WARNING}
    assert all(60 * NS_PER_S <= one.time_ns - HUNG_NS <= 65 * NS_PER_S for one in findings)
    assert reported(hanging(rows=600, seed=2)) != ()
    assert reported(quiet.rows(0, 400)) == ()


def test_without_a_job_that_reports_its_steps_the_threads_must_spin() -> None:
    frame = without(hanging(), "steps")
    findings = reported(frame)
    assert len(findings) == 4
    assert all(one.time_ns - HUNG_NS <= 30 * NS_PER_S for one in findings)
    assert "job reports no steps" in findings[0].summary
    quiet = changed(frame, "nv_queue_ratio", 0.01)
    assert reported(quiet) == ()
    assert reported(after_the_hang(quiet, "nvlink_crc_errors", 3.0, before=0.0)) == ()


@pytest.mark.parametrize(
    ("signal", "value"),
    [("power_w", 250.0), ("gpu_util_ratio", 0.6), ("memory_used_bytes", np.linspace(1e9, 12e9, 400)[:, np.newaxis])],
    ids=["power near that of work", "utilisation below full", "memory that moves"],
)
def test_what_moves_or_works_does_not_hang(signal: str, value: npt.ArrayLike) -> None:
    assert reported(after_the_hang(hanging(), signal, value, before=1.0)) == ()


def test_a_slow_step_is_no_hang_until_three_of_its_own_length_passed() -> None:
    # Steps of 40 s: 20 s without one are nothing; the GPU waits for data at little power meanwhile.
    at = np.arange(1200)[:, np.newaxis]
    frame = hanging(rows=1200, hung_row=150)
    frame = changed(frame, "steps", at // 200 + np.zeros((1, 4)))
    frame = changed(frame, "nv_queue_ratio", 0.01)
    frame = changed(frame, "nvlink_crc_errors", at // 100 + np.zeros((1, 4)))
    assert reported(frame) == ()


def test_gpus_that_wait_for_a_sibling_that_vanished_do_not_hang() -> None:
    frame = hanging()
    gone = frame.values.copy()
    gone[150:, 3] = np.nan
    assert reported(replace(frame, values=gone)) == ()


def test_a_hang_that_ends_clears_once() -> None:
    frame = hanging(rows=700)
    again = np.arange(700)[:, np.newaxis] >= 400
    works = hanging(rows=700, hung_row=10_000, seed=3)
    values = np.where(again[:, :, np.newaxis], works.values, frame.values)
    findings = [one for one in reported(replace(frame, values=values)) if one.entity_id == "gpu:GPU-0"]
    assert [one.status for one in findings] == [FindingStatus.RAISED, FindingStatus.CLEARED]


def test_at_one_row_a_second_it_is_found_as_well() -> None:
    frame = hanging(rows=400, hung_row=200, rate_hz=1.0)
    findings = reported(frame)
    assert len(findings) == 4
    assert all(one.time_ns - (START_NS + 200 * NS_PER_S) <= 45 * NS_PER_S for one in findings)


def test_power_reported_in_milliwatts_is_no_hang() -> None:
    frame = hanging(hung_row=10_000)
    assert reported(changed(frame, "power_w", frame.signal("power_w") * 1e3)) == ()


def two_jobs(frame: Frame) -> Frame:
    """Return a frame in which two GPUs hang and the others train on; steps are those of both jobs together."""
    works = hanging(rows=len(frame), hung_row=10_000, seed=3).values[:, 2:]
    values = frame.values.copy()
    values[:, 2:] = works
    steps = frame.spec.signals.index("steps")
    values[:, :, steps] = values[:, :1, steps] + values[:, 2:3, steps]
    threads = frame.spec.signals.index("nv_queue_ratio")
    values[:, :, threads] = frame.values[:, :1, threads]
    return replace(frame, values=values)


def test_a_hang_next_to_a_working_job_is_found_by_the_driver_threads() -> None:
    findings = reported(two_jobs(hanging()))
    assert {one.entity_id for one in findings} == {"gpu:GPU-0", "gpu:GPU-1"}
    assert all(one.time_ns - HUNG_NS <= 30 * NS_PER_S for one in findings)
    assert "only its siblings complete steps" in findings[0].summary
    assert "enter" not in findings[0].summary
    assert reported(changed(two_jobs(hanging()), "nv_queue_ratio", 0.01)) == ()


def test_the_rank_that_does_not_spin_with_the_others_is_named() -> None:
    frame = hanging()
    idle = after_the_hang(frame, "gpu_util_ratio", np.array([1.0, 1.0, 1.0, 0.0]), before=1.0)
    findings = reported(idle)
    assert {one.entity_id for one in findings} == {"gpu:GPU-0", "gpu:GPU-1", "gpu:GPU-2"}
    assert all("GPU 3 did not enter" in one.summary for one in findings)
    assert all("enter" not in one.summary for one in reported(frame))


def test_the_rank_that_entered_last_is_named() -> None:
    frame, late = hanging(), hanging(hung_row=175)
    power = frame.signal("power_w").copy()
    power[:, 1] = late.signal("power_w")[:, 1]
    findings = reported(changed(frame, "power_w", power))
    assert len(findings) == 4
    assert "GPU 1 entered last" in findings[0].summary
