from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from analytics.detectors.heat_limits import ThermalResistanceLimits
from analytics.detectors.thermal_resistance import ThermalResistance
from telemetry.clock import NS_PER_S
from telemetry.entities import EntityKind
from telemetry.frames import FloatArray, Frame
from telemetry.records import Cause, Finding, FindingStatus, Severity
from tests.analytics.scenes import START_NS, frame_of, gpu, node_of

NAN = float("nan")
EVERY_S = 4.0
ONSET_S = 7200.0
# Slots that breathe their neighbours' air, and interfaces that differ a little: a healthy node.
PREHEAT_C = np.array([0.0, 1.5, 1.0, 2.5])
THETA = np.array([0.115, 0.117, 0.113, 0.119])


def hours(count: float) -> FloatArray:
    return np.arange(round(count * 3600 / EVERY_S), dtype=np.float64) * EVERY_S


def scene(
    time_s: FloatArray,
    *,
    worse: FloatArray | float = 0.0,
    warmer_c: FloatArray | float = 0.0,
    power_w: FloatArray | float = 250.0,
    inlet_c: FloatArray | float = 22.0,
    assumed_inlet: bool = True,
    members: Sequence[int] = (0, 1, 2, 3),
    flags: FloatArray | float = 0.0,
) -> Frame:
    """Steady temperatures; GPU 2 is `worse` by a share and `warmer_c` by kelvin, each over time."""
    columns, rows = len(members), len(time_s)

    def over_time(value: FloatArray | float) -> FloatArray:
        return np.broadcast_to(np.asarray(value, dtype=np.float64).reshape(-1, 1), (rows, columns))

    rng = np.random.default_rng(6)
    bad = np.array(members) == 2
    theta = THETA[list(members)] * (1.0 + over_time(worse) * bad)
    rise_c = theta * over_time(power_w) + PREHEAT_C[list(members)] + over_time(warmer_c) * bad
    temp_c = np.round(over_time(inlet_c) + rise_c + rng.uniform(-0.5, 0.5, (rows, columns)))
    return frame_of(
        EntityKind.GPU,
        tuple(gpu(number) for number in members),
        {
            "gpu_temp_c": temp_c,
            "power_w": over_time(power_w) * rng.normal(1.0, 0.02, (rows, 1)),
            "throttle_reasons": over_time(flags) * bad,
            "power_limit_w": np.full((rows, columns), 300.0),
            "inlet_temp_c": over_time(inlet_c if assumed_inlet else NAN),
        },
        rate_hz=1.0 / EVERY_S,
    )


def judged(frame: Frame, *, n_gpus: int = 4) -> tuple[Finding, ...]:
    detector = ThermalResistance(limits=ThermalResistanceLimits())
    return detector.step(detector.start(frame.spec), frame, node_of(n_gpus, 1))[1]


def minutes_after(finding: Finding, onset_s: float = ONSET_S) -> float:
    return (finding.time_ns - START_NS) / NS_PER_S / 60.0 - onset_s / 60.0


def step_at(time_s: FloatArray, size: float) -> FloatArray:
    return np.where(time_s >= ONSET_S, size, 0.0)


def test_a_fifth_more_resistance_is_reported_within_a_quarter_of_an_hour_with_its_numbers() -> None:
    time_s = hours(3)
    findings = judged(scene(time_s, worse=step_at(time_s, 0.2)))
    first = findings[0]
    assert (first.entity_id, first.cause) == ("gpu:GPU-2", Cause.THERMAL_INTERFACE)
    assert 0 < minutes_after(first) <= 6
    warned = [finding for finding in findings if finding.severity is Severity.WARNING]
    assert minutes_after(warned[0]) <= 15
    assert first.number("excess_c") == pytest.approx(0.2 * 0.113 * 250, abs=1.5)
    assert first.number("slot_offset_c") == pytest.approx((0.113 - 0.116) * 250 - 1.0, abs=1.5)
    assert "K/kW" in first.summary


def test_a_severe_one_is_critical() -> None:
    time_s = hours(3)
    findings = judged(scene(time_s, worse=step_at(time_s, 0.5)))
    assert {finding.entity_id for finding in findings} == {"gpu:GPU-2"}
    assert findings[-1].severity is Severity.CRITICAL


def test_a_tenth_more_is_reported_within_a_day_as_information() -> None:
    time_s = hours(12)
    first = judged(scene(time_s, worse=step_at(time_s, 0.1)))[0]
    assert (first.entity_id, first.severity) == ("gpu:GPU-2", Severity.INFO)


def test_a_fault_that_is_there_from_the_first_minute_is_reported_and_never_learned() -> None:
    time_s = hours(4)
    findings = judged(scene(time_s, worse=np.full(len(time_s), 0.55)))
    assert [(finding.entity_id, finding.status) for finding in findings] == [("gpu:GPU-2", FindingStatus.RAISED)]
    assert minutes_after(findings[0], 0.0) <= 15


def test_it_clears_once_the_interface_is_repaired() -> None:
    time_s = hours(5)
    worse = np.where((time_s > ONSET_S) & (time_s < ONSET_S + 3600), 0.25, 0.0)
    assert judged(scene(time_s, worse=worse))[-1].status is FindingStatus.CLEARED


@pytest.mark.parametrize(
    "power_w",
    [250.0, [300.0, 150.0], [280.0, 60.0], [42.0, 260.0, 160.0]],
    ids=["steady", "two loads", "pauses", "idle first"],
)
@pytest.mark.parametrize("swing_c", [0.0, 5.0])
@pytest.mark.parametrize("assumed_inlet", [True, False])
def test_a_healthy_node_is_silent_at_any_load_and_inlet(
    power_w: float | list[float], swing_c: float, *, assumed_inlet: bool
) -> None:
    time_s = hours(12)
    loads = np.atleast_1d(np.array(power_w))
    load_w = loads[(time_s // 2400).astype(int) % len(loads)]
    inlet_c = 24.0 + swing_c * np.sin(time_s / 86_400 * 2 * np.pi * 4)
    assert judged(scene(time_s, power_w=load_w, inlet_c=inlet_c, assumed_inlet=assumed_inlet)) == ()


def test_a_hot_inlet_moves_all_gpus_and_is_no_interface() -> None:
    time_s = hours(4)
    assert judged(scene(time_s, inlet_c=np.where(time_s > ONSET_S, 40.0, 22.0))) == ()


def test_a_drain_and_a_new_job_are_no_interface() -> None:
    time_s = hours(4)
    assert judged(scene(time_s, power_w=np.where(time_s % 7200 > 5400, 42.0, 260.0))) == ()


def test_an_excess_that_stays_when_the_load_falls_is_warm_air_at_the_slot() -> None:
    time_s = hours(6)
    loads_w = np.where(time_s % 1200 < 600, 280.0, 140.0)
    findings = judged(scene(time_s, warmer_c=step_at(time_s, 7.0), power_w=loads_w))
    raised = [finding for finding in findings if finding.status is FindingStatus.RAISED]
    assert raised[-1].cause is Cause.AIRFLOW
    assert raised[-1].entity_id == "gpu:GPU-2"
    assert findings[-1].status is not FindingStatus.CLEARED
    share = raised[-1].number("grows_with_power_ratio")
    assert share is not None
    assert share < 0.3


def test_an_excess_that_grows_with_the_load_is_stated_to_be_the_interface() -> None:
    time_s = hours(6)
    loads_w = np.where(time_s % 1200 < 600, 280.0, 140.0)
    findings = judged(scene(time_s, worse=step_at(time_s, 0.3), power_w=loads_w))
    assert {finding.cause for finding in findings} == {Cause.THERMAL_INTERFACE}


def test_clocks_that_were_cut_are_no_recovery_and_such_a_gpu_is_no_reference() -> None:
    time_s = hours(4)
    cut = np.where(time_s > ONSET_S + 1800, 0x20, 0)
    findings = judged(scene(time_s, worse=np.where(time_s < ONSET_S + 1800, step_at(time_s, 0.3), 0.0), flags=cut))
    assert FindingStatus.CLEARED not in {finding.status for finding in findings}


def test_one_gpu_alone_is_compared_with_its_own_past() -> None:
    time_s = hours(4)
    frame = scene(time_s, worse=step_at(time_s, 0.3), members=[2])
    findings = judged(frame, n_gpus=3)
    assert findings[0].entity_id == "gpu:GPU-2"
    assert minutes_after(findings[0]) <= 15
    assert "own past" in findings[0].summary


def test_one_gpu_alone_is_not_judged_where_nothing_reports_of_the_inlet() -> None:
    time_s = hours(4)
    assert judged(scene(time_s, worse=step_at(time_s, 0.5), members=[2], assumed_inlet=False), n_gpus=3) == ()


def test_an_idle_gpu_reports_of_the_inlet_where_no_sensor_does() -> None:
    time_s = hours(6)
    load_w = np.where(time_s % 3600 < 600, 42.0, 250.0)
    frame = scene(time_s, worse=step_at(time_s, 0.35), members=[2], assumed_inlet=False, power_w=load_w)
    assert judged(frame, n_gpus=3)[0].entity_id == "gpu:GPU-2"


def test_a_job_on_half_of_the_gpus_is_no_interface_of_the_others_where_nothing_shows_the_inlet() -> None:
    time_s = hours(2.0)
    power_w = np.where(time_s[:, np.newaxis] < 3600.0, 83.0, np.array([540.0, 540.0, 540.0, 83.0, 83.0, 83.0]))
    temp_c = np.round(31.0 + 0.055 * power_w + np.random.default_rng(3).normal(0.0, 0.3, power_w.shape))
    members = tuple(gpu(one) for one in range(6))
    columns = {"gpu_temp_c": temp_c, "power_w": power_w}
    assert judged(frame_of(EntityKind.GPU, members, columns, rate_hz=1.0 / EVERY_S), n_gpus=6) == ()


def test_a_load_that_always_changes_neither_hides_a_fault_nor_raises_a_false_one() -> None:
    time_s = hours(3)
    wanted_w = np.where(time_s % 200 < 110, 290.0, 80.0)
    sink_w = np.empty_like(wanted_w)
    level = sink_w[0] = 190.0
    for row in range(1, len(wanted_w)):
        level += (wanted_w[row - 1] - level) * -np.expm1(-EVERY_S / 48.0)
        sink_w[row] = level
    felt_w = 0.48 * wanted_w + 0.52 * sink_w

    def moving(size: float) -> Frame:
        # The scene computes temperatures from the delayed power; the board reports the power itself.
        frame = scene(time_s, worse=step_at(time_s, size), power_w=felt_w)
        reported = frame.values.copy()
        reported[:, :, 1] *= (wanted_w / felt_w)[:, np.newaxis]
        return replace(frame, values=reported)

    findings = judged(moving(0.2))
    assert {finding.entity_id for finding in findings} == {"gpu:GPU-2"}
    assert minutes_after(findings[0]) <= 15
    assert judged(moving(0.0)) == ()


def test_rows_a_minute_apart_are_judged_over_hours() -> None:
    time_s = hours(4)

    def every_minute(frame: Frame) -> Frame:
        return replace(frame, time_ns=START_NS + (frame.time_ns - START_NS) * 15)

    findings = judged(every_minute(scene(time_s, worse=step_at(time_s, 0.2))))
    assert {finding.entity_id for finding in findings} == {"gpu:GPU-2"}
    assert minutes_after(findings[0], 15 * ONSET_S) < 3 * 60
    assert judged(every_minute(scene(time_s))) == ()


def test_a_warning_follows_where_information_came_first() -> None:
    time_s = hours(3)
    findings = judged(scene(time_s, worse=step_at(time_s, 0.15)))
    assert [finding.severity for finding in findings[:1]] == [Severity.INFO]
    assert any(finding.severity is Severity.WARNING for finding in findings)


def test_gaps_are_evidence_neither_for_nor_against() -> None:
    time_s = hours(3)
    frame = scene(time_s, worse=step_at(time_s, 0.2))
    rng = np.random.default_rng(2)
    values = np.where(rng.random(frame.values.shape) < 0.2, NAN, frame.values)
    holed = Frame(spec=frame.spec, time_ns=frame.time_ns, values=values, fresh=frame.fresh)
    assert {finding.entity_id for finding in judged(holed)} == {"gpu:GPU-2"}
