"""Xids of the driver as events."""

import pytest

from agent.collectors.events.driver_events import DriverEvents
from agent.driver.port import DriverEvent
from telemetry.errors import DeviceLostError
from telemetry.records import EventKind, Severity
from tests.agent.fakes import START_NS, FakeClock, FakeGpuEvents, gpu_identities

GPUS = gpu_identities(2)


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
