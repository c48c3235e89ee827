"""``railwatch models``: thresholds for a budget out of healthy time, and the file that the configuration takes."""

import json
from pathlib import Path

import pytest

from config.calibrated_thresholds import limits_of, read_thresholds
from config.loading import load_config
from telemetry.errors import ConfigError
from telemetry.recording import RecordingMeta, write_recording
from telemetry.records import Event
from tests.analytics.detectors.novelty_scenes import node
from tests.analytics.scenes import event_of, node_of
from tests.railwatch.command_line import Run, objects

# A quarter of an hour is learnt, so that five hours hold the day's worth of blocks that a threshold needs.
SHORT = "detectors: {novelty: {learn_windows: 30}}\n"


def recorded(path: Path, *, hours: float, events: tuple[Event, ...] = ()) -> Path:
    """A healthy node with four GPUs."""
    frame = node(1, rows=round(hours * 120))
    meta = RecordingMeta(node="box", simulated=True)
    write_recording(path, [frame], records=events, topology=node_of(4, 0), meta=meta)
    return path


def test_too_little_healthy_time_is_stated_and_nothing_is_raised(run: Run, tmp_path: Path) -> None:
    recording, out = recorded(tmp_path / "short.parquet", hours=0.5), tmp_path / "t.yaml"
    status, text, _ = run("models", "calibrate", str(recording), "--out", str(out))
    assert status == 1
    assert "too little healthy time" in text
    assert read_thresholds(out).thresholds == {}


def test_an_error_in_time_that_was_stated_to_be_healthy_is_reported(run: Run, tmp_path: Path) -> None:
    xid = event_of(at_s=60.0, code=79, entity_id="gpu:GPU-1")
    status, text, _ = run("models", "calibrate", str(recorded(tmp_path / "a.parquet", hours=0.1, events=(xid,))))
    assert status == 1  # six minutes are too little for any limit
    assert "finding in healthy time, 1x: " in text
    assert "gpu:GPU-1 by gpu_errors" in text


def test_a_file_that_was_written_is_taken_by_the_configuration(run: Run, tmp_path: Path) -> None:
    recording, out = recorded(tmp_path / "day.parquet", hours=4.5), tmp_path / "t.yaml"
    config = tmp_path / "railwatch.yaml"
    config.write_text(SHORT)
    status, text, _ = run("models", "calibrate", str(recording), "--out", str(out), "--config", str(config), "--json")
    assert status == 0
    rows = {row["limit"]: row for row in objects(text)}
    assert rows["novelty.distance"]["blocks"] >= 24
    assert rows["novelty.distance"]["wanted"] > rows["novelty.distance"]["largest"]
    config.write_text(f"{SHORT}analytics: {{thresholds: {out}}}\n")
    assert run("config", "check", str(config))[0] == 0
    status, text, _ = run("models", "thresholds", "--config", str(config), "--json")
    assert {row["limit"] for row in objects(text)} == set(rows)


def test_thresholds_raise_the_limits_of_a_run_and_lower_none(tmp_path: Path) -> None:
    held = tmp_path / "t.yaml"
    body = {"novelty.distance": 7.5, "airflow.ratio": 0.01}
    held.write_text(
        json.dumps({"version": 1, "pages_per_node_month": 0.1, "healthy_node_days": 3.0, "thresholds": body})
    )
    limits = limits_of(load_config(None, {"RAILWATCH_ANALYTICS__THRESHOLDS": str(held)}))
    assert limits.novelty.distance == 7.5
    assert limits.airflow.ratio == load_config(None, {}).detectors.airflow.ratio


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("version: 2\npages_per_node_month: 0.1\nhealthy_node_days: 1\nthresholds: {}\n", "version"),
        ("version: 1\npages_per_node_month: 0.1\nhealthy_node_days: 1\nthresholds: {nope.x: 1}\n", "unknown limit"),
        ("version: 1\npages_per_node_month: 0.1\nhealthy_node_days: 1\nthresholds: {airflow.ratio: -1}\n", "above 0"),
        ("[]\n", "keys to values"),
        (
            "time,v\n" + "0.1,12.0\n" * 1000,
            ":1: (document): no mapping of keys to values; expected a file written by railwatch models",
        ),
    ],
)
def test_a_bad_file_is_refused_with_one_line_that_names_it(tmp_path: Path, run: Run, text: str, named: str) -> None:
    held, config = tmp_path / "t.yaml", tmp_path / "railwatch.yaml"
    held.write_text(text)
    config.write_text(f"analytics: {{thresholds: {held}}}\n")
    with pytest.raises(ConfigError):
        limits_of(load_config(config, {}))
    status, out, err = run("config", "check", str(config))
    assert status == 2
    (line,) = (out + err).strip().splitlines()
    assert str(held) in line
    assert named in line
    assert len(line) - len(str(held)) < 300


def test_a_file_that_is_missing_is_reported_where_it_is_named(tmp_path: Path, run: Run) -> None:
    config = tmp_path / "railwatch.yaml"
    config.write_text("analytics:\n  thresholds: nowhere.yaml\n")
    status, out, err = run("config", "check", str(config))
    expected = "expected a file written by railwatch models calibrate"
    assert (status, out) == (2, "")
    assert err == f"{config}:2: analytics.thresholds: no file 'nowhere.yaml'; {expected}\n"


def test_a_budget_and_a_place_that_cannot_be_are_refused(tmp_path: Path, run: Run) -> None:
    recording = recorded(tmp_path / "short.parquet", hours=0.1)
    for wrong in (("--pages-per-node-month", "0"), ("--out", str(tmp_path / "nowhere" / "t.yaml"))):
        status, _, err = run("models", "calibrate", str(recording), *wrong)
        assert (status, len(err.strip().splitlines())) == (2, 1)
        assert wrong[0] in err
