"""The GPUs' place on the bus as events, from a sysfs in a folder."""

import shutil
from pathlib import Path

import pytest

from agent.collectors.events.link_state import LinkState, parse_number
from telemetry.records import Event, EventKind, Severity
from tests.agent.collectors.node_files import pci_device, write
from tests.agent.fakes import FakeClock, gpu_identities

GPUS = gpu_identities(2)
ONE = GPUS[0]


class Bus:
    """Two GPUs at full speed and width, looked at once a second."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.clock = FakeClock()
        for gpu in GPUS:
            self.add(gpu.pci)
        self.state = LinkState(GPUS, sysfs_root=root, clock=self.clock)
        self.state.open()

    def add(self, pci: str, *, vendor: str = "0x10de", device_class: str = "0x030200") -> None:
        pci_device(self.root, pci)
        names = {"vendor": vendor, "class": device_class, "aer_dev_nonfatal": "TOTAL_ERR_NONFATAL 0"}
        link = {"current_link_width": "16", "max_link_width": "16"}
        speed = {"current_link_speed": "16.0 GT/s PCIe", "max_link_speed": "16.0 GT/s PCIe"}
        self.set(pci, **names, **link, **speed)

    def set(self, pci: str, **attributes: str) -> None:
        write(self.root, {f"bus/pci/devices/{pci}/{name}": text for name, text in attributes.items()})

    def remove(self, pci: str) -> None:
        shutil.rmtree(self.root / "bus/pci/devices" / pci)

    def look(self, times: int = 1) -> list[Event]:
        found: list[Event] = []
        for _ in range(times):
            end_s = self.clock.monotonic_s() + 1.0
            while self.clock.monotonic_s() < end_s:
                found += self.state.poll(0.5)
        return found


@pytest.fixture
def bus(tmp_path: Path) -> Bus:
    made = Bus(tmp_path)
    assert made.look(2) == []
    return made


def test_a_gpu_that_leaves_the_bus_is_reported_once_within_two_seconds_and_so_is_its_return(bus: Bus) -> None:
    bus.remove(ONE.pci)
    gone_s = bus.clock.monotonic_s()
    (lost,) = bus.look(2)
    assert (lost.kind, lost.severity, lost.entity_id) == (EventKind.BUS_DROP, Severity.CRITICAL, f"gpu:{ONE.uuid}")
    assert bus.clock.monotonic_s() - gone_s < 4
    assert bus.look(3) == []
    bus.add(ONE.pci)
    (back,) = bus.look(2)
    assert (back.kind, back.entity_id) == (EventKind.DEVICE_ADDED, f"gpu:{ONE.uuid}")
    bus.remove(ONE.pci)
    (again,) = bus.look(2)
    assert again.id != lost.id


def test_a_gpu_that_reads_all_ones_is_lost_though_it_is_listed(bus: Bus) -> None:
    config = bus.root / "bus/pci/devices" / ONE.pci / "config"
    config.write_bytes(b"\xff" * 64)
    (lost,) = bus.look(2)
    assert lost.kind is EventKind.BUS_DROP
    assert "no longer responds" in lost.message


class ClockOfReset(FakeClock):
    """A clock on which a reset of the device ends as soon as a caller waits."""

    def __init__(self, config: Path) -> None:
        super().__init__()
        self._config = config

    def sleep_until(self, monotonic_s: float) -> None:
        self._config.write_bytes(b"\xde\x10")
        super().sleep_until(monotonic_s)


def test_a_gpu_that_is_being_reset_is_read_again_before_it_counts_as_lost(tmp_path: Path) -> None:
    pci_device(tmp_path, ONE.pci)
    config = tmp_path / "bus/pci/devices" / ONE.pci / "config"
    config.write_bytes(b"\xde\x10")
    state = LinkState([ONE], sysfs_root=tmp_path, clock=ClockOfReset(config))
    state.open()
    config.write_bytes(b"\xff" * 64)
    assert state.poll(0.0) == ()


def test_a_gpu_that_was_not_there_at_start_is_reported_and_other_devices_are_not(bus: Bus) -> None:
    bus.add("0000:5e:00.0")
    bus.add("0000:01:00.0", vendor="0x144d", device_class="0x010802")
    bus.add("0000:5e:00.1", device_class="0x040300")
    (event,) = bus.look(2)
    assert (event.kind, event.pci, event.entity_id) == (EventKind.DEVICE_ADDED, "0000:5e:00.0", None)


def test_a_virtual_function_of_a_gpu_is_no_new_gpu(bus: Bus) -> None:
    pci = "0000:3b:00.4"
    bus.add(pci)
    (bus.root / "bus/pci/devices" / pci / "physfn").symlink_to(bus.root / "bus/pci/devices" / ONE.pci)
    assert bus.look(2) == []
    bus.remove(pci)
    assert bus.look(2) == []


def test_a_narrower_link_is_reported_when_it_lasts_and_when_it_is_whole_again(bus: Bus) -> None:
    bus.set(ONE.pci, current_link_width="8")
    assert bus.look(1) == []
    (lower,) = bus.look(4)
    assert (lower.kind, lower.severity) == (EventKind.LINK, Severity.WARNING)
    assert "width 8 lanes instead of 16" in lower.message
    assert bus.look(5) == []
    bus.set(ONE.pci, current_link_width="16")
    (whole,) = bus.look(5)
    assert (whole.kind, whole.severity) == (EventKind.LINK, Severity.INFO)


def test_a_link_that_retrains_for_a_moment_is_no_event(bus: Bus) -> None:
    for _ in range(5):
        bus.set(ONE.pci, current_link_width="8")
        assert bus.look(1) == []
        bus.set(ONE.pci, current_link_width="16")
        assert bus.look(1) == []


def test_a_lower_speed_is_reported_with_less_haste_since_idle_gpus_lower_it(bus: Bus) -> None:
    bus.set(ONE.pci, current_link_speed="2.5 GT/s PCIe")
    assert bus.look(8) == []
    (slower,) = bus.look(5)
    assert slower.severity is Severity.INFO
    assert "speed 2.5 GT/s instead of 16 GT/s" in slower.message


def test_a_gpu_that_was_slow_from_the_start_may_be_idle_but_a_narrow_one_is_reported(tmp_path: Path) -> None:
    for gpu in GPUS:
        pci_device(tmp_path, gpu.pci)
    bus = Bus(tmp_path)
    bus.set(ONE.pci, current_link_speed="2.5 GT/s PCIe", current_link_width="4")
    bus.state.open()
    (event,) = bus.look(20)
    assert "width 4 lanes instead of 16" in event.message


def test_what_the_port_above_cannot_do_is_not_expected(tmp_path: Path) -> None:
    bus = Bus(tmp_path)
    port, devices = tmp_path / "devices/pci0000:3a/0000:3a:00.0", tmp_path / "bus/pci/devices"
    port.mkdir(parents=True)
    (devices / ONE.pci).rename(port / ONE.pci)
    (devices / ONE.pci).symlink_to(port / ONE.pci)
    write(port, {"max_link_width": "8", "max_link_speed": "8.0 GT/s PCIe"})
    bus.set(ONE.pci, current_link_width="8", current_link_speed="8.0 GT/s PCIe")
    bus.state.open()
    assert bus.look(15) == []


@pytest.mark.parametrize("text", ["Unknown", "", "<html>", "0x", "0", "8x"])
def test_a_link_that_is_unknown_is_no_event(bus: Bus, text: str) -> None:
    bus.set(ONE.pci, current_link_width=text, current_link_speed=text)
    assert bus.look(15) == []


def test_errors_that_the_kernel_counts_are_reported_by_how_many_more(bus: Bus) -> None:
    bus.set(ONE.pci, aer_dev_fatal="Undefined 0\nSDES 2\nTOTAL_ERR_FATAL 2", aer_dev_nonfatal="TOTAL_ERR_NONFATAL 5")
    nonfatal, fatal = bus.look(2)
    assert (nonfatal.kind, nonfatal.severity) == (EventKind.AER, Severity.WARNING)
    assert (fatal.kind, fatal.severity) == (EventKind.AER, Severity.CRITICAL)
    assert "2 more fatal" in fatal.message
    bus.set(ONE.pci, aer_dev_fatal="garbage", aer_dev_nonfatal="TOTAL_ERR_NONFATAL 1")
    assert bus.look(2) == []


def test_errors_counted_while_the_file_could_not_be_read_are_reported_by_the_next_read(bus: Bus) -> None:
    bus.set(ONE.pci, aer_dev_fatal="TOTAL_ERR_FATAL 2")
    assert len(bus.look()) == 1
    bus.set(ONE.pci, aer_dev_fatal="garbage")
    assert bus.look() == []
    bus.set(ONE.pci, aer_dev_fatal="TOTAL_ERR_FATAL 5")
    (event,) = bus.look()
    assert "3 more fatal" in event.message


def test_a_sysfs_that_goes_away_takes_every_gpu_with_it_and_nothing_raises(bus: Bus) -> None:
    shutil.rmtree(bus.root / "bus")
    assert [event.kind for event in bus.look(3)] == [EventKind.BUS_DROP, EventKind.BUS_DROP]
    bus.state.close()
    bus.state.close()


@pytest.mark.parametrize(
    ("text", "number"),
    [("16.0 GT/s PCIe", 16.0), ("2.5 GT/s PCIe", 2.5), ("16", 16.0), ("Unknown", None), ("", None), ("8x", None)],
)
def test_a_link_attribute_begins_with_its_number(text: str, number: float | None) -> None:
    assert parse_number(text) == number
