import numpy as np
import numpy.typing as npt
import pytest

from analytics.detectors.gpu_errors import GpuErrors
from analytics.detectors.gpu_lost import GpuLost
from analytics.detectors.limits import GpuErrorLimits, GpuLostLimits, SensorLostLimits
from analytics.detectors.sensor_lost import GPU_SIGNALS, SUPPLY_SIGNALS, SensorLost
from telemetry.clock import NS_PER_S
from telemetry.entities import EntityKind, Topology
from telemetry.frames import Frame
from telemetry.records import Cause, Event, EventKind, Finding, FindingStatus, Severity
from tests.analytics.scenes import START_NS, event_of, frame_of, gpu, node_of, supply

NAN = float("nan")
Column = npt.NDArray[np.float64]


def gpus_frame(silent: Column, *, pci: Column | None = None, temp_silent: Column | None = None) -> Frame:
    """Silent is 1 where a GPU gives no fast value, shape ``(n_times, n_gpus)``."""
    gone = silent > 0
    columns = {
        "power_w": np.where(gone, NAN, 250.0),
        "sm_clock_mhz": np.where(gone, NAN, 1400.0),
        "throttle_reasons": np.where(gone, NAN, 0.0),
        "gpu_temp_c": np.where(gone if temp_silent is None else temp_silent > 0, NAN, 60.0),
    }
    if pci is not None:
        columns["pci_present"] = pci
    return frame_of(EntityKind.GPU, tuple(gpu(number) for number in range(silent.shape[1])), columns, rate_hz=10.0)


def lost(frame: Frame, topology: Topology | None = None) -> tuple[Finding, ...]:
    detector = GpuLost(limits=GpuLostLimits())
    topology = topology or node_of(len(frame.spec.entities))
    return detector.step(detector.start(frame.spec), frame, topology)[1]


def unknown(frame: Frame) -> tuple[Finding, ...]:
    kind = frame.spec.kind
    watched = GPU_SIGNALS if kind is EntityKind.GPU else SUPPLY_SIGNALS
    detector = SensorLost(limits=SensorLostLimits(), name=f"{kind}_sensor_lost", kind=kind, watched=watched)
    return detector.step(detector.start(frame.spec), frame, node_of(4))[1]


def silence(*, rows: int = 100, n_gpus: int = 4, who: tuple[int, ...] = (2,), since: int = 20) -> Column:
    silent = np.zeros((rows, n_gpus))
    silent[since:, list(who)] = 1
    return silent


def test_a_gpu_that_vanishes_while_its_siblings_answer_is_lost_within_two_seconds() -> None:
    findings = lost(gpus_frame(silence()))
    assert [(one.entity_id, one.cause, one.severity) for one in findings] == [
        ("gpu:GPU-2", Cause.GPU_LOST, Severity.CRITICAL)
    ]
    assert findings[0].since_ns == START_NS + 2 * NS_PER_S
    assert findings[0].time_ns - findings[0].since_ns <= 2 * NS_PER_S
    assert findings[0].number("siblings_answering") == 3


def test_all_gpus_that_vanish_together_are_unknown_and_never_lost() -> None:
    frame = gpus_frame(silence(who=(0, 1, 2, 3)))
    assert lost(frame) == ()
    findings = unknown(frame)
    assert {one.entity_id for one in findings} == {f"gpu:GPU-{number}" for number in range(4)}
    assert {one.cause for one in findings} == {Cause.SENSOR_LOST}


def resting_frame(*, worked_until: int, seconds: int = 60, who: tuple[int, ...] = (0, 1, 2, 3)) -> Frame:
    """All GPUs work until a second, rest, and fall silent in second 20, `who` of them; rows at 1 Hz."""
    silent = silence(rows=seconds, who=who)
    util = np.where(np.arange(seconds)[:, np.newaxis] < worked_until, 1.0, 0.0) + np.zeros((1, 4))
    gone = silent > 0
    columns = {name: np.where(gone, NAN, 100.0) for name in ("power_w", "sm_clock_mhz", "gpu_temp_c")}
    columns |= {"throttle_reasons": np.where(gone, NAN, 1.0), "gpu_util_ratio": np.where(gone, NAN, util)}
    return frame_of(EntityKind.GPU, tuple(gpu(number) for number in range(4)), columns, rate_hz=1.0)


@pytest.mark.parametrize(
    ("worked_until", "who", "severity"),
    [
        (10, (0, 1, 2, 3), Severity.INFO),  # nothing ran: as when the driver is changed
        (18, (0, 1, 2, 3), Severity.WARNING),  # the job ended a moment ago
        (60, (0, 1, 2, 3), Severity.WARNING),  # a job runs on, unseen
    ],
)
def test_silence_of_all_gpus_is_no_more_than_noted_where_none_of_them_worked(
    worked_until: int, who: tuple[int, ...], severity: Severity
) -> None:
    findings = unknown(resting_frame(worked_until=worked_until, who=who))
    assert {(one.cause, one.severity) for one in findings} == {(Cause.SENSOR_LOST, severity)}


def test_one_idle_gpu_that_falls_silent_is_lost_and_never_only_noted() -> None:
    frame = resting_frame(worked_until=10, who=(2,))
    assert unknown(frame) == ()
    assert {(one.cause, one.severity) for one in lost(frame)} == {(Cause.GPU_LOST, Severity.CRITICAL)}


def test_silence_that_was_noted_becomes_a_warning_if_it_lasts() -> None:
    one = [found for found in unknown(resting_frame(worked_until=10, seconds=1000)) if found.entity_id == "gpu:GPU-0"]
    assert [(found.status, found.severity) for found in one] == [
        (FindingStatus.RAISED, Severity.INFO),
        (FindingStatus.UPDATED, Severity.WARNING),
    ]
    assert one[1].time_ns - one[1].since_ns == 900 * NS_PER_S


def test_a_short_silence_a_gpu_never_seen_and_a_quiet_node_lose_nothing() -> None:
    short = silence()
    short[28:, 2] = 0
    assert lost(gpus_frame(short)) == ()
    assert lost(gpus_frame(silence(since=0))) == ()
    assert lost(gpus_frame(np.zeros((100, 4)))) == ()


def test_one_lost_gpu_is_not_reported_a_second_time_as_a_lost_sensor() -> None:
    assert unknown(gpus_frame(silence())) == ()


def test_a_gpu_whose_temperature_still_arrives_is_a_lost_sensor() -> None:
    frame = gpus_frame(silence(), temp_silent=np.zeros((100, 4)))
    assert lost(frame) == ()
    assert [one.entity_id for one in unknown(frame)] == ["gpu:GPU-2"]


def test_a_lone_gpu_is_lost_only_if_its_pci_device_is_gone() -> None:
    silent = silence(n_gpus=1, who=(0,))
    assert lost(gpus_frame(silent)) == ()
    assert lost(gpus_frame(silent, pci=np.ones((100, 1)))) == ()
    findings = lost(gpus_frame(silent, pci=1 - silent))
    assert len(findings) == 1
    assert findings[0].time_ns == findings[0].since_ns
    assert "PCI device is gone" in findings[0].summary


def test_a_gpu_that_comes_back_clears_once() -> None:
    silent = silence(rows=200)
    silent[60:, 2] = 0
    assert [one.status for one in lost(gpus_frame(silent))] == [FindingStatus.RAISED, FindingStatus.CLEARED]


def test_siblings_are_those_of_the_same_node() -> None:
    # Each GPU alone in its own node: the silence of one is no evidence about the other's bus.
    apart = Topology(entities=tuple(gpu(number) for number in range(4)))
    assert lost(gpus_frame(silence()), apart) == ()


def test_a_supply_whose_voltage_is_gone_is_unknown_after_the_hold_and_clears_when_it_is_back() -> None:
    volts = np.full(200, 12.0)
    volts[20:120] = NAN
    frame = frame_of(EntityKind.SUPPLY, (supply(0),), {"voltage_v": volts}, rate_hz=10.0)
    findings = unknown(frame)
    assert [one.status for one in findings] == [FindingStatus.RAISED, FindingStatus.CLEARED]
    assert findings[0].time_ns - findings[0].since_ns == 5 * NS_PER_S
    assert "health is unknown" in findings[0].summary
    assert "voltage_v" in findings[0].summary


def errors(*steps: tuple[list[Event], float]) -> tuple[Finding, ...]:
    detector = GpuErrors(limits=GpuErrorLimits())
    state = detector.start()
    findings: list[Finding] = []
    for events, now_s in steps:
        state, found = detector.step(state, events, START_NS + round(now_s * NS_PER_S), node_of())
        findings.extend(found)
    return tuple(findings)


@pytest.mark.parametrize(
    ("kind", "code", "cause"),
    [
        (EventKind.XID, 79, Cause.GPU_LOST),
        (EventKind.BUS_DROP, None, Cause.GPU_LOST),
        (EventKind.XID, 48, Cause.GPU_ERROR),
        (EventKind.DRIVER_ERROR, None, Cause.GPU_ERROR),
        (EventKind.XID, 74, Cause.FABRIC_ERROR),
        (EventKind.SXID, 12028, Cause.FABRIC_ERROR),
    ],
)
def test_events_name_their_cause(kind: EventKind, code: int | None, cause: Cause) -> None:
    findings = errors(([event_of(kind=kind, code=code)], 1.0))
    assert [finding.cause for finding in findings] == [cause]
    assert findings[0].number("code") == code


def test_gpus_that_are_missing_at_start_are_lost_on_the_node_and_a_failing_collector_is_not() -> None:
    reported = event_of(kind=EventKind.COLLECTOR, code=None, entity_id="node:box", message="1 of 4 GPUs do not answer")
    (finding,) = errors(([reported], 1.0))
    assert (finding.cause, finding.entity_id, finding.severity) == (Cause.GPU_LOST, "node:box", Severity.CRITICAL)
    assert "missing GPU on box: 1 of 4 GPUs do not answer" in finding.summary
    assert errors(([event_of(kind=EventKind.COLLECTOR, code=None, severity=Severity.WARNING)], 1.0)) == ()


def test_events_of_severity_info_and_of_other_kinds_raise_no_finding() -> None:
    assert errors(([event_of(code=43, severity=Severity.INFO), event_of(kind=EventKind.KERNEL_GAP)], 1.0)) == ()


def test_a_repeated_xid_counts_in_one_finding_and_clears_after_its_quiet_time() -> None:
    findings = errors(
        ([event_of(code=48, at_s=0)], 0.0),
        ([event_of(code=48, at_s=2)], 2.0),
        ([event_of(code=48, at_s=8)], 8.0),
        ([], 300.0),
        ([], 700.0),
        ([], 1400.0),
    )
    assert [one.status for one in findings] == [FindingStatus.RAISED, FindingStatus.UPDATED, FindingStatus.CLEARED]
    assert findings[1].number("count") == 3
    assert len({one.id for one in findings}) == 1


def test_two_codes_on_one_gpu_are_two_findings_even_in_the_same_nanosecond() -> None:
    findings = errors(([event_of(code=48), event_of(code=95)], 0.0))
    assert len({one.id for one in findings}) == 2


def test_an_event_without_a_device_belongs_to_the_only_node() -> None:
    assert errors(([event_of(code=31, entity_id=None)], 0.0))[0].entity_id == "node:box"
