"""Driver lines of the kernel log as events of this node's GPUs."""

import pytest

from agent.collectors.events.driver_messages import DriverEvents, DriverLineParser
from agent.collectors.events.kernel_log import KernelLine
from telemetry.errors import DeviceLostError
from telemetry.gpu import DriverEvent
from telemetry.records import EventKind, Severity
from tests.agent.fakes import START_NS, FakeClock, FakeGpuEvents, gpu_identities

GPUS = gpu_identities(2)
FALLEN = "NVRM: Xid (PCI:0000:3c:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."


def line(text: str, sequence: int | None = 1) -> KernelLine:
    return KernelLine(time_ns=START_NS, sequence=sequence, text=text)


def lines(log: str = "kmsg:1234") -> DriverLineParser:
    return DriverLineParser(GPUS, log=log)


def test_an_xid_names_the_gpu_at_its_address() -> None:
    (event,) = lines().parse(line(FALLEN))
    assert (event.kind, event.code) == (EventKind.XID, 79)
    assert event.entity_id == f"gpu:{GPUS[1].uuid}"
    assert event.time_ns == START_NS
    assert event.sources == ("kernel_log",)


def test_an_address_that_is_not_ours_names_no_gpu() -> None:
    (event,) = lines().parse(line(FALLEN.replace("3c:00", "aa:00")))
    assert event.entity_id is None
    assert event.pci is not None


def test_ordinary_lines_give_nothing_and_driver_lines_without_a_pattern_are_counted() -> None:
    source = lines()
    assert source.parse(line("usb 1-1: new high-speed USB device", 1)) == ()
    assert source.unparsed == 0
    assert source.parse(line("NVRM: Xid (PCI:0000:3b:00): soon, of a form that nobody has seen", 2)) == ()
    assert source.unparsed == 1


def test_the_id_follows_from_the_log_and_the_number_of_the_record() -> None:
    (first,) = lines().parse(line(FALLEN, 7))
    (again,) = lines().parse(line(FALLEN, 7))
    (other_record,) = lines().parse(line(FALLEN, 8))
    (other_boot,) = lines("kmsg:5678").parse(line(FALLEN, 7))
    assert first.id == again.id
    assert len({first.id, other_record.id, other_boot.id}) == 3


def test_records_without_a_number_are_counted_through() -> None:
    source = lines()
    (first,) = source.parse(line(FALLEN, None))
    (second,) = source.parse(line(FALLEN, None))
    assert first.id != second.id


def test_the_details_of_an_sxid_are_no_further_events() -> None:
    source = lines()
    head = "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 28006, Non-fatal, Link 46 MC TS crumbstore MCTO"
    detail = "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 28006, Severity 0 Engine instance 46 Sub-engine instance 00"
    found = [event for n, text in enumerate((head, detail)) for event in source.parse(line(text, n))]
    assert [(event.kind, event.code) for event in found] == [(EventKind.SXID, 28006)]


def _source(*batches: tuple[DriverEvent, ...] | Exception) -> DriverEvents:
    severities = {79: Severity.CRITICAL}
    return DriverEvents(
        FakeGpuEvents(batches), GPUS, clock=FakeClock(), severity_of=lambda code: severities.get(code, Severity.WARNING)
    )


def test_an_xid_names_its_gpu_its_address_and_how_bad_it_is() -> None:
    (event,) = _source((DriverEvent(uuid=GPUS[1].uuid, code=79),)).poll(0.5)
    assert (event.kind, event.code, event.severity) == (EventKind.XID, 79, Severity.CRITICAL)
    assert event.entity_id == f"gpu:{GPUS[1].uuid}"
    assert event.pci == GPUS[1].pci
    assert event.time_ns == START_NS
    assert event.sources == ("nvml",)


def test_an_xid_without_gpu_and_code_is_still_reported() -> None:
    (event,) = _source((DriverEvent(uuid=None, code=999),)).poll(0.5)
    assert (event.entity_id, event.pci) == (None, None)
    assert "Xid without a code" in event.message


def test_two_events_of_one_moment_have_two_ids() -> None:
    twice = DriverEvent(uuid=GPUS[0].uuid, code=13)
    first, second = _source((twice, twice)).poll(0.5)
    assert first.id != second.id


def test_a_lost_gpu_is_for_the_caller_to_back_off() -> None:
    with pytest.raises(DeviceLostError):
        _source(DeviceLostError("gone")).poll(0.5)
