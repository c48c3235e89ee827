import json
from pathlib import Path

import numpy as np

from simulator.files.node import load_node
from simulator.runs.fleet_run import record_long_run
from telemetry.recording import read_recording
from tests.simulator.runs.orders import order_of, scenario_of

HOUR_S = 3600.0


def test_hours_in_closed_form_give_a_recording_like_any_other(tmp_path: Path) -> None:
    path = tmp_path / "run.parquet"
    summary = record_long_run(order_of(duration_s=3 * HOUR_S), path, truth=tmp_path / "truth.csv")
    recording = read_recording(path)
    assert summary.tier == "b"
    assert recording.meta.config["tier"] == "b"
    assert {spec.name for spec in recording.tables} >= {"gpu_fast", "gpu_slow", "supply", "node"}
    first_ns, last_ns = recording.span_ns or (0, 0)
    assert (last_ns - first_ns) / 1e9 > 2.9 * HOUR_S
    assert summary.rail_min_v is not None
    assert 11.5 < summary.rail_min_v < 12.3
    truth = read_recording(tmp_path / "truth.csv")
    assert ("supply", "psu0", "joint_mohm") in truth.samples.places


def test_the_same_seed_returns_the_same_bytes_in_closed_form(tmp_path: Path) -> None:
    paths = [tmp_path / "a.csv", tmp_path / "b.csv"]
    for path in paths:
        record_long_run(order_of(duration_s=2 * HOUR_S), path)
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_a_loss_in_closed_form_is_reported_with_its_xid(tmp_path: Path) -> None:
    scenario = scenario_of(changes=[{"at": "1h", "what": "gpu1.present", "to": 0}])
    path, truth = tmp_path / "run.parquet", tmp_path / "truth.json"
    summary = record_long_run(order_of(scenario, duration_s=2 * HOUR_S), path, truth=truth)
    drops = json.loads(truth.read_text(encoding="utf-8"))["drops"]
    assert summary.drops == len(drops)
    assert any(drop["gpu"] == "gpu1" and drop["xid"] == 79 for drop in drops)
    recording = read_recording(path)
    assert recording.records
    uuid = load_node("v100x4").gpu_uuid(1)
    (number,) = [i for i, place in enumerate(recording.samples.places) if place[1:] == (uuid, "power_w")]
    assert np.isnan(recording.samples.value[recording.samples.place == number][-1])
