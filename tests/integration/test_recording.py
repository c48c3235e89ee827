"""Recording of a running node as a file, and the findings of its replay."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from telemetry.clock import NS_PER_S, SystemClock
from telemetry.entities import EntityKind
from telemetry.recording import read_recording
from tests.integration.recorded import Recorded, assert_a_replay_is_equal, recorded
from tests.integration.running import Done, quick_sag, railwatch

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sag:
    """Run whose rail sagged, and the files that commands made of it before it ended."""

    run: Recorded
    table: Path
    next: Path
    next_reported: Done
    asked_ns: int


@pytest.fixture(scope="module")
def sag(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sag]:
    folder = tmp_path_factory.mktemp("sag")
    table, following = folder / "sag.csv", folder / "next.parquet"
    with recorded(folder, *quick_sag(folder)) as run:
        where = ("--data-dir", str(run.node.data_dir), "--json")
        done = railwatch("record", "--out", str(table), *where)
        assert done.status == 0, done.err
        asked_ns = SystemClock().utc_ns()
        reported = railwatch("record", "--duration", "2s", "--out", str(following), *where)
        assert run.node.end() == 0, run.node.story()
        yield Sag(run=run, table=table, next=following, next_reported=reported, asked_ns=asked_ns)


def test_what_comes_next_is_recorded_for_as_long_as_was_asked(sag: Sag) -> None:
    assert sag.next_reported.status == 0, sag.next_reported.err
    span_ns = read_recording(sag.next).span_ns
    assert span_ns is not None
    # A row of a slow source comes a moment after its second; the ring holds many seconds of before.
    assert span_ns[0] >= sag.asked_ns - 3 * NS_PER_S, "nothing of before"
    assert span_ns[1] - span_ns[0] >= 1.5 * NS_PER_S
    assert sag.next_reported.rows[0]["lost_ring_rows"] == 0


def test_a_replay_of_the_sag_states_what_was_stated_live_to_the_byte(sag: Sag) -> None:
    assert_a_replay_is_equal(sag.run)


def test_both_formats_hold_the_ring_with_its_tables_topology_and_records(sag: Sag) -> None:
    for path in (sag.run.by_hand, sag.table):
        read = read_recording(path)
        assert read.meta.simulated is True
        assert {table.kind for table in read.tables} >= {EntityKind.GPU, EntityKind.SUPPLY, EntityKind.NODE}
        assert len(read.topology.edges) > 8
        assert read.span_ns is not None
        # The records of the last tenth of a second may still be on their way into the record file.
        live = [line for line in sag.run.node.of(type="finding") if line["time_ns"] < read.span_ns[1] - 1e9]
        assert live
        assert {line["id"] for line in live} <= {record.id for record in read.records}


def test_a_table_replays_what_was_found_live_and_the_same_each_time(sag: Sag) -> None:
    keys = ("id", "detector", "entity_id", "status")
    once, again = railwatch("replay", str(sag.table), "--json"), railwatch("replay", str(sag.table), "--json")
    assert once.status == 0, once.err
    assert once.out == again.out
    span_ns = read_recording(sag.table).span_ns
    assert span_ns is not None
    # The tables end at rows of unlike times: what came in the last second may need one that is not in the file.
    ends_ns = span_ns[1] - NS_PER_S
    live = [line for line in sag.run.node.of(type="finding") if line["time_ns"] <= ends_ns]
    replayed = [row for row in once.rows if row["type"] == "finding" and row["time_ns"] <= ends_ns]
    assert live
    assert [[row[key] for key in keys] for row in replayed] == [[line[key] for key in keys] for line in live]


def test_recording_where_nothing_runs_is_refused_and_leaves_no_file(tmp_path: Path) -> None:
    out = tmp_path / "nothing.parquet"
    done = railwatch("record", "--out", str(out), "--data-dir", str(tmp_path))
    assert done.status == 3
    assert "railwatch is not running here" in done.err
    assert not out.exists()


def test_a_file_that_is_no_recording_is_refused_with_its_name(tmp_path: Path) -> None:
    path = tmp_path / "broken.parquet"
    path.write_bytes(b"not parquet")
    done = railwatch("replay", str(path), "--json")
    assert done.status == 2
    assert str(path) in done.err
    assert done.out == ""
