"""What every collector promises, over the visible tuple of factories."""

import shutil
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from agent.accounts import Accounts
from agent.collectors.build import FACTORIES, Built, CollectorSettings, build_collectors, kernel_log_status
from agent.collectors.port import Collector, SourceState
from telemetry.signals import signal, signals_of
from tests.agent.collectors.sysfs import pci_device, two_supplies
from tests.agent.fakes import FakeClock, FakeGpuReader, gpu_identities

NAMES = ("gpu_fast", "supply", "gpu_slow", "gpu_bus", "node", "agent")


def _settings(root: Path, reader: FakeGpuReader | None) -> CollectorSettings:
    return CollectorSettings(
        node="node0", clock=FakeClock(), accounts=Accounts(), reader=reader, sysfs_root=root, why_no_reader="no NVML"
    )


@pytest.fixture
def root(tmp_path: Path) -> Path:
    two_supplies(tmp_path)
    for gpu in gpu_identities():
        pci_device(tmp_path, gpu.pci)
    return tmp_path


@pytest.fixture(params=range(len(FACTORIES)), ids=NAMES)
def collector(request: pytest.FixtureRequest, root: Path) -> Collector:
    built: Built = FACTORIES[request.param](_settings(root, FakeGpuReader()))
    assert built.collector is not None
    made: Collector = built.collector
    made.open()
    return made


def _read(collector: Collector) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    values = np.full(collector.spec.shape, -12345.0)
    collector.read(values)
    return values


def test_the_tuple_names_every_collector_and_each_is_found_working(root: Path) -> None:
    built = build_collectors(_settings(root, FakeGpuReader()))
    assert tuple(one.status.name for one in built) == NAMES
    assert {one.status.state for one in built} == {SourceState.WORKING}


def test_columns_are_signals_of_the_catalogue_at_their_rate(collector: Collector) -> None:
    spec = collector.spec
    assert spec.name == collector.name
    catalogue = {s.name for s in signals_of(spec.kind)}
    assert set(spec.signals) <= catalogue
    assert all(signal(spec.kind, name).rate is collector.rate for name in spec.signals)
    assert len({entity.key for entity in spec.entities}) == len(spec.entities)


def test_every_cell_is_filled_at_every_read(collector: Collector) -> None:
    assert (_read(collector) != -12345.0).all()
    assert (_read(collector) != -12345.0).all()


def test_closing_twice_is_harmless_and_it_can_be_opened_again(collector: Collector) -> None:
    _read(collector)
    collector.close()
    collector.close()
    collector.open()
    assert (_read(collector) != -12345.0).all()
    collector.close()


def test_files_that_vanish_read_as_absent_and_nothing_raises(collector: Collector, root: Path) -> None:
    _read(collector)
    shutil.rmtree(root)
    values = _read(collector)
    if collector.name == "supply":
        assert np.isnan(values).all()
    elif collector.name == "gpu_bus":
        assert (values[:, 0] == 0).all()
        assert np.isnan(values[:, 1:]).all()


def test_reading_does_not_pile_up_memory(collector: Collector) -> None:
    values = np.empty(collector.spec.shape)
    for _ in range(20):
        collector.read(values)
    tracemalloc.start()
    try:
        collector.read(values)
        before_bytes = tracemalloc.get_traced_memory()[0]
        for _ in range(200):
            collector.read(values)
        grown_bytes = tracemalloc.get_traced_memory()[0] - before_bytes
    finally:
        tracemalloc.stop()
    assert grown_bytes < 4096


def test_a_source_that_is_not_there_is_said_to_be_missing_and_how_to_get_it(tmp_path: Path) -> None:
    built: dict[str, Built] = {one.status.name: one for one in build_collectors(_settings(tmp_path, None))}
    for name in ("gpu_fast", "gpu_slow", "gpu_bus", "supply"):
        assert built[name].collector is None
        assert built[name].status.state is SourceState.MISSING
        assert built[name].status.how_to_get
    assert built["gpu_fast"].status.detail == "no NVML"
    assert built["node"].collector is not None
    assert built["agent"].collector is not None


def test_a_driver_without_gpus_has_no_gpu_collectors(root: Path) -> None:
    built = build_collectors(_settings(root, FakeGpuReader(0)))
    assert built[0].collector is None
    assert built[0].status.detail == "the driver finds no GPU"


def test_the_kernel_log_may_be_missing_or_there(tmp_path: Path) -> None:
    assert kernel_log_status(tmp_path / "kmsg").state is SourceState.MISSING
    (tmp_path / "kmsg").touch()
    assert kernel_log_status(tmp_path / "kmsg").state is SourceState.WORKING
