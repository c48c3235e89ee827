import numpy as np
import pytest

from analytics.detectors.airflow import Airflow
from analytics.detectors.airflow_lost import AirflowLost
from analytics.detectors.build import AnyDetector
from analytics.detectors.fan_stopped import FanStopped
from analytics.detectors.heat_limits import AirflowLimits, AirflowLostLimits, FanStoppedLimits, WarmInletLimits
from analytics.detectors.panel import Panel
from analytics.detectors.warm_inlet import WarmInlet
from physics.cooling import resistance_factor
from telemetry.clock import NS_PER_S
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.frames import FloatArray, Frame
from telemetry.records import Cause, Finding, FindingStatus, Severity
from tests.analytics.scenes import START_NS, frame_of, gpu, node_of

NAN = float("nan")
NODE = Entity(kind=EntityKind.NODE, key="box", name="box")
FANS = tuple(Entity(kind=EntityKind.FAN, key=f"box/fan{number}", name=f"fan{number}") for number in range(3))
GPUS = tuple(gpu(number) for number in range(4))


def box() -> Topology:
    bare = node_of(4, 0)
    edges = (*bare.edges, *((NODE.id, fan.id) for fan in FANS))
    return Topology(entities=(*bare.entities, *FANS), edges=edges)


def judged(
    detector: AnyDetector,
    *,
    temp_c: FloatArray,
    power_w: FloatArray | float = 250.0,
    inlet_c: FloatArray | float = 22.0,
    fan_ratio: FloatArray | float = NAN,
    rate_hz: float = 1.0,
) -> tuple[Finding, ...]:
    """Judge a node; `temp_c` is of all GPUs alike or ``(n_times, 4)``, the others over time or for good."""
    rows = len(temp_c)

    def over_time(value: FloatArray | float) -> FloatArray:
        return np.broadcast_to(np.asarray(value, dtype=np.float64), (rows,))

    frames: list[Frame] = [
        frame_of(
            EntityKind.GPU,
            GPUS,
            {"gpu_temp_c": np.round(temp_c), "power_w": over_time(power_w)},
            rate_hz=rate_hz,
            name="gpus",
        ),
        frame_of(EntityKind.NODE, (NODE,), {"inlet_temp_c": over_time(inlet_c)}, rate_hz=rate_hz, name="nodes"),
        frame_of(EntityKind.FAN, FANS, {"fan_ratio": over_time(fan_ratio)}, rate_hz=rate_hz, name="fans"),
    ]
    panel = Panel(detectors=(detector,), event_detectors=())
    return panel.step(panel.start([frame.spec for frame in frames]), frames, box())[1]


def seconds_of(finding: Finding) -> float:
    return (finding.time_ns - START_NS) / NS_PER_S


def inlet(*temps_c: float, seconds_each: int = 100) -> tuple[Finding, ...]:
    detector = WarmInlet(limits=WarmInletLimits())
    over_time = np.repeat(temps_c, seconds_each)
    return judged(detector, temp_c=np.full(len(over_time), 60.0), inlet_c=over_time)


@pytest.mark.parametrize("inlet_c", [22.0, 34.9, NAN, 72.0, 250.0])
def test_an_inlet_that_is_allowed_unknown_or_absurd_is_silent(inlet_c: float) -> None:
    assert inlet(inlet_c, inlet_c) == ()


def test_a_hot_inlet_is_reported_of_its_node_and_clears() -> None:
    findings = inlet(22.0, 40.0, 46.0, 25.0)
    assert findings[0].status is FindingStatus.RAISED
    assert findings[0].cause is Cause.AIRFLOW
    assert findings[0].entity_id == NODE.id
    assert 100 < seconds_of(findings[0]) <= 135
    assert findings[0].severity is Severity.WARNING
    assert max(finding.severity.rank for finding in findings) == Severity.CRITICAL.rank
    assert findings[-1].status is FindingStatus.CLEARED


def lost(**scene: FloatArray | float) -> tuple[Finding, ...]:
    return judged(AirflowLost(limits=AirflowLostLimits()), **scene)  # type: ignore[arg-type] # temp_c is an array


def ramp(before_s: int, *, from_c: float, to_c: float, over_s: int, after_s: int) -> FloatArray:
    return np.concatenate([np.full(before_s, from_c), np.linspace(from_c, to_c, over_s), np.full(after_s, to_c)])


def test_half_of_the_fans_lost_is_reported_within_two_minutes_where_the_duty_is_known() -> None:
    findings = lost(temp_c=ramp(60, from_c=52.0, to_c=66.0, over_s=60, after_s=60), fan_ratio=0.4)
    assert [finding.entity_id for finding in findings if finding.status is FindingStatus.RAISED] == [NODE.id]
    assert 60 < seconds_of(findings[0]) < 180
    assert findings[0].cause is Cause.AIRFLOW


@pytest.mark.parametrize("time_constant_s", [30.0, 60.0, 90.0])
def test_gpus_that_still_warm_to_a_job_that_ran_before_the_first_row_are_no_fault(time_constant_s: float) -> None:
    warming = 24.0 + 38.0 - 18.0 * np.exp(-np.arange(600) / time_constant_s)
    assert lost(temp_c=warming, fan_ratio=0.3) == ()
    then_lost = np.concatenate([warming, ramp(0, from_c=62.0, to_c=76.0, over_s=60, after_s=60)])
    assert 600 < seconds_of(lost(temp_c=then_lost, fan_ratio=0.3)[0]) < 720


def test_fans_that_the_controller_let_go_are_no_fault() -> None:
    duty = np.concatenate([np.full(60, 0.5), np.linspace(0.5, 0.25, 60), np.full(120, 0.25)])
    temp_c = 22.0 + 30.0 * resistance_factor(duty)
    assert lost(temp_c=temp_c, fan_ratio=duty) == ()


def test_without_the_duty_only_what_was_never_so_hot_counts() -> None:
    started = ramp(60, from_c=50.0, to_c=60.0, over_s=120, after_s=3000)
    assert lost(temp_c=started) == ()
    assert lost(temp_c=np.concatenate([started, np.full(120, 72.0)])) != ()


def test_one_gpu_that_gets_hot_is_no_lost_airflow() -> None:
    temp_c = np.repeat(ramp(60, from_c=52.0, to_c=52.0, over_s=1, after_s=300)[:, None], 4, axis=1)
    temp_c[100:, 2] = 80.0
    assert lost(temp_c=temp_c, fan_ratio=0.4) == ()


def test_a_higher_load_and_a_warmer_room_are_no_lost_airflow() -> None:
    power_w = np.repeat([150.0, 300.0], 600)
    assert lost(temp_c=22.0 + 0.115 * power_w, power_w=power_w, fan_ratio=0.4) == ()
    inlet_c = np.linspace(22.0, 38.0, 1200)
    assert lost(temp_c=inlet_c + 30.0, inlet_c=inlet_c, fan_ratio=0.4) == ()


def slow(temp_c: FloatArray, **scene: FloatArray | float) -> tuple[Finding, ...]:
    detector = Airflow(limits=AirflowLimits())
    return judged(detector, temp_c=temp_c, rate_hz=0.2, **scene)


def test_a_filter_that_clogs_is_reported_with_the_duty_that_was_normal() -> None:
    dust = np.linspace(0.0, 1.0, 7200)  # ten hours
    duty = np.where(np.arange(7200) < 800, 0.3, 0.3 + 0.5 * dust)
    findings = slow(np.full(7200, 60.0), fan_ratio=duty)
    assert findings[0].entity_id == NODE.id
    assert findings[0].cause is Cause.AIRFLOW
    assert findings[0].number("normal_fan_ratio") == pytest.approx(0.3, abs=0.02)
    assert findings[0].number("fan_power_ratio") is not None


def test_a_hot_day_and_another_load_are_not_compared_with_the_cool_past() -> None:
    inlet_c = np.concatenate([np.full(1200, 22.0), np.full(1200, 30.0)])
    assert slow(np.full(2400, 60.0), inlet_c=inlet_c) == ()
    power_w = np.concatenate([np.full(1200, 250.0), np.full(1200, 160.0)])
    assert slow(np.full(2400, 60.0), power_w=power_w) == ()


def test_a_higher_rise_under_similar_conditions_is_reported_and_clears() -> None:
    temp_c = np.concatenate([np.full(1200, 52.0), np.full(600, 62.0), np.full(600, 52.0)])
    lives = [finding.status for finding in slow(temp_c)]
    assert (lives[0], lives[-1]) == (FindingStatus.RAISED, FindingStatus.CLEARED)
    assert lives.count(FindingStatus.RAISED) == 1


def fans(*rows: tuple[float, float, float], duty: float = 0.5) -> tuple[Finding, ...]:
    speeds = np.repeat(np.array(rows), 60, axis=0)
    frame = frame_of(EntityKind.FAN, FANS, {"fan_rpm": speeds, "fan_ratio": np.full(speeds.shape, duty)}, rate_hz=1.0)
    detector = FanStopped(limits=FanStoppedLimits())
    return detector.step(detector.start(frame.spec), frame, box())[1]


def test_a_fan_that_stops_is_reported_and_clears_when_it_turns_again() -> None:
    findings = fans((9000, 9000, 9000), (9000, 0, 9000), (9000, 9000, 9000))
    assert [(finding.entity_id, finding.status) for finding in findings] == [
        (FANS[1].id, FindingStatus.RAISED),
        (FANS[1].id, FindingStatus.CLEARED),
    ]
    assert findings[0].cause is Cause.AIRFLOW


@pytest.mark.parametrize(
    ("rows", "duty"),
    [
        (((9000, 0, 9000), (9000, 0, 9000)), 0.5),  # an empty place
        (((9000, 9000, 9000), (0, 0, 0)), 0.0),  # the node is off
        (((9000, 9000, 9000), (NAN, NAN, 9000)), 0.5),  # not read
    ],
)
def test_places_without_a_fan_nodes_that_are_off_and_gaps_are_silent(
    rows: tuple[tuple[float, float, float], ...], duty: float
) -> None:
    assert fans(*rows, duty=duty) == ()


def test_fans_that_are_all_stopped_against_their_duty_are_reported() -> None:
    assert len(fans((9000, 9000, 9000), (0, 0, 0))) == 3
