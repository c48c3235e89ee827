"""Events as printed fields and as records."""

import json

from analytics.kernel_log import reports, to_event, to_fields
from telemetry.record_json import from_json, to_json
from telemetry.records import EventKind, Severity
from tests.analytics.kernel_log.reading import events_of, last, only

_XID = "NVRM: Xid (PCI:0000:3b:00): 79, pid=123, name=python3, GPU has fallen off the bus."
_UUIDS = {"0000:3b:00": "GPU-aa"}


def test_the_fields_of_an_xid_are_plain_json() -> None:
    fields = json.loads(json.dumps(to_fields(only(_XID))))
    assert fields == {
        "kind": "xid",
        "code": 79,
        "pci": "0000:3b:00",
        "pid": 123,
        "process": "python3",
        "line": 1,
        "report_line": 1,
        "message": "GPU has fallen off the bus.",
        "severity": "critical",
    }


def test_fields_that_every_event_has_are_null_where_absent() -> None:
    fields = to_fields(only("NVRM: GPU at 0000:01:00.0 has fallen off the bus."))
    assert list(fields)[:6] == ["kind", "code", "pci", "pid", "process", "line"]
    assert (fields["code"], fields["pid"], fields["process"]) == (None, None, None)


def test_the_fields_of_a_pcie_error_stand_beside_the_others() -> None:
    fields = json.loads(
        json.dumps(
            to_fields(
                last(
                    "pcieport 0000:00:03.0: PCIe Bus Error: severity=Corrected, type=Data Link Layer, (Receiver ID)",
                    "pcieport 0000:00:03.0:   device [8086:6f08] error status/mask=00001000/00002000",
                    "pcieport 0000:00:03.0:    [12] Timeout",
                )
            )
        )
    )
    assert fields["aer_severity"] == "corrected"
    assert fields["error_type"] == "Data Link Layer"
    assert fields["component"] == "pcieport"
    assert (fields["status"], fields["mask"], fields["bits"]) == ("00001000", "00002000", ["Timeout"])
    assert "source_pci" not in fields


def test_a_record_carries_the_facts_and_the_catalogues_severity() -> None:
    event = to_event(only(_XID), time_ns=5, uuids=_UUIDS, source="kmsg")
    assert (event.kind, event.code, event.entity_id) == (EventKind.XID, 79, "gpu:GPU-aa")
    assert (event.pci, event.pid, event.process) == ("0000:3b:00", 123, "python3")
    assert (event.severity, event.sources, event.time_ns) == (Severity.CRITICAL, ("kernel_log",), 5)
    assert event.message.startswith("Xid 79 (GPU no longer answers on PCIe")
    assert from_json(to_json(event)) == event


def test_the_lines_of_one_report_make_one_record_that_grows() -> None:
    lines = (
        "pcieport 0000:00:03.0: AER: Uncorrected (Fatal) error received: 0000:3b:00.0",
        "pcieport 0000:00:03.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer, (Requester ID)",
        "pcieport 0000:00:03.0:    [14] CmpltTO                (First)",
        "pcieport 0000:00:03.0: AER: device recovery failed",
    )
    events = [to_event(event, time_ns=1, uuids=_UUIDS, source="kmsg") for event in events_of(*lines)]
    assert len({event.id for event in events}) == 1
    assert events[-1].entity_id == "gpu:GPU-aa"
    assert events[-1].message == (
        "PCIe fatal error, Transaction Layer, Requester ID, from 0000:3b:00.0: CmpltTO; recovery: failed"
    )


def test_the_same_log_returns_the_same_ids_and_another_log_returns_others() -> None:
    first, again, other = (
        to_event(only(_XID), time_ns=time_ns, uuids={}, source=source).id
        for time_ns, source in ((1, "a"), (2, "a"), (1, "b"))
    )
    assert first == again
    assert first != other


def test_a_gpu_that_only_the_log_names_is_still_the_gpu() -> None:
    named = last("NVRM: GPU at PCI:0000:3b:00: GPU-1f2e3d4c-0a1b-4c5d-8e9f-00112233aabb", _XID)
    assert to_event(named, time_ns=1, uuids={}, source="a").entity_id == "gpu:GPU-1f2e3d4c-0a1b-4c5d-8e9f-00112233aabb"


def test_a_switch_or_port_that_no_gpu_is_known_for_has_no_entity() -> None:
    event = only("nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 20034, Fatal, Link 30 LTSSM Fault Up")
    record = to_event(event, time_ns=1, uuids=_UUIDS, source="a")
    assert record.entity_id is None
    assert record.message == "SXid 20034 (LTSSM Fault Up): Fatal, Link 30 LTSSM Fault Up"


def test_a_drop_and_a_link_cut_are_described_in_text() -> None:
    drop = only("NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus.")
    assert to_event(drop, time_ns=1, uuids=_UUIDS, source="a").message.endswith("GPU has fallen off the bus.")
    (cut,) = reports(events_of("pcieport 0000:00:1b.0: DPC: containment event, status:0x1f01 source:0x0000"))
    assert to_event(cut, time_ns=1, uuids={}, source="a").message == "PCIe error; the port cut the link"
