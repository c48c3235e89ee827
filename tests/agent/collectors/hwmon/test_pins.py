"""Pins of power connectors: which devices measure them, whose they are, and what is no reading."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from agent.collectors.hwmon.board import survey_fans
from agent.collectors.hwmon.factories import gpu_pins
from agent.collectors.hwmon.pins import PinTable, assigned, pin_devices
from agent.collectors.hwmon.tree import survey_rails
from agent.collectors.port import SourceState
from agent.collectors.registry.settings import FastSettings
from agent.sampler.counters import SamplerCounters
from telemetry.frames import FloatArray
from telemetry.gpu import GpuIdentity
from tests.agent.collectors.node_files import connector, two_supplies, write
from tests.agent.fakes import FakeClock, FakeGpuReader, gpu_identities

GPUS = gpu_identities(2)


def table(root: Path, gpus: tuple[GpuIdentity, ...] = GPUS, *, wireview_gpu: str = "") -> PinTable:
    found = assigned(pin_devices(root), gpus, wireview_gpu=wireview_gpu)
    return PinTable(found.monitors, root)


def read(collector: PinTable) -> FloatArray:
    values = np.full(collector.spec.shape, -1.0)
    collector.read(values)
    return values


def settings(root: Path, *, wireview_gpu: str = "", reader: FakeGpuReader | None = None) -> FastSettings:
    return FastSettings(
        node="n",
        clock=FakeClock(),
        counters=SamplerCounters(),
        reader=reader,
        why_no_reader="no NVML",
        sysfs_root=root,
        wireview_gpu=wireview_gpu,
    )


@pytest.mark.parametrize("chip", ["astral12vhpwr", "wireview"])
def test_a_connector_is_read_in_volts_and_amperes(tmp_path: Path, chip: str) -> None:
    connector(tmp_path, 3, chip=chip, pci=GPUS[0].pci if chip == "astral12vhpwr" else None)
    found = table(tmp_path, GPUS[:1])
    assert [entity.key for entity in found.spec.entities] == [GPUS[0].uuid]
    np.testing.assert_allclose(read(found)[0, :6], 12.1 + 0.001 * np.arange(6))
    np.testing.assert_allclose(read(found)[0, 6:], 5.0 + 0.1 * np.arange(6))


@pytest.mark.parametrize("chip", ["astral12vhpwr", "wireview"])
def test_pins_are_no_rails_and_the_duty_of_a_wireview_is_no_fan(tmp_path: Path, chip: str) -> None:
    two_supplies(tmp_path)
    before = survey_rails(tmp_path), survey_fans(tmp_path)
    connector(tmp_path, 3, chip=chip)
    assert (survey_rails(tmp_path), survey_fans(tmp_path)) == before


def test_a_monitor_on_a_card_belongs_to_the_gpu_above_it(tmp_path: Path) -> None:
    connector(tmp_path, 3, pci=GPUS[1].pci)
    assert [entity.name for entity in table(tmp_path).spec.entities] == ["gpu1"]
    connector(tmp_path, 4, pci="0000:7f:00.0")
    found = assigned(pin_devices(tmp_path), GPUS, wireview_gpu="")
    assert found.problems == ("astral12vhpwr: no GPU at 0000:7f:00.0, expected one of gpu0, gpu1",)


def test_two_cards_are_two_rows_in_the_order_of_their_gpus(tmp_path: Path) -> None:
    folder = connector(tmp_path, 3, pci=GPUS[1].pci)
    connector(tmp_path, 4, pci=GPUS[0].pci)
    write(tmp_path, {f"{folder}/curr1_input": "9000"})
    found = table(tmp_path)
    assert [entity.name for entity in found.spec.entities] == ["gpu0", "gpu1"]
    assert read(found)[:, 6].tolist() == [5.0, 9.0]


@pytest.mark.parametrize("named", ["1", "gpu1", GPUS[1].uuid, GPUS[1].pci])
def test_a_meter_in_a_cable_belongs_to_the_gpu_that_is_named(tmp_path: Path, named: str) -> None:
    connector(tmp_path, 3, chip="wireview", pci=None)
    assert [entity.name for entity in table(tmp_path, wireview_gpu=named).spec.entities] == ["gpu1"]


@pytest.mark.parametrize(
    ("named", "text"),
    [
        ("", "wireview: which of gpu0, gpu1 it measures is not known, set sources.wireview_gpu"),
        ("7", "wireview: sources.wireview_gpu is '7', expected one of gpu0, gpu1"),
    ],
)
def test_of_several_gpus_a_meter_in_a_cable_needs_a_name(tmp_path: Path, named: str, text: str) -> None:
    connector(tmp_path, 3, chip="wireview", pci=None)
    built = gpu_pins(settings(tmp_path, wireview_gpu=named, reader=FakeGpuReader(2)))
    assert built.source is None
    assert built.status.detail == text
    assert "sources.wireview_gpu" in built.status.how_to_get


def test_a_second_monitor_of_one_connector_is_named_and_not_read(tmp_path: Path) -> None:
    connector(tmp_path, 3, pci=GPUS[0].pci)
    connector(tmp_path, 4, chip="wireview", pci=None)
    built = gpu_pins(settings(tmp_path, reader=FakeGpuReader(1)))
    assert built.status.detail == "gpu0 by astral12vhpwr; wireview: gpu0 has astral12vhpwr already"
    assert built.status.warnings == ("wireview: gpu0 has astral12vhpwr already",)


def test_without_a_monitor_or_a_driver_it_is_missing_and_states_why(tmp_path: Path) -> None:
    built = gpu_pins(settings(tmp_path, reader=FakeGpuReader(2)))
    assert built.status.state is SourceState.MISSING
    assert "astral-hwmon" in built.status.how_to_get
    connector(tmp_path, 3)
    assert gpu_pins(settings(tmp_path)).status.detail == "astral12vhpwr found, but no NVML"


@pytest.mark.parametrize(
    "files",
    [
        {f"curr{pin + 1}_input": "0" for pin in range(6)},
        {f"in{pin}_input": "0" for pin in range(6)},
        {"in3_input": "5900"},
        {"in3_input": "13100"},
        {"curr2_input": "none"},
    ],
    ids=["0 A everywhere", "0 V everywhere", "too low", "too high", "no number"],
)
def test_what_is_no_reading_is_absent_as_a_whole_and_counted(tmp_path: Path, files: dict[str, str]) -> None:
    folder = connector(tmp_path, 3)
    found = table(tmp_path, GPUS)
    assert np.isfinite(read(found)).all()
    write(tmp_path, {f"{folder}/{name}": text for name, text in files.items()})
    assert np.isnan(read(found)).all()
    assert found.refused == 1


def test_one_pin_without_current_is_a_reading(tmp_path: Path) -> None:
    folder = connector(tmp_path, 3)
    write(tmp_path, {f"{folder}/curr4_input": "0"})
    assert read(table(tmp_path))[0, 9] == 0.0


def test_a_monitor_that_comes_back_under_another_number_is_found_again(tmp_path: Path) -> None:
    connector(tmp_path, 3)
    found = table(tmp_path)
    assert np.isfinite(read(found)).all()
    shutil.rmtree(tmp_path / "class/hwmon/hwmon3")
    assert np.isnan(read(found)).all()
    connector(tmp_path, 9)
    assert np.isfinite([read(found) for _ in range(30)][-1]).all()


class _Expiring:
    """An attribute whose chip is read again between two attributes of the first pass."""

    def __init__(self, values: list[float]) -> None:
        self._values = values

    def read(self) -> float:
        return self._values.pop(0) if len(self._values) > 1 else self._values[0]

    def close(self) -> None:
        pass


def test_the_pins_of_a_row_are_of_one_read_of_the_chip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connector(tmp_path, 3)
    found = table(tmp_path)
    monitor = found._monitors[0]
    # The chip is read again behind the first pin: old values in the first pass, new ones from then on.
    files = [_Expiring([12.0, 11.9]) if pin < 1 else _Expiring([11.9 if pin < 6 else 7.0]) for pin in range(12)]
    monkeypatch.setattr(monitor, "_files", tuple(files))
    assert monitor.read() == [11.9] * 6 + [7.0] * 6
