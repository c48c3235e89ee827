"""The real C driver library over a state file that the test writes, or over a simulated node, in this process."""

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agent.driver.nvml import NvmlDriver
from simulator.driver.build import LIBRARY, build_driver, find_compiler
from simulator.driver.layout import FEATURE_LOCKED_CLOCKS, READING, STATE_VARIABLE
from simulator.driver.state import XID_EVENT, StateArray, StateFile
from simulator.files.node import load_node
from simulator.files.scenario import load_scenario
from simulator.served.server import PlantServer
from tests.agent.fakes import FakeClock
from tests.simulator.hand_clock import HandClock

CLOCKS_MHZ = tuple(range(1530, 134, -15))
NODES = ("v100x4", "a100x8", "h100x8", "b200x8")


class PlantFile:
    """GPUs whose readings a test sets; `publish` makes them visible to the driver library."""

    def __init__(self, path: Path, gpus: int, driver_version: str = "580.95.05", *, fans: int = 0) -> None:
        self.state = StateFile(path, mode="create")
        record = self.state.record
        record["gpu_count"] = gpus
        record["driver_version"] = driver_version.encode()
        record["nvml_version"] = f"13.{driver_version}".encode()
        record["cuda_version"] = 13000
        for index in range(gpus):
            fixed = record["fixed"][index]
            fixed["uuid"] = f"GPU-00000000-0000-0000-0000-{index:012d}".encode()
            fixed["name"] = b"Tesla V100-SXM2-16GB"
            fixed["serial"] = f"03200{index:08d}".encode()
            fixed["pci_bus"] = 0x3B + index
            fixed["pci_device_id"] = 0x1DB110DE
            fixed["features"] = FEATURE_LOCKED_CLOCKS
            fixed["memory_total_bytes"] = 16 << 30
            fixed["power_min_mw"], fixed["power_max_mw"], fixed["power_default_mw"] = 150_000, 300_000, 300_000
            fixed["shutdown_c"], fixed["slowdown_c"] = 90, 87
            fixed["default_sm_clock_mhz"], fixed["max_sm_clock_mhz"], fixed["mem_clock_mhz"] = 1290, 1530, 877
            fixed["fan_count"], fixed["fan_min_percent"], fixed["fan_max_percent"] = fans, 30, 100
            fixed["clock_count"] = len(CLOCKS_MHZ)
            fixed["clocks_mhz"][: len(CLOCKS_MHZ)] = CLOCKS_MHZ
            record["request"][index]["power_limit_mw"] = 300_000
            record["request"][index]["app_sm_clock_mhz"] = 1290
        self.readings: StateArray = np.zeros(gpus, READING)
        self.readings["power_mw"] = 150_000 + 1000 * np.arange(gpus)
        self.readings["sm_clock_mhz"] = 1530
        self.readings["mem_clock_mhz"] = 877
        self.readings["gpu_temp_c"] = 45
        self.readings["hbm_temp_c"] = 50
        self.readings["gpu_util_percent"] = 97
        self.readings["mem_util_percent"] = 33
        self.readings["energy_mj"] = 12_345_678
        self.readings["power_brake_ns"] = 2_000_000_000
        self.readings["hw_thermal_ns"] = 3_000_000_000
        self.readings["pcie_generation"], self.readings["pcie_width"] = 3, 16
        self.publish()
        self.state.seal()

    def publish(self) -> None:
        self.state.publish(self.readings, 1_000_000)

    def set(self, gpu: int, **values: int) -> None:
        """Change readings of one GPU and publish them."""
        for name, value in values.items():
            self.readings[name][gpu] = value
        self.publish()

    def xid(self, gpu: int, code: int) -> None:
        self.state.add_event(gpu, kind=XID_EVENT, data=code)


@contextmanager
def plant_driver(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    gpus: int = 4,
    driver_version: str = "580.95.05",
    fans: int = 0,
) -> Iterator[PlantFile]:
    """Load the library as this process's NVML, with a state file behind it; skips without a C compiler."""
    load_driver_library(folder)
    plant = PlantFile(folder / "plant", gpus, driver_version, fans=fans)
    monkeypatch.setenv(STATE_VARIABLE, str(folder / "plant"))
    yield plant


def load_driver_library(folder: Path) -> None:
    """Build the library, once for all tests of a run, and load it; skip without a C compiler.

    Loaded by its path first, a library of its name is found when pynvml asks for one: this copy, or one that a test
    loaded earlier. Whatever a test before left started in that one is ended, for it stays with the state that it
    started with.
    """
    if find_compiler() is None:
        pytest.skip("no C compiler to build the driver library with")
    ctypes.CDLL(str(build_driver(folder.parent / "driver-cache") / LIBRARY))
    library = ctypes.CDLL(LIBRARY)
    while library.nvmlShutdown() == 0:
        pass


class Overridden:
    """The vendor's library with some functions replaced; None for a function that this driver does not have."""

    def __init__(self, real: Any, functions: dict[str, Callable[..., int] | None]) -> None:
        self.real = real
        self.functions = functions

    def __getattr__(self, name: str) -> Any:
        if name in self.functions:
            if self.functions[name] is None:
                raise AttributeError(name)
            return self.functions[name]
        return getattr(self.real, name)


class ServedGpus:
    """A node, its plant and the driver over it; plant and driver have one time."""

    def __init__(self, server: PlantServer, driver: NvmlDriver, clock: FakeClock) -> None:
        self.server = server
        self.driver = driver
        self.clock = clock
        self.node = server.plant.node

    def advance(self, milliseconds: int) -> None:
        self.server.advance(milliseconds)
        self.clock.advance(milliseconds / 1000.0)


@contextmanager
def served_gpus(folder: Path, monkeypatch: pytest.MonkeyPatch, node: str = "h100x8") -> Iterator[ServedGpus]:
    load_driver_library(folder)
    made = load_node(node)
    server = PlantServer(made, load_scenario("healthy", made), seed=1, run_dir=folder / "plant", clock=HandClock())
    monkeypatch.setenv(STATE_VARIABLE, str(server.served.state))
    clock = FakeClock()
    try:
        server.advance(1000)
        with NvmlDriver(clock) as driver:
            yield ServedGpus(server, driver, clock)
    finally:
        server.close()
