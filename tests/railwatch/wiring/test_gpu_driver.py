"""Opening the driver of a run, over the real C library."""

import ctypes
from pathlib import Path
from typing import Any

import pynvml
import pytest

from railwatch.run_context import DriverKind, RunContext
from railwatch.wiring.gpu_driver import open_driver
from simulator.files.node import load_node
from telemetry.clock import SystemClock
from telemetry.gpu import KnobKind
from tests.agent.driver.plant_file import plant_driver
from tests.simulator.served_plant import served_plant


@pytest.mark.parametrize("code", [15, 16, 4])
def test_a_gpu_that_dies_while_its_clocks_are_looked_at_does_not_keep_the_driver_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    context = RunContext(run_dir=tmp_path, config_json="{}", driver=DriverKind.NVML, source="test", simulated=False)
    with plant_driver(tmp_path, monkeypatch):
        pynvml.nvmlInit()  # loads the library that is patched
        real = pynvml.nvmlLib.nvmlDeviceGetApplicationsClock
        asked: list[int | None] = []

        def dying(device: Any, *arguments: object) -> int:
            asked.append(ctypes.cast(device, ctypes.c_void_p).value)
            return code if asked[-1] == asked[0] else int(real(device, *arguments))

        monkeypatch.setattr(pynvml.nvmlLib, "nvmlDeviceGetApplicationsClock", dying)
        monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
        opened = open_driver(context, SystemClock())
        assert len(set(asked)) > 1
        knob = opened.knob(KnobKind.CLOCK)
        assert knob is not None
        assert knob.readable
        assert opened.nvml is not None
        opened.nvml.close()
        pynvml.nvmlShutdown()


@pytest.mark.parametrize(("node", "count"), [("h100x8", 8), ("v100x4", 0)])
def test_the_plant_has_pipes_behind_the_same_port_without_a_library(tmp_path: Path, node: str, count: int) -> None:
    with served_plant(tmp_path, node=load_node(node)) as plant:
        context = RunContext(
            run_dir=tmp_path,
            config_json="{}",
            driver=DriverKind.PLANT,
            source="test",
            simulated=True,
            state_file=str(plant.served.state),
        )
        opened = open_driver(context, SystemClock())
        assert opened.pipes is not None
        assert [gpu.uuid for gpu in opened.pipes.gpus] == [gpu.uuid for gpu in opened.gpus[:count]]
