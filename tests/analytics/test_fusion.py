from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analytics.fusion import MAX_PENDING, FusionState, fuse
from telemetry.records import Event, EventKind, Severity
from tests.analytics.scenes import event_of

NVML = event_of(at_s=10.0, source="nvml", message="Xid 79")
KERNEL = event_of(
    at_s=10.4, source="kernel_log", pci="0000:3b:00", message="GPU has fallen off the bus.", pid=12, process="python3"
)
DROP = event_of(at_s=10.5, kind=EventKind.BUS_DROP, code=None, source="kernel_log", pci="0000:3b:00.0")


def fused(*reports: Event) -> dict[str, Event]:
    state = FusionState()
    newest: dict[str, Event] = {}
    for report in reports:
        state, out = fuse(state, [report])
        newest |= {event.id: event for event in out}
    return newest


@pytest.mark.parametrize("reports", [(NVML, KERNEL, DROP), (DROP, KERNEL, NVML), (KERNEL, DROP, NVML)])
def test_one_lost_gpu_is_one_event_whichever_source_reports_it_first(reports: tuple[Event, ...]) -> None:
    newest = fused(*reports)
    assert len(newest) == 1
    (event,) = newest.values()
    assert (event.kind, event.code, event.entity_id) == (EventKind.XID, 79, "gpu:GPU-0")
    assert event.sources == ("kernel_log", "nvml")
    assert (event.pid, event.process, event.pci) == (12, "python3", "0000:3b:00.0")
    assert event.id == reports[0].id
    assert event.time_ns == reports[0].time_ns


def test_the_first_reporting_is_passed_on_at_once_and_a_second_that_adds_nothing_is_not() -> None:
    state, first = fuse(FusionState(), [NVML])
    assert first == (NVML,)
    state, second = fuse(state, [KERNEL])
    assert len(second) == 1
    assert fuse(state, [KERNEL])[1] == ()


def test_different_codes_devices_and_times_stay_apart() -> None:
    other_code = event_of(at_s=10.1, code=48, source="kernel_log")
    other_gpu = event_of(at_s=10.1, code=79, entity_id="gpu:GPU-1", source="kernel_log")
    later = event_of(at_s=71.0, code=79, source="kernel_log")
    assert len(fused(NVML, other_code, other_gpu, later)) == 4


def test_the_same_source_reporting_twice_reports_of_two_events_and_each_is_joined_once() -> None:
    reports = [event_of(at_s=at_s, code=48, source=source) for source in ("nvml", "kernel_log") for at_s in (1.0, 2.0)]
    newest = fused(*reports)
    assert len(newest) == 2
    assert {event.sources for event in newest.values()} == {("kernel_log", "nvml")}


def test_a_reporting_without_a_device_joins_the_one_that_names_it() -> None:
    nameless = event_of(at_s=10.2, code=79, entity_id=None, source="nvml")
    newest = fused(KERNEL, nameless)
    assert [event.entity_id for event in newest.values()] == ["gpu:GPU-0"]
    assert [event.entity_id for event in fused(nameless, KERNEL).values()] == ["gpu:GPU-0"]


def test_devices_known_by_address_alone_are_reported_apart_by_it() -> None:
    here = event_of(entity_id=None, pci="0000:3b:00", source="nvml")
    same = event_of(entity_id=None, pci="0000:3B:00.0", source="kernel_log")
    there = event_of(entity_id=None, pci="0000:5e:00", source="kernel_log")
    assert len(fused(here, same)) == 1
    assert len(fused(here, there)) == 2


def test_the_worse_severity_and_the_fuller_text_survive() -> None:
    mild = replace(NVML, severity=Severity.WARNING, message="")
    (event,) = fused(mild, KERNEL).values()
    assert event.severity is Severity.CRITICAL
    assert event.message == KERNEL.message


def test_other_kinds_pass_through_untouched() -> None:
    gap = event_of(kind=EventKind.KERNEL_GAP, code=None)
    assert fuse(FusionState(), [gap, gap])[1] == (gap, gap)


def test_memory_is_bounded_in_a_storm() -> None:
    storm = [event_of(at_s=0.0001 * number, code=13, source="kernel_log") for number in range(MAX_PENDING + 500)]
    state, out = fuse(FusionState(), storm)
    assert len(state.pending) == MAX_PENDING
    assert len(out) == len(storm)


@given(
    at_s=st.lists(st.floats(0, 30, allow_nan=False), min_size=1, max_size=20),
    cut=st.integers(0, 20),
)
def test_a_batch_in_two_parts_returns_the_events_of_one(at_s: list[float], cut: int) -> None:
    reports = [
        event_of(at_s=at, code=(31, 48)[number % 2], source=("nvml", "kernel_log")[number // 2 % 2])
        for number, at in enumerate(sorted(at_s))
    ]
    _, whole = fuse(FusionState(), reports)
    state, first = fuse(FusionState(), reports[:cut])
    _, second = fuse(state, reports[cut:])
    assert (*first, *second) == whole


UEVENT = event_of(at_s=12.0, kind=EventKind.BUS_DROP, code=None, pci="0000:3b:00.0", source="uevents")
SYSFS = event_of(at_s=11.0, kind=EventKind.BUS_DROP, code=None, pci="0000:3b:00.0", source="link_state")
TRACE = event_of(at_s=10.0, pci="0000:3b:00.0", source="tracepoints")
BACK = event_of(at_s=20.0, kind=EventKind.DEVICE_ADDED, code=None, pci="0000:3b:00.0", source="uevents")


@given(st.permutations([NVML, KERNEL, DROP, UEVENT, SYSFS, TRACE]))
def test_a_bus_drop_that_six_sources_report_is_one_event_in_whatever_order(reports: list[Event]) -> None:
    newest = fused(*reports)
    assert len(newest) == 1
    (event,) = newest.values()
    assert event.sources == ("kernel_log", "link_state", "nvml", "tracepoints", "uevents")
    assert (event.code, event.id, event.time_ns) == (79, reports[0].id, reports[0].time_ns)


def test_a_late_confirmation_of_a_loss_adds_its_source_and_is_no_second_event() -> None:
    late = event_of(at_s=65.0, kind=EventKind.BUS_DROP, code=None, source="uevents")
    newest = fused(NVML, late)
    assert [event.sources for event in newest.values()] == [("nvml", "uevents")]


def test_a_gpu_that_was_back_can_be_lost_again_within_the_minute() -> None:
    again = event_of(at_s=25.0, source="nvml")
    newest = fused(NVML, UEVENT, BACK, again)
    assert [event.id for event in newest.values()] == [NVML.id, BACK.id, again.id]


def test_a_gpu_that_is_back_ends_the_loss_of_no_other() -> None:
    other = event_of(at_s=10.0, entity_id="gpu:GPU-1", pci="0000:5e:00.0")
    late = event_of(at_s=30.0, entity_id="gpu:GPU-1", pci="0000:5e:00.0", source="uevents")
    newest = fused(NVML, other, BACK, late)
    assert newest[other.id].sources == ("nvml", "uevents")


def test_a_reporting_that_comes_again_under_its_id_changes_nothing() -> None:
    state, _ = fuse(FusionState(), [NVML, KERNEL, UEVENT])
    assert fuse(state, [UEVENT, KERNEL, NVML, KERNEL])[1] == ()


def test_a_report_that_grows_is_passed_on_whole() -> None:
    begun = event_of(kind=EventKind.AER, code=None, pci="0000:3b:00.0", source="kernel_log", severity=Severity.WARNING)
    grown = replace(begun, severity=Severity.INFO, message="corrected")
    assert fused(begun, grown) == {begun.id: grown}


def test_corrected_and_fatal_pcie_errors_and_falling_and_recovered_links_stay_apart() -> None:
    for kind in (EventKind.AER, EventKind.LINK):
        worse = event_of(kind=kind, code=None, source="kernel_log")
        milder = replace(worse, id="milder", severity=Severity.INFO, sources=("link_state",))
        same = replace(worse, id="same", sources=("link_state",))
        assert len(fused(worse, milder)) == 2
        assert len(fused(worse, same)) == 1


@pytest.mark.parametrize("step_s", [3600.0, -3600.0])
def test_after_a_step_of_the_clock_nothing_of_before_is_joined_or_kept(step_s: float) -> None:
    state, _ = fuse(FusionState(), [NVML])
    state, out = fuse(state, [event_of(at_s=10.0 + step_s, source="kernel_log")])
    assert len(out) == 1
    assert len(state.pending) == 1
