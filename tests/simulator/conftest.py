"""The driver library, built once for all tests of the simulator."""

import os
from pathlib import Path

import pytest

from simulator.driver.build import build_driver, find_compiler


@pytest.fixture(scope="session")
def library_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if find_compiler() is None:
        if os.environ.get("CI") == "true":
            pytest.fail("no C compiler is installed on this machine")
        pytest.skip("no C compiler is installed on this machine")
    return build_driver(tmp_path_factory.mktemp("driver"))
