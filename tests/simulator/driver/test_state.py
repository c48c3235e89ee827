import threading
from pathlib import Path

import numpy as np
import pytest

from simulator.driver.layout import READING, STATE
from simulator.driver.state import StateFile
from telemetry.errors import TransientError


def created(path: Path, gpu_count: int = 4) -> StateFile:
    state = StateFile(path, mode="create")
    state.record["gpu_count"] = gpu_count
    state.seal()
    return state


def test_what_is_published_is_read_back_with_its_time(tmp_path: Path) -> None:
    writer = created(tmp_path / "state")
    readings = np.zeros(4, dtype=READING)
    readings["power_mw"] = [1, 2, 3, 4]
    writer.publish(readings, 17)
    reader = StateFile(tmp_path / "state", mode="read")
    copied, time_us = reader.readings()
    assert (copied["power_mw"].tolist(), time_us) == ([1, 2, 3, 4], 17)


def test_a_reader_never_sees_half_of_a_moment(tmp_path: Path) -> None:
    writer = created(tmp_path / "state", 16)
    reader = StateFile(tmp_path / "state", mode="read")
    done = threading.Event()

    def write() -> None:
        readings = np.zeros(16, dtype=READING)
        for moment in range(1, 20_000):
            readings["power_mw"] = moment
            readings["energy_mj"] = moment
            writer.publish(readings, moment)
        done.set()

    thread = threading.Thread(target=write)
    thread.start()
    try:
        while not done.is_set():
            copied, time_us = reader.readings()
            assert set(copied["power_mw"].tolist()) | set(copied["energy_mj"].tolist()) == {time_us}
    finally:
        thread.join()


@pytest.mark.parametrize("content", [b"", b"\0" * STATE.itemsize, b"x" * STATE.itemsize, b"\0" * 100])
def test_a_file_that_is_no_plant_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "state"
    path.write_bytes(content)
    with pytest.raises(TransientError, match="not a plant state"):
        StateFile(path, mode="read")


def test_a_state_that_was_not_sealed_is_refused(tmp_path: Path) -> None:
    StateFile(tmp_path / "state", mode="create").close()
    with pytest.raises(TransientError, match="not a plant state"):
        StateFile(tmp_path / "state", mode="write")
