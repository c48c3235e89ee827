"""Presence on the bus and AER counters, from sysfs alone."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from agent.collectors.host.pci import Pci, parse_error_total
from tests.agent.collectors.node_files import pci_device, write
from tests.agent.fakes import gpu_identities

GPUS = gpu_identities(2)


def _read(collector: Pci) -> list[list[float]]:
    values = np.empty(collector.spec.shape)
    collector.read(values)
    rows: list[list[float]] = values.tolist()
    return rows


def test_present_gpus_show_their_error_counts(tmp_path: Path) -> None:
    pci_device(tmp_path, GPUS[0].pci, correctable=7, fatal=1)
    pci_device(tmp_path, GPUS[1].pci)
    collector = Pci(GPUS, tmp_path)
    assert collector.spec.signals == ("pci_present", "aer_correctable", "aer_fatal")
    assert _read(collector) == [[1, 7, 1], [1, 0, 0]]


def test_a_gpu_that_leaves_the_bus_is_absent_and_comes_back(tmp_path: Path) -> None:
    for gpu in GPUS:
        pci_device(tmp_path, gpu.pci)
    collector = Pci(GPUS, tmp_path)
    shutil.rmtree(tmp_path / "bus/pci/devices" / GPUS[1].pci)
    assert [row[0] for row in _read(collector)] == [1, 0]
    pci_device(tmp_path, GPUS[1].pci)
    assert [row[0] for row in _read(collector)] == [1, 1]


def test_a_gpu_whose_configuration_space_reads_all_ones_is_gone(tmp_path: Path) -> None:
    for gpu, config in zip(GPUS, (b"\xde\x10\xb1\x1d", b"\xff\xff\xff\xff"), strict=True):
        pci_device(tmp_path, gpu.pci)
        (tmp_path / "bus/pci/devices" / gpu.pci / "config").write_bytes(config)
    assert [row[0] for row in _read(Pci(GPUS, tmp_path))] == [1, 0]


def test_a_kernel_without_aer_has_no_counts(tmp_path: Path) -> None:
    write(tmp_path, {f"bus/pci/devices/{gpu.pci}/vendor": "0x10de" for gpu in GPUS})
    write(tmp_path, {f"bus/pci/devices/{GPUS[1].pci}/aer_dev_fatal": "garbage"})
    assert np.isnan(np.array(_read(Pci(GPUS, tmp_path)))[:, 1:]).all()


# Documentation/ABI/testing/sysfs-bus-pci-devices-aer_stats, the file of fatal errors.
FATAL = b"Undefined 0\nDLP 0\nSDES 0\nTLP 0\nFCP 0\nCmpltTO 2\nCmpltAbrt 0\nUnxCmplt 0\nRxOF 0\nTOTAL_ERR_FATAL 2\n"


@pytest.mark.parametrize(("text", "total"), [(FATAL, 2), (b"TOTAL_ERR_COR 91\n", 91)])
def test_the_total_of_an_error_file_is_its_last_line(text: bytes, total: float) -> None:
    assert parse_error_total(text) == total


def test_an_error_file_without_a_total_has_no_count() -> None:
    assert np.isnan(parse_error_total(b"Undefined 0\n"))
