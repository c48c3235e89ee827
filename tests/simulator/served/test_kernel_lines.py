"""Lines of the kernel log, and that railwatch's own parser understands them."""

import pytest

from analytics.kernel_log import KernelLogParser
from simulator.files.node import load_node
from simulator.plant.events import PlantEvent, PlantEventKind
from simulator.served.kernel_lines import ERROR, KernelMessages
from telemetry.records import EventKind

NODE = load_node("v100x4")


def lines(voice: KernelMessages, kind: PlantEventKind, *, gpu: int | None = 2, code: int | None = None) -> list[str]:
    event = PlantEvent(time_ms=0, kind=kind, gpu=gpu, code=code)
    return [line.text for line in voice.lines(event)]


def test_a_gpu_is_introduced_before_its_first_xid_only() -> None:
    voice = KernelMessages(NODE)
    first = lines(voice, PlantEventKind.XID, code=74)
    assert first[0] == f"NVRM: GPU at PCI:0000:1d:00: {NODE.gpu_uuid(2)}"
    assert lines(voice, PlantEventKind.XID, code=74) == first[2:]
    voice.loaded()
    assert lines(voice, PlantEventKind.XID, code=74) == first


def test_an_nvlink_error_ends_in_seven_registers() -> None:
    (line,) = [text for text in lines(KernelMessages(NODE), PlantEventKind.XID, code=74) if "Xid" in text]
    assert line == (
        "NVRM: Xid (PCI:0000:1d:00): 74, pid='<unknown>', name=<unknown>, "
        "NVLink: fatal error detected on link 2(0x0, 0x0, 0x10000, 0x0, 0x0, 0x0, 0x0)"
    )


def test_a_lost_gpu_is_stated_to_have_fallen_off_the_bus() -> None:
    lines = KernelMessages(NODE).lines(PlantEvent(time_ms=0, kind=PlantEventKind.XID, gpu=3, code=79))
    assert [line.level for line in lines] == [ERROR] * 5
    assert lines[2].text == "NVRM: Xid (PCI:0000:1e:00): 79, pid=5000003, name=python3, GPU has fallen off the bus."


def test_pcie_errors_name_the_port_and_the_device() -> None:
    fatal = lines(KernelMessages(NODE), PlantEventKind.AER_FATAL)
    assert fatal[0] == "pcieport 0000:19:02.0: AER: Uncorrected (Fatal) error received: 0000:1d:00.0"
    assert "type=Inaccessible, (Unregistered Agent ID)" in fatal[1]
    corrected = lines(KernelMessages(NODE), PlantEventKind.AER_CORRECTABLE)
    assert "severity=Corrected" in corrected[1]
    assert "device [10de:1db1] error status/mask=00001000/0000a000" in corrected[2]


def test_a_gpu_without_a_port_that_is_seen_reports_its_errors_alone() -> None:
    slots = (NODE.slots[0].model_copy(update={"pci": "0000:00:1e.0"}),)
    voice = KernelMessages(NODE.model_copy(update={"slots": slots}))
    texts = lines(voice, PlantEventKind.AER_FATAL, gpu=0)
    assert texts
    assert all(text.startswith("nvidia 0000:00:1e.0: ") for text in texts)


def test_the_driver_states_when_it_comes_and_goes() -> None:
    voice = KernelMessages(NODE)
    assert any("NVRM: loading" in line for line in lines(voice, PlantEventKind.DRIVER_LOADED, gpu=None))
    assert lines(voice, PlantEventKind.DRIVER_UNLOADED, gpu=None)[0] == "nvidia-modeset: Unloading"


def test_of_what_no_driver_reports_nothing_is_stated() -> None:
    voice = KernelMessages(NODE)
    spoken = {
        PlantEventKind.XID,
        PlantEventKind.AER_CORRECTABLE,
        PlantEventKind.AER_FATAL,
        PlantEventKind.DRIVER_LOADED,
        PlantEventKind.DRIVER_UNLOADED,
    }
    for kind in set(PlantEventKind) - spoken:
        assert lines(voice, kind) == []


@pytest.mark.parametrize(
    ("kind", "code", "events"),
    [
        (PlantEventKind.XID, 79, {(EventKind.XID, 79)}),
        (PlantEventKind.XID, 74, {(EventKind.XID, 74)}),
        (PlantEventKind.AER_CORRECTABLE, None, {(EventKind.AER, None)}),
        (PlantEventKind.AER_FATAL, None, {(EventKind.AER, None)}),
        (PlantEventKind.DRIVER_UNLOADED, None, set()),
    ],
)
def test_the_parser_of_a_live_node_reads_the_gpu_and_the_error_out_of_it(
    kind: PlantEventKind, code: int | None, events: set[tuple[EventKind, int | None]]
) -> None:
    parser = KernelLogParser()
    texts = lines(KernelMessages(NODE), kind, code=code)
    read = [event for number, text in enumerate(texts) for event in parser.feed(number, text)]
    assert events <= {(event.kind, event.code) for event in read}
    assert bool(read) == bool(events)
    assert {event.pci for event in read if event.pci is not None} <= {"0000:1d:00", "0000:1d:00.0", "0000:19:02.0"}
    assert parser.unparsed_count == 0
