"""A node of GPUs behind the real C driver library."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agent.driver.plant_file import PlantFile, plant_driver


@pytest.fixture
def plant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PlantFile]:
    with plant_driver(tmp_path, monkeypatch) as made:
        yield made
