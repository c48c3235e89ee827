import numpy as np
import pytest

from analytics.detectors.hw_slowdown import HwSlowdown
from analytics.detectors.limits import HwSlowdownLimits
from analytics.detectors.power_brake import PowerBrake
from analytics.detectors.supply_limits import PowerBrakeLimits
from telemetry.entities import EntityKind
from telemetry.frames import Frame
from telemetry.records import Cause, Finding, FindingStatus
from tests.analytics.scenes import frame_of, gpu, node_of

TOPOLOGY = node_of()
NAN = float("nan")


def brakes(**columns: object) -> tuple[Finding, ...]:
    frame = one_gpu(**columns)
    detector = PowerBrake(limits=PowerBrakeLimits())
    return detector.step(detector.start(frame.spec), frame, TOPOLOGY)[1]


def slowdowns(**columns: object) -> tuple[Finding, ...]:
    frame = one_gpu(**columns)
    detector = HwSlowdown(limits=HwSlowdownLimits())
    return detector.step(detector.start(frame.spec), frame, TOPOLOGY)[1]


def one_gpu(**columns: object) -> Frame:
    return frame_of(
        EntityKind.GPU, (gpu(0),), {name: np.asarray(values, dtype=np.float64) for name, values in columns.items()}
    )


def test_a_single_sample_with_the_brake_bit_is_reported_at_once() -> None:
    findings = brakes(throttle_reasons=[0, 0, 0x80 | 0x8, 0, 0])
    assert [finding.status for finding in findings] == [FindingStatus.RAISED]
    assert findings[0].cause is Cause.POWER_BRAKE
    assert findings[0].number("brakes") == 1


def test_other_bits_are_not_a_brake() -> None:
    assert brakes(throttle_reasons=[0x4, 0x20, 0x40 | 0x8, 0x1, NAN] * 20) == ()


def test_a_brake_between_two_polls_is_reported_by_the_counter() -> None:
    findings = brakes(throttle_reasons=[0] * 5, power_brake_s=[3.0, 3.0, 3.2, 3.2, 3.2])
    assert len(findings) == 1
    assert findings[0].number("counted_brake_s") == pytest.approx(0.2)


def test_a_counter_that_starts_high_goes_back_or_is_absent_states_nothing() -> None:
    assert brakes(throttle_reasons=[0] * 6, power_brake_s=[NAN, 9.0, 9.0, 0.0, NAN, 0.0]) == ()


def test_recurring_brakes_are_one_finding_that_counts_and_clears_once() -> None:
    step = [0x80] * 4 + [0] * 16
    findings = brakes(throttle_reasons=step * 8 + [0] * 250)
    assert findings[0].status is FindingStatus.RAISED
    assert findings[-1].status is FindingStatus.CLEARED
    assert [finding.status for finding in findings[1:-1]] == [FindingStatus.UPDATED]
    assert findings[1].number("brakes") == 6
    assert len({finding.id for finding in findings}) == 1


def test_a_gap_neither_sets_nor_clears_a_brake() -> None:
    findings = brakes(throttle_reasons=[0x80] + [NAN] * 600)
    assert [finding.status for finding in findings] == [FindingStatus.RAISED]


def test_slowdown_without_brake_or_heat_is_its_own_finding() -> None:
    findings = slowdowns(throttle_reasons=[0x8] * 20, gpu_temp_c=[60] * 20, slowdown_temp_c=[87] * 20)
    assert [finding.cause for finding in findings] == [Cause.HW_SLOWDOWN]


def test_slowdown_that_a_bit_or_the_temperature_explains_is_silent() -> None:
    assert slowdowns(throttle_reasons=[0x8 | 0x80] * 20) == ()
    assert slowdowns(throttle_reasons=[0x8 | 0x40] * 20) == ()
    assert slowdowns(throttle_reasons=[0x8] * 20, gpu_temp_c=[87] * 20, slowdown_temp_c=[87] * 20) == ()


def test_slowdown_shorter_than_the_hold_is_silent_and_long_enough_clears() -> None:
    assert slowdowns(throttle_reasons=[0, 0x8, 0x8, 0] * 10) == ()
    findings = slowdowns(throttle_reasons=[0x8] * 20 + [0] * 250)
    assert [finding.status for finding in findings] == [FindingStatus.RAISED, FindingStatus.CLEARED]
