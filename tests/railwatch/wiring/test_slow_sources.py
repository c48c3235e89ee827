"""The GPUs of the process for slow sources, over the real C library."""

import os
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from agent.collectors.gpu.factories import gpu_processes, gpu_rare
from agent.collectors.gpu.sources import GpuSources
from agent.collectors.registry.settings import SlowSettings
from agent.driver.nvml import NvmlDriver
from physics.feeding import feeding_of
from railwatch.run_context import DriverKind, RunContext
from railwatch.wiring.slow_sources import slow_gpus
from telemetry.clock import SystemClock
from telemetry.entities import Entity, EntityKind
from telemetry.frames import TableSpec
from telemetry.topology import topology_of
from tests.agent.driver.plant_file import plant_driver
from tests.agent.fakes import FakeClock


def _context(folder: Path, kind: DriverKind, config: str = "{}") -> RunContext:
    return RunContext(run_dir=folder, config_json=config, driver=kind, source="test", simulated=False)


def test_rare_signals_and_processes_come_from_one_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with plant_driver(tmp_path, monkeypatch) as plant:
        plant.set(1, process_pid=os.getpid(), process_bytes=1 << 30)
        sources = slow_gpus(_context(tmp_path, DriverKind.NVML), SystemClock())
        rare, processes = gpu_rare(_settings(sources)).source, gpu_processes(_settings(sources)).source
        assert rare is not None
        assert processes is not None
        values = np.zeros(processes.spec.shape)
        processes.read(values)
        assert values[1].tolist() == [1.0, 0.0, float(1 << 30)]
        limits = np.zeros(rare.spec.shape)
        rare.read(limits)
        assert limits[0, rare.spec.signals.index("power_limit_max_w")] == 300.0
        driver = sources.opened.reader
        assert isinstance(driver, NvmlDriver)
        driver.close()


@pytest.mark.parametrize(
    ("kind", "config", "why"),
    [
        (DriverKind.NONE, "{}", "reading GPUs is switched off"),
        (DriverKind.NVML, '{"sources": {"nvml": "off"}}', "switched off by configuration"),
    ],
)
def test_where_gpus_are_not_wanted_none_is_opened(tmp_path: Path, kind: DriverKind, config: str, why: str) -> None:
    sources = slow_gpus(_context(tmp_path, kind, config), SystemClock())
    assert gpu_rare(_settings(sources)).status.detail == why
    assert gpu_processes(_settings(sources)).status.detail == why


def test_a_gpu_holds_its_links_in_the_topology() -> None:
    node = Entity(kind=EntityKind.NODE, key="n", name="n")
    gpu = Entity(kind=EntityKind.GPU, key="GPU-1", name="gpu0")
    link = Entity(kind=EntityKind.LINK, key="GPU-1/nvlink0", name="gpu0-nvlink0", tags=(("gpu", "GPU-1"),))
    specs = [
        TableSpec(name="gpu_fast", kind=EntityKind.GPU, entities=(gpu,), signals=("power_w",)),
        TableSpec(name="gpu_links", kind=EntityKind.LINK, entities=(link,), signals=("nvlink_up",)),
    ]
    assert topology_of(node, specs, partial(feeding_of, None)).parents(link.id) == (gpu,)


def test_a_node_holds_its_fans_in_the_topology() -> None:
    node = Entity(kind=EntityKind.NODE, key="n", name="n")
    fan = Entity(kind=EntityKind.FAN, key="n/fan1", name="fan1")
    specs = [TableSpec(name="fan", kind=EntityKind.FAN, entities=(fan,), signals=("fan_rpm",))]
    assert topology_of(node, specs, partial(feeding_of, None)).parents(fan.id) == (node,)


def _settings(gpus: GpuSources) -> SlowSettings:
    return SlowSettings(node="node0", clock=FakeClock(), gpus=gpus)
