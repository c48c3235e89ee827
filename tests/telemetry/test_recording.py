import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from telemetry.entities import Entity, EntityKind, Topology
from telemetry.errors import ConfigError, EnvironmentLacksError
from telemetry.frames import Frame, joined_frames
from telemetry.recording import Recording, RecordingMeta, read_recording, write_recording
from telemetry.recording_files import COLUMNS
from telemetry.recording_rows import KernelLogRow
from telemetry.records import Event, EventKind, Severity
from telemetry.signals import RateClass
from tests import record_samples
from tests.telemetry.frames_for_tests import START_NS, assert_frames_equal, gpu_spec, sampled

FAST = gpu_spec(2)
SLOW = gpu_spec(2, name="gpu_slow", rate=RateClass.SLOW)
PSU = Entity(kind=EntityKind.SUPPLY, key="psu0", name="psu0")
TOPOLOGY = Topology(entities=(*FAST.entities, PSU), edges=((PSU.id, FAST.entities[0].id),))
META = RecordingMeta(node="box", simulated=True, config={"sampler": {"fast": "50ms"}})
EVENT = Event(
    id="e-1",
    time_ns=START_NS + 5,
    kind=EventKind.XID,
    entity_id=FAST.entities[0].id,
    code=79,
    severity=Severity.CRITICAL,
    message="GPU has fallen, off the bus",
    sources=("kernel",),
    pci="0000:00:00.0",
)
FINDING = replace(record_samples.FINDING, time_ns=START_NS + 9, since_ns=START_NS)


def whole(recording: Recording, table: str) -> Frame:
    return joined_frames([frame for frame in recording.frames() if frame.spec.name == table])


def in_seconds(*frames: Frame) -> Iterator[Frame]:
    """Yield frames as a ring does: a second of every table, then the next."""
    starts_ns = sorted({int(time_ns) // 1_000_000_000 for frame in frames for time_ns in frame.time_ns})
    for start in starts_ns:
        for frame in frames:
            rows = np.flatnonzero(frame.time_ns // 1_000_000_000 == start)
            if len(rows):
                yield frame.rows(int(rows[0]), int(rows[-1]) + 1)


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
@settings(max_examples=15)
@given(seed=st.integers(0, 1000), n_rows=st.integers(1, 130))
def test_frames_come_back_with_held_values_and_row_times(
    suffix: str, seed: int, n_rows: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("recording") / f"run{suffix}"
    fast = sampled(FAST, n_rows, seed=seed)
    slow = sampled(SLOW, 1 + n_rows // 20, period_ns=1_000_000_000, seed=seed + 1)
    slow.values[1:] = slow.values[0]  # nothing changes after the first row
    slow.fresh[1:] = False
    write_recording(path, in_seconds(fast, slow), topology=TOPOLOGY, meta=META)
    recording = read_recording(path)
    assert recording.topology == TOPOLOGY
    assert recording.meta == META
    # A value that was first absent and then known is a change, so it counts as fresh.
    appeared = np.isnan(np.concatenate([np.full_like(fast.values[:1], np.nan), fast.values[:-1]]))
    fast.fresh[:] = ~np.isnan(fast.values) & (fast.fresh | appeared)
    slow.fresh[0] = ~np.isnan(slow.values[0])
    assert_frames_equal(whole(recording, "gpu_fast"), fast)
    assert_frames_equal(whole(recording, "gpu_slow"), slow)


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_records_and_kernel_lines_come_back(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"run{suffix}"
    line = KernelLogRow(time_ns=START_NS + 7, text='NVRM: Xid (PCI:0000:3b:00): 79, pid="x", off the bus')
    rows = write_recording(
        path, [sampled(FAST, 10)], topology=TOPOLOGY, meta=META, records=[FINDING, EVENT], kernel_lines=[line]
    )
    recording = read_recording(path)
    assert recording.records == (EVENT, FINDING)
    assert recording.kernel_lines == (line,)
    assert rows > 10
    assert recording.span_ns == (START_NS, START_NS + 9 * 50_000_000)


def test_the_parquet_file_states_everything_in_its_metadata(tmp_path: Path) -> None:
    path = tmp_path / "run.parquet"
    write_recording(path, [sampled(FAST, 10)], topology=TOPOLOGY, meta=META)
    file = pq.ParquetFile(path)
    assert file.schema_arrow.names == ["time_ns", "kind", "entity", "signal", "value", "text"]
    assert b'"simulated":true' in file.metadata.metadata[b"railwatch"]
    assert file.metadata.row_group(0).column(0).compression == "ZSTD"


def test_a_foreign_csv_makes_its_own_tables(tmp_path: Path) -> None:
    path = tmp_path / "foreign.csv"
    path.write_text(
        "time_ns,kind,entity,signal,value\n"
        "2000,supply,rail,voltage_v,11.9\n"
        "# a remark\n"
        "1000,supply,rail,voltage_v,12.1\n"
        "1000,supply,rail,current_a,\n"
        "3000,gpu,g0,power_w,250\n"
        "3000,event,g0,xid,79\n"
    )
    recording = read_recording(path)
    assert [spec.name for spec in recording.tables] == ["supply", "gpu"]
    supply = whole(recording, "supply")
    assert supply.time_ns.tolist() == [1000, 2000]
    assert supply.signal("voltage_v")[:, 0].tolist() == [12.1, 11.9]
    assert np.isnan(supply.signal("current_a")).all()
    (event,) = recording.records
    assert isinstance(event, Event)
    assert (event.code, event.entity_id, event.kind) == (79, "gpu:g0", EventKind.XID)
    assert recording.meta == RecordingMeta()


def _with_header(**changed: object) -> str:
    header = {"format": 1, "node": "n", "simulated": False, "config": {}, "tables": [], **changed}
    return f"# railwatch {json.dumps({'topology': {'entities': [], 'edges': []}, **header})}\n{','.join(COLUMNS)}\n"


_BAD_TABLE = (
    'bad.csv: (header) tables[0]: got {"name":"a","kind":"gpu","entities":["g0"],"signals":[]}; '
    'expected an object of "name", "kind", "entities" and "signals", each entity an object of "kind", "key"'
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "bad.csv: (file): empty; expected columns time_ns"),
        ("time_ns,kind,entity,value\n", "bad.csv:1: signal: missing; expected columns"),
        ("time_ns,kind,entity,signal,value,colour\n", "bad.csv:1: colour: unknown column"),
        ("time_ns,kind,entity,signal,value\n1.5,gpu,a,power_w,1\n", "bad.csv:2: time_ns: got '1.5'; expected nano"),
        ("time_ns,kind,entity,signal,value\n99999999999999999999,gpu,a,power_w,1\n", "bad.csv:2: time_ns: got '9999"),
        ("time_ns,kind,entity,signal,value\n1,gpu,a,power_w,hot\n", "bad.csv:2: value: got 'hot'; expected a number"),
        ("time_ns,kind,entity,signal,value\n1,gqu,a,power_w,1\n", "bad.csv:2: kind: got 'gqu'; expected one of"),
        ("time_ns,kind,entity,signal,value\n1,gpu,,power_w,1\n", "bad.csv:2: entity: empty; expected a name"),
        ("time_ns,kind,entity,signal,value\n1,gpu,a,1\n", "bad.csv:2: (row): 4 cells; expected 5"),
        ("time_ns,kind,entity,signal,value\n1,event,a,boom,1\n", "bad.csv:2: text: a record as JSON"),
        ("# railwatch {torn\ntime_ns,kind,entity,signal,value\n", "bad.csv: (header): not JSON"),
        ('# railwatch {"format": 9}\ntime_ns,kind,entity,signal,value\n', "bad.csv: (header): format 9"),
        ('# railwatch {"format": 1}\ntime_ns,kind,entity,signal,value\n', "bad.csv: (header): lacks node, simulated"),
        (_with_header(tables={}), "bad.csv: (header) tables: got {}; expected a list"),
        (_with_header(tables=[{"name": "a", "kind": "gpu", "entities": ["g0"], "signals": []}]), _BAD_TABLE),
        (_with_header(topology={"entities": [], "edges": ["a"]}), 'bad.csv: (header) topology.edges[0]: got "a"; exp'),
    ],
)
def test_a_bad_csv_is_refused_with_row_and_column(tmp_path: Path, text: str, expected: str) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(text)
    with pytest.raises(ConfigError) as refused:
        read_recording(path)
    assert str(refused.value).removeprefix(f"{tmp_path}/").startswith(expected)


def test_every_flaw_of_a_file_is_reported_at_once_up_to_a_bound(tmp_path: Path) -> None:
    path = tmp_path / "bad.csv"
    path.write_text("time_ns,kind,entity,signal,value\n" + "x,gpu,a,power_w,1\n" * 50)
    with pytest.raises(ConfigError) as refused:
        read_recording(path)
    assert [problem.line for problem in refused.value.problems] == list(range(2, 22))


def test_a_file_that_is_not_what_its_name_states_is_refused(tmp_path: Path) -> None:
    for name, content, expected in (
        ("a.parquet", b"PK junk", "not Parquet"),
        ("cut.parquet", b"PAR1 begun", "cut short"),
        ("a.csv", b"\xff\xfe\x00", "not UTF-8"),
        ("a.txt", b"", "ends in '.txt'"),
    ):
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(ConfigError, match=expected):
            read_recording(path)
    with pytest.raises(ConfigError, match="no such file"):
        read_recording(tmp_path / "none.csv")


def test_a_torn_parquet_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.parquet"
    write_recording(path, [sampled(FAST, 100)], topology=TOPOLOGY, meta=META)
    damaged = bytearray(path.read_bytes())
    damaged[40:400] = bytes(360)
    path.write_bytes(damaged)
    with pytest.raises(ConfigError, match=r"run\.parquet"):
        read_recording(path)


def test_a_recording_that_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentLacksError, match="cannot be written"):
        write_recording(tmp_path / "no" / "run.csv", [], topology=TOPOLOGY, meta=META)
    (tmp_path / "file").touch()
    with pytest.raises(EnvironmentLacksError, match="cannot be written"):
        write_recording(tmp_path / "file" / "run.csv", [], topology=TOPOLOGY, meta=META)
    (tmp_path / "file").unlink()
    with pytest.raises(ConfigError, match=r"\.parquet or \.csv"):
        write_recording(tmp_path / "run.json", [], topology=TOPOLOGY, meta=META)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_a_table_that_changes_its_columns_is_refused_and_leaves_nothing_behind(tmp_path: Path, suffix: str) -> None:
    wider = gpu_spec(3, name=FAST.name)
    with pytest.raises(ValueError, match="gpu_fast changed its columns"):
        write_recording(tmp_path / f"run{suffix}", [sampled(FAST, 5), sampled(wider, 5)], topology=TOPOLOGY, meta=META)
    assert list(tmp_path.iterdir()) == []


def test_a_recording_without_samples_is_a_recording(tmp_path: Path) -> None:
    for name in ("run.csv", "run.parquet"):
        write_recording(tmp_path / name, [], topology=TOPOLOGY, meta=META, records=[EVENT])
        recording = read_recording(tmp_path / name)
        assert list(recording.frames()) == []
        assert recording.span_ns is None
        assert recording.records == (EVENT,)


def test_pyarrow_is_not_loaded_until_a_parquet_file_is_touched() -> None:
    code = "import sys, telemetry.recording; sys.exit('pyarrow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_rows_of_a_late_table_stand_apart_from_those_whose_gaps_they_fill(tmp_path: Path) -> None:
    late = gpu_spec(2, name="gpu_samples")
    frames = [sampled(FAST, n_rows=20, seed=1), sampled(late, n_rows=30, seed=2)]
    path = tmp_path / "late.parquet"
    write_recording(path, frames, topology=TOPOLOGY, meta=META)
    read = read_recording(path)
    for frame in frames:
        assert_frames_equal(whole(read, frame.spec.name), frame)


@pytest.mark.parametrize("name", ["run.csv", "run.parquet"])
def test_a_file_that_took_the_name_meanwhile_keeps_it(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    write_recording(path, [sampled(FAST, 10)], topology=TOPOLOGY, meta=META, replaces=False)
    first = path.read_bytes()
    with pytest.raises(EnvironmentLacksError, match="exists; expected an unused name"):
        write_recording(path, [sampled(FAST, 20)], topology=TOPOLOGY, meta=META, replaces=False)
    assert path.read_bytes() == first
    assert list(tmp_path.iterdir()) == [path]
    write_recording(path, [sampled(FAST, 20)], topology=TOPOLOGY, meta=META)
    assert path.read_bytes() != first


def test_an_unwritable_place_is_reported_once_by_the_requested_name(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentLacksError) as caught:
        write_recording(tmp_path / "no" / "run.parquet", [], topology=TOPOLOGY, meta=META)
    assert str(caught.value) == f"{tmp_path / 'no' / 'run.parquet'}: cannot be written: No such file or directory"
