"""A stretch of a running node as a file, and what a replay of it finds."""

from pathlib import Path

import pytest

from telemetry.entities import EntityKind
from telemetry.recording import read_recording
from tests.integration.running import node_up, quick_sag, railwatch

pytestmark = [pytest.mark.integration, pytest.mark.timeout(90)]


def test_what_comes_next_is_recorded_for_as_long_as_was_asked(tmp_path: Path) -> None:
    path = tmp_path / "next.parquet"
    with node_up(tmp_path / "data", *quick_sag(tmp_path)) as node:
        assert node.url
        done = railwatch("record", "--duration", "4s", "--out", str(path), "--data-dir", str(node.data_dir), "--json")
        assert done.status == 0, done.err
        assert node.end() == 0, node.story()
    span_ns = read_recording(path).span_ns
    assert span_ns is not None
    assert span_ns[1] - span_ns[0] == pytest.approx(4e9, abs=1.5e9)
    assert done.rows[0]["lost_ring_rows"] == 0


def test_both_formats_record_the_ring_and_replay_what_was_found_live(tmp_path: Path) -> None:
    files = [tmp_path / "sag.parquet", tmp_path / "sag.csv"]
    with node_up(tmp_path / "data", *quick_sag(tmp_path)) as node:
        assert node.line(within_s=30.0, type="action", state="applied")
        for path in files:
            done = railwatch("record", "--out", str(path), "--data-dir", str(node.data_dir), "--json")
            assert done.status == 0, done.err
        assert node.end() == 0, node.story()
    keys = ("id", "detector", "entity_id", "status")
    for path in files:
        read = read_recording(path)
        assert read.meta.simulated is True
        assert {table.kind for table in read.tables} >= {EntityKind.GPU, EntityKind.SUPPLY, EntityKind.NODE}
        assert len(read.topology.edges) > 8
        assert read.span_ns is not None
        _, last_ns = read.span_ns
        once, again = railwatch("replay", str(path), "--json"), railwatch("replay", str(path), "--json")
        assert once.status == 0, once.err
        assert once.out == again.out
        found = [[row[key] for key in keys] for row in once.rows if row["type"] == "finding"]
        live = [line for line in node.of(type="finding") if line["time_ns"] <= last_ns]
        assert found
        assert found == [[line[key] for key in keys] for line in live]
        # The records of the last tenth of a second may still be on their way into the record file.
        told = {record.id for record in read.records}
        assert {line["id"] for line in live if line["time_ns"] < last_ns - 1e9} <= told


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
