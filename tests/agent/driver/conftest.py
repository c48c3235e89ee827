"""A node of GPUs behind the real C driver library."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pynvml
import pytest

from tests.agent.driver.plant_file import Overridden, PlantFile, plant_driver


@pytest.fixture
def plant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PlantFile]:
    with plant_driver(tmp_path, monkeypatch) as made:
        yield made


@pytest.fixture
def override(monkeypatch: pytest.MonkeyPatch, plant: PlantFile) -> Callable[..., Overridden]:
    def patch(**functions: Callable[..., int] | None) -> Overridden:
        pynvml.nvmlInit()
        library = Overridden(pynvml.nvmlLib, functions)
        pynvml.nvmlShutdown()
        monkeypatch.setattr(pynvml, "nvmlLib", library)
        monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
        return library

    return patch
