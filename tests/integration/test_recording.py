"""A stretch of a running node as a file, and what a replay of it finds."""

import subprocess
from pathlib import Path

import pytest

from telemetry.entities import EntityKind
from telemetry.recording import read_recording
from tests.integration.running import COMMAND, environment, node_up, quick_sag, railwatch

pytestmark = [pytest.mark.integration, pytest.mark.timeout(90)]


def test_both_formats_record_the_same_stretch_and_replay_alike(tmp_path: Path) -> None:
    files = [tmp_path / "sag.parquet", tmp_path / "sag.csv"]
    with node_up(tmp_path / "data", *quick_sag(tmp_path)) as node:
        assert node.url
        recorders = [
            subprocess.Popen(
                [COMMAND, "record", "--duration", "9s", "--out", str(path), "--data-dir", str(node.data_dir), "--json"],
                stdout=subprocess.DEVNULL,
                env=environment(),
            )
            for path in files
        ]
        assert [recorder.wait(40) for recorder in recorders] == [0, 0]
        assert node.end() == 0, node.story()
    replays = []
    for path in files:
        read = read_recording(path)
        assert read.meta.simulated is True
        assert {table.kind for table in read.tables} >= {EntityKind.GPU, EntityKind.SUPPLY, EntityKind.NODE}
        assert len(read.topology.edges) > 8
        assert read.span_ns is not None
        first_ns, last_ns = read.span_ns
        assert last_ns - first_ns == pytest.approx(9e9, abs=1.5e9)
        told = [record.id for record in read.records]
        live = [line["id"] for line in node.lines if first_ns <= line.get("time_ns", 0) < last_ns]
        assert set(live) <= set(told)
        once, again = railwatch("replay", str(path), "--json"), railwatch("replay", str(path), "--json")
        assert once.status == 0, once.err
        assert once.out == again.out
        replays.append([row for row in once.rows if row["type"] == "finding"])
        keys = ("id", "detector", "entity_id", "status")
        stretch = [line for line in node.of(type="finding") if line["time_ns"] <= last_ns]
        assert [[row[key] for key in keys] for row in replays[-1]] == [[line[key] for key in keys] for line in stretch]
    assert replays[0]
    assert [row["detector"] for row in replays[0]] == [row["detector"] for row in replays[1]]


def test_recording_where_nothing_runs_is_refused_and_leaves_no_file(tmp_path: Path) -> None:
    out = tmp_path / "nothing.parquet"
    done = railwatch("record", "--out", str(out), "--data-dir", str(tmp_path))
    assert done.status == 3
    assert "no railwatch runs on this data folder" in done.err
    assert not out.exists()


def test_a_file_that_is_no_recording_is_refused_with_its_name(tmp_path: Path) -> None:
    path = tmp_path / "broken.parquet"
    path.write_bytes(b"not parquet")
    done = railwatch("replay", str(path), "--json")
    assert done.status == 2
    assert str(path) in done.err
    assert done.out == ""
