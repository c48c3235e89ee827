import numpy as np
import numpy.typing as npt
import pytest

from analytics.detectors.hotter_than_siblings import HotterThanSiblings
from analytics.detectors.limits import HotterThanSiblingsLimits, ThermalMarginLimits
from analytics.detectors.thermal_margin import ThermalMargin
from telemetry.clock import NS_PER_S
from telemetry.entities import EntityKind
from telemetry.records import Cause, Finding, FindingStatus, Severity
from tests.analytics.scenes import START_NS, frame_of, gpu, node_of

NAN = float("nan")
# Resistance from die to air of a healthy V100 plus a mis-torqued plate, K/W.
THETA = np.array([0.115, 0.117, 0.170, 0.119])


def margins(temps_c: list[float], slowdown_c: float = 87.0) -> tuple[Finding, ...]:
    columns = {"gpu_temp_c": np.array(temps_c), "slowdown_temp_c": np.full(len(temps_c), slowdown_c)}
    frame = frame_of(EntityKind.GPU, (gpu(0),), columns, rate_hz=1.0)
    detector = ThermalMargin(limits=ThermalMarginLimits())
    return detector.step(detector.start(frame.spec), frame, node_of())[1]


@pytest.mark.parametrize(
    ("temps_c", "slowdown_c", "raised"),
    [
        ([60.0] * 20, 87.0, False),
        ([82.0] * 20, 87.0, False),  # 5 K is not below 5 K
        ([83.0] * 20, 87.0, True),
        ([83.0, 83.0, 79.0] * 10, 87.0, False),  # never long enough
        ([83.0] * 20, NAN, False),  # a part that reports no slowdown temperature
        ([NAN] * 20, 87.0, False),
    ],
)
def test_thermal_margin_truth_table(temps_c: list[float], slowdown_c: float, *, raised: bool) -> None:
    assert bool(margins(temps_c, slowdown_c)) is raised


def test_thermal_margin_has_hysteresis_and_gets_critical_at_the_slowdown_temperature() -> None:
    findings = margins([83.0] * 8 + [86.0] * 8 + [80.0] * 30 + [77.0] * 15)
    assert [finding.status for finding in findings] == [
        FindingStatus.RAISED,
        FindingStatus.UPDATED,
        FindingStatus.CLEARED,
    ]
    assert findings[0].severity is Severity.WARNING
    assert findings[1].severity is Severity.CRITICAL
    assert findings[1].number("margin_c") == 1.0


def test_thermal_margin_states_when_a_gpu_that_climbs_will_be_at_its_slowdown_temperature() -> None:
    time_s = np.arange(60.0)
    climbing = 95.0 - 35.0 * np.exp(-time_s / 48.0)  # 87 °C after 71 s, 82 °C after 48 s
    finding = margins(np.round(climbing).tolist())[0]
    after_s = (finding.time_ns - START_NS) / NS_PER_S
    assert finding.number("time_to_limit_s") == pytest.approx(48.0 * np.log(35.0 / 8.0) - after_s, rel=0.5)
    assert "as it climbs now" in finding.summary


def test_thermal_margin_names_no_time_at_a_constant_temperature() -> None:
    finding = margins([83.0] * 20)[0]
    assert finding.number("time_to_limit_s") is None
    assert "climbs" not in finding.summary


def four_gpus(
    *, theta: npt.ArrayLike = THETA, power_w: npt.ArrayLike = 250.0, seconds: int = 60, flags: npt.ArrayLike = 0
) -> tuple[Finding, ...]:
    rows = seconds * 5
    powers_w = np.broadcast_to(np.asarray(power_w, dtype=np.float64), (rows, 4)).copy()
    # Between training steps the power falls; temperatures are whole kelvin.
    powers_w[::5] *= 0.6
    mean_w = powers_w.mean(axis=0)
    temps_c = np.broadcast_to(np.round(24.0 + np.asarray(theta) * mean_w), (rows, 4))
    frame = frame_of(
        EntityKind.GPU,
        tuple(gpu(number) for number in range(4)),
        {
            "gpu_temp_c": temps_c,
            "power_w": powers_w,
            "throttle_reasons": np.broadcast_to(np.asarray(flags, dtype=np.float64), (rows, 4)),
        },
        rate_hz=5.0,
    )
    detector = HotterThanSiblings(limits=HotterThanSiblingsLimits())
    return detector.step(detector.start(frame.spec), frame, node_of())[1]


def test_one_bad_interface_is_reported_within_thirty_seconds_with_the_excess() -> None:
    findings = four_gpus()
    assert [finding.entity_id for finding in findings] == ["gpu:GPU-2"]
    finding = findings[0]
    assert finding.cause is Cause.THERMAL_INTERFACE
    assert (finding.time_ns - START_NS) / NS_PER_S < 30
    assert finding.number("excess_c") == pytest.approx((0.170 - 0.117) * 230, abs=2.5)
    assert finding.number("theta_ratio") == pytest.approx(1.45, abs=0.12)
    assert finding.number("power_w") == pytest.approx(230, abs=10)


@pytest.mark.parametrize(
    ("theta", "power_w", "flags"),
    [
        ([0.115, 0.117, 0.121, 0.119], 250.0, 0),  # healthy
        ([0.170, 0.172, 0.171, 0.169], 250.0, 0),  # all warm: inlet or fans, not one interface
        (THETA, 60.0, 0),  # hardly loaded: no evidence
        (THETA, [250.0, NAN, 250.0, NAN], 0),  # one sibling is no comparison
        (THETA, 250.0, [0x20, 0x20, 0x0, 0x20]),  # siblings whose clocks were cut look cool
        ([0.115, 0.117, 0.119, 0.118], [150.0, 150.0, 300.0, 150.0], 0),  # works harder, not worse
    ],
)
def test_nothing_is_reported_where_nothing_can_be_compared(
    theta: npt.ArrayLike, power_w: npt.ArrayLike, flags: npt.ArrayLike
) -> None:
    assert four_gpus(theta=theta, power_w=power_w, flags=flags) == ()


def stretches(*parts: tuple[int, npt.ArrayLike, npt.ArrayLike]) -> tuple[Finding, ...]:
    """Findings of four GPUs over parts of seconds, powers and temperatures; rows at 1 Hz."""
    powers_w = np.concatenate([np.broadcast_to(np.asarray(power, dtype=float), (part, 4)) for part, power, _ in parts])
    temps_c = np.concatenate([np.broadcast_to(np.asarray(temp, dtype=float), (part, 4)) for part, _, temp in parts])
    columns = {"gpu_temp_c": temps_c, "power_w": powers_w}
    frame = frame_of(EntityKind.GPU, tuple(gpu(number) for number in range(4)), columns, rate_hz=1.0)
    detector = HotterThanSiblings(limits=HotterThanSiblingsLimits())
    return detector.step(detector.start(frame.spec), frame, node_of())[1]


# What is left of a heat sink's warmth every five seconds, its time constant being 48 s.
COOLING = np.exp(-np.arange(0, 120, 5) / 48.0)
ALIKE_C = (24.0 + THETA[[0, 1, 1, 3]] * 280.0).round()


def test_gpus_that_are_gone_are_no_siblings_to_be_compared_with() -> None:
    # Two fall off while the others go on at half the load with heat sinks that are still warm.
    gone_w, gone_c = [150.0, 150.0, NAN, NAN], [50.0, 44.0, NAN, NAN]
    assert stretches((60, 280.0, ALIKE_C), (60, gone_w, gone_c)) == ()


def test_a_heat_sink_that_is_still_warm_from_a_load_that_ended_is_no_bad_interface() -> None:
    # One of four goes down to half the load; its sink follows within a minute and a half.
    falling = [(5, [280.0, 280.0, 140.0, 280.0], [*ALIKE_C[:2], 41.0 + 16.0 * share, ALIKE_C[3]]) for share in COOLING]
    assert stretches((120, 280.0, ALIKE_C), *falling) == ()


def test_what_a_sink_still_carries_of_more_load_makes_no_ratio_pass_its_limit() -> None:
    # A sixth worse than its siblings, which is below the limit, while its load goes down and up by an eighth.
    theta = np.array([0.115, 0.115, 0.134, 0.115])
    powers_w, sink_w, temps_c = np.full((1200, 4), 300.0), np.full(4, 300.0), []
    powers_w[:, 2] = np.where(np.arange(1200) % 240 < 120, 300.0, 262.0)
    for now_w in powers_w:
        sink_w = sink_w + (now_w - sink_w) / 48.0
        temps_c.append(25.0 + theta * (0.48 * now_w + 0.52 * sink_w))
    assert stretches(*((1, now_w, now_c) for now_w, now_c in zip(powers_w, temps_c, strict=True))) == ()


def test_a_bad_interface_stays_reported_through_little_load_and_clears_when_it_is_mended() -> None:
    bad_c, idle_c = ALIKE_C + np.array([0.0, 0.0, 15.0, 0.0]), [40.0, 40.0, 43.0, 40.0]
    findings = stretches((60, 280.0, bad_c), (120, 130.0, idle_c), (120, 280.0, bad_c), (120, 280.0, ALIKE_C))
    assert [(one.entity_id, one.status) for one in findings] == [
        ("gpu:GPU-2", FindingStatus.RAISED),
        ("gpu:GPU-2", FindingStatus.CLEARED),
    ]
