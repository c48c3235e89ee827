"""Clock accounting over a recording, which signal led, and an experiment that is planned, run by hand and judged."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from analytics.connectivity.dither import plan_dither
from railwatch.operator.incident_context import sample_evidence
from telemetry.clock import iso_utc
from telemetry.entities import EntityKind
from telemetry.frames import FloatArray, Frame
from telemetry.recording import RecordingMeta, write_recording
from telemetry.records import Cause
from tests.analytics.scenes import START_NS, frame_of, gpu, node_of, supply
from tests.railwatch.command_line import Run, objects
from tests.railwatch.test_live_lines import steps
from tests.rules import scenes

TOPOLOGY = node_of(2, 1)
GPUS = (gpu(0), gpu(1))
RATE_HZ, SECONDS = 10.0, 60


def recorded(path: Path, *frames: Frame) -> Path:
    write_recording(path, frames, topology=TOPOLOGY, meta=RecordingMeta(node="box", simulated=True))
    return path


def gpus(power_w: FloatArray, **more: FloatArray) -> Frame:
    return frame_of(EntityKind.GPU, GPUS, {"power_w": power_w, **more}, rate_hz=RATE_HZ, name="gpu_fast")


def rail(voltage_v: FloatArray) -> Frame:
    return frame_of(EntityKind.SUPPLY, (supply(0),), {"voltage_v": voltage_v}, rate_hz=RATE_HZ, name="supply")


def braked() -> Frame:
    rows = int(RATE_HZ * SECONDS)
    rng = np.random.default_rng(1)
    held = np.zeros((rows, 2))
    held[rows // 2 :, 1] = 0x80
    clock = np.where(held > 0, 700.0, 1400.0) + rng.normal(0, 0.5, (rows, 2))
    return gpus(
        250 + rng.normal(0, 5, (rows, 2)),
        sm_clock_mhz=clock,
        max_sm_clock_mhz=np.full((rows, 2), 1400.0),
        throttle_reasons=held,
    )


def test_where_the_clocks_of_a_recording_went_is_reported_by_reason(run: Run, tmp_path: Path) -> None:
    status, out, _ = run("clocks", str(recorded(tmp_path / "a.parquet", braked())), "--json")
    assert status == 0
    rows = {(row["entity_id"], row["reason"]): row for row in objects(out)}
    brake = rows["gpu:GPU-1", "power brake"]
    assert 0.45 < brake["share_ratio"] < 0.55
    assert 0.2 < brake["clock_lost_ratio"] < 0.3
    assert rows["gpu:GPU-0", "full clock"]["share_ratio"] > 0.9


def test_set_clocks_of_a_gpu_that_railwatch_capped_are_named_as_its_cap(run: Run, tmp_path: Path) -> None:
    frame = braked()
    flags = frame.signal("throttle_reasons")
    flags[flags > 0] = 0x2
    path, cap = tmp_path / "a.parquet", replace(steps(700.0)[1], entity_id="gpu:GPU-1")
    write_recording(path, [frame], topology=TOPOLOGY, meta=RecordingMeta(node="box", simulated=True), records=[cap])
    out = run("clocks", str(path))[1]
    (line,) = [line for line in out.splitlines() if "railwatch clock cap" in line]
    assert "49.9%" in line
    assert "clocks that were set" not in out
    assert "railwatch" not in run("clocks", str(recorded(tmp_path / "b.parquet", frame)))[1]


def test_a_gpu_that_was_lost_counts_only_while_it_was_read(run: Run, tmp_path: Path) -> None:
    frame = braked()
    rows = len(frame) // 4
    frame.values[rows:, 0] = np.nan
    status, out, _ = run("clocks", str(recorded(tmp_path / "a.parquet", frame)), "--json")
    assert status == 0
    found = {(row["entity_id"], row["reason"]): row for row in objects(out)}
    assert 14.0 < found["gpu:GPU-0", "full clock"]["seconds"] < 16.0
    assert found["gpu:GPU-0", "full clock"]["share_ratio"] > 0.9
    assert found["gpu:GPU-0", "not seen"]["share_ratio"] == 0.0
    assert 59.0 < found["gpu:GPU-1", "full clock"]["seconds"] < 61.0


def test_a_recording_without_gpus_is_refused_in_one_line(run: Run, tmp_path: Path) -> None:
    status, _, err = run("clocks", str(recorded(tmp_path / "a.parquet", rail(np.full((50, 1), 12.0)))))
    assert (status, len(err.splitlines())) == (3, 1)


def test_the_gpu_whose_power_a_voltage_follows_is_named_and_the_other_is_not() -> None:
    rows = int(RATE_HZ * SECONDS)
    rng = np.random.default_rng(3)
    power = 250 + rng.normal(0, 30, (rows, 2))
    volts = 12.0 + rng.normal(0, 0.01, (rows, 1))
    volts[2:, 0] -= 1e-3 * (power[:-2, 1] - 250)  # two rows later
    incident = scenes.incident(Cause.SUPPLY_SAG, root="supply:psu0")
    found = sample_evidence(incident, [gpus(power, sm_clock_mhz=np.full((rows, 2), 1500.0)), rail(volts)], TOPOLOGY)
    (led,) = found.leads
    assert "GPU 1" in led
    assert "falls 0.2 s later" in led
    (offered,) = found.offered
    assert "optional experiment" in offered
    assert sample_evidence(incident, [], TOPOLOGY).offered == ()


@pytest.mark.parametrize(("late", "cause", "count"), [(0, Cause.HANG, 0), (2, Cause.HANG, 1), (0, Cause.SUPPLY_SAG, 1)])
def test_that_a_voltage_falls_at_once_under_load_is_reported_of_electrical_incidents_only(
    late: int, cause: Cause, count: int
) -> None:
    rows = int(RATE_HZ * SECONDS)
    rng = np.random.default_rng(3)
    power = 250 + rng.normal(0, 30, (rows, 2))
    volts = 12.0 + rng.normal(0, 0.01, (rows, 1))
    volts[late:, 0] -= 1e-3 * (power[: rows - late, 1] - 250)
    incident = scenes.incident(cause, root="gpu:GPU-1")
    found = sample_evidence(incident, [gpus(power, sm_clock_mhz=np.full((rows, 2), 1500.0)), rail(volts)], TOPOLOGY)
    assert len(found.leads) == count


def test_a_plan_is_written_done_by_hand_and_judged(run: Run, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    status, out, _ = run("dither", "plan", "gpu1", "--clock", "1500", "--low", "1400", "--out", str(plan))
    assert (status, len(out.splitlines())) == (0, 17)
    assert json.loads(plan.read_text())["gpu_id"] == "gpu1"
    made = plan_dither("gpu1", clock_mhz=1500.0, supported_mhz=(1400.0, 1500.0), seed=1)
    assert made is not None
    rows = int(RATE_HZ * made.duration_s)
    at_s = np.arange(rows) / RATE_HZ
    high = np.array([next(one.is_high for one in made.levels if one.start_s <= second < one.stop_s) for second in at_s])
    rng = np.random.default_rng(2)
    power = np.stack([np.full(rows, 250.0), 220.0 + 36.0 * high], axis=1) + rng.normal(0, 1, (rows, 2))
    volts = 12.0 - 0.005 * (power.sum(axis=1, keepdims=True) / 12.0) + rng.normal(0, 0.003, (rows, 1))
    recording = recorded(tmp_path / "a.parquet", gpus(power), rail(volts))
    asked = ("dither", "judge", str(recording), str(plan), "--supply", "psu0", "--json")
    status, out, _ = run(*asked, "--start", iso_utc(START_NS))
    (verdict,) = objects(out)
    assert (status, verdict["moves"]) == (0, True)
    assert 0.004 < verdict["source_resistance_ohm"] < 0.006
    status, _, err = run(*asked, "--start", "noon")
    assert (status, len(err.splitlines())) == (2, 1)
    status, _, err = run("dither", "plan", "gpu1", "--clock", "1500", "--low", "1000", "--out", str(plan))
    assert (status, len(err.splitlines())) == (2, 1)
