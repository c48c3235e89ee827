"""Stuck voltages that a recording cannot show are named, those that it can show are not."""

from pathlib import Path

import numpy as np
import pytest

from railwatch.operator.coarse_meters import hidden_faults
from telemetry.entities import EntityKind
from telemetry.frames import FloatArray
from telemetry.recording import RecordingMeta, read_recording, write_recording
from tests.analytics.scenes import frame_of, node_of, supply


def texts(volts: FloatArray, folder: Path, *, step_v: float) -> list[str]:
    """Return the lines for a recording of two supplies whose voltage is read in these steps."""
    rounded = np.round(volts / step_v) * step_v
    columns = {"voltage_v": rounded, "current_a": 60.0 - 5.0 * volts}
    frame = frame_of(EntityKind.SUPPLY, (supply(0), supply(1)), columns, rate_hz=20.0)
    path = folder / "run.parquet"
    write_recording(path, [frame], topology=node_of(2, 2), meta=RecordingMeta(node="box", simulated=True))
    return [one.text for one in hidden_faults(read_recording(path))]


def stepping(swing_v: float) -> FloatArray:
    rng = np.random.default_rng(1)
    high = np.repeat(rng.random(200) < 0.5, 4)[:, np.newaxis]
    return np.asarray(12.0 - swing_v * high + rng.normal(0.0, 0.002, (800, 2)))


@pytest.mark.parametrize(("swing_v", "step_v"), [(0.05, 0.0625), (0.01, 0.02)])
def test_a_load_that_moves_the_voltage_by_less_than_a_step_hides_a_stuck_one(
    swing_v: float, step_v: float, tmp_path: Path
) -> None:
    (line,) = texts(stepping(swing_v), tmp_path, step_v=step_v)
    assert line == "a stuck voltage of PSUs 0-1: its meter shows the load on two levels at most"


@pytest.mark.parametrize(("swing_v", "step_v"), [(0.05, 0.002), (0.05, 0.02)])
def test_a_load_that_moves_the_voltage_by_steps_shows_it(swing_v: float, step_v: float, tmp_path: Path) -> None:
    assert texts(stepping(swing_v), tmp_path, step_v=step_v) == []


def test_a_short_recording_states_nothing(tmp_path: Path) -> None:
    assert texts(stepping(0.01)[:100], tmp_path, step_v=0.0625) == []
