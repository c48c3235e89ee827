"""The GPUs of a simulated node behind the C driver library, in this process, moved on by the test."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent.driver.nvml import NvmlDriver
from simulator.driver.layout import STATE_VARIABLE
from simulator.files.node import load_node
from simulator.files.scenario import load_scenario
from simulator.served.server import PlantServer
from tests.agent.driver.plant_file import load_driver_library
from tests.agent.fakes import FakeClock
from tests.simulator.hand_clock import HandClock

NODES = ("v100x4", "a100x8", "h100x8", "b200x8")


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
