"""A plant that moves when the test moves it, and nvidia-ml-py, unmodified, loaded by the system's loader against it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from simulator.served.server import PlantServer
from tests.simulator.driver.remote_nvml import RemoteNvml, environment_of, remote_nvml
from tests.simulator.served_plant import served_plant


@pytest.fixture
def plant(tmp_path: Path) -> Iterator[PlantServer]:
    with served_plant(tmp_path) as server:
        yield server


@pytest.fixture
def nvml(plant: PlantServer, library_dir: Path) -> Iterator[RemoteNvml]:
    with remote_nvml(environment_of(plant.served.state, library_dir)) as remote:
        remote.call("nvmlInit")
        yield remote
