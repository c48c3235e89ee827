import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from telemetry.entities import EntityKind
from telemetry.errors import EnvironmentLacksError, TransientError
from telemetry.frames import joined_frames
from telemetry.rollup import Rollup
from telemetry.signals import RateClass
from telemetry.store import embedded
from telemetry.store.chunks import decode_chunk, encode_chunk, spec_from_json, spec_to_json
from telemetry.store.embedded import EmbeddedReader, EmbeddedRetention, EmbeddedStore
from telemetry.store.records import RecordFile
from tests.telemetry.frames_for_tests import START_NS, assert_frames_equal, gpu_spec, sampled

NS_PER_S = 1_000_000_000
END_NS = START_NS + 3600 * NS_PER_S


@settings(max_examples=50)
@given(
    n_rows=st.integers(1, 40),
    n_gpus=st.integers(1, 3),
    seed=st.integers(0, 1000),
    extreme=st.sampled_from([None, 1e300, -1e5, 1e12, np.inf, -np.inf, np.nan]),
)
def test_a_chunk_returns_back_what_it_was_given(n_rows: int, n_gpus: int, seed: int, extreme: float | None) -> None:
    frame = sampled(gpu_spec(n_gpus), n_rows, seed=seed)
    if extreme is not None:
        frame.values[seed % n_rows, 0, 1] = extreme
    assert_frames_equal(decode_chunk(frame.spec, encode_chunk(frame)), frame)


def test_columns_read_back_equal_from_their_text() -> None:
    assert spec_from_json(spec_to_json(gpu_spec())) == gpu_spec()


def test_series_hold_every_update_once_and_nothing_held(tmp_path: Path) -> None:
    frame = sampled(gpu_spec(), 100)
    store = EmbeddedStore(tmp_path)
    for first in range(0, 100, 20):
        store.write_raw([frame.rows(first, first + 20)])
    reader = EmbeddedReader(tmp_path)
    found = reader.series(EntityKind.GPU, ["power_w"], start_ns=START_NS, stop_ns=END_NS)
    updates = frame.fresh[:, :, 0].any(axis=1)
    np.testing.assert_array_equal(found.time_ns, frame.time_ns[updates])
    wanted = np.where(frame.fresh[:, :, 0], frame.signal("power_w"), np.nan)[updates]
    np.testing.assert_allclose(found.signal("power_w"), wanted, atol=1e-9)
    assert found.spec.entities == frame.spec.entities
    store.close()
    reader.close()


def test_series_of_two_tables_share_one_time_axis(tmp_path: Path) -> None:
    fast = sampled(gpu_spec(), 40)
    slow = sampled(gpu_spec(name="gpu_slow", rate=RateClass.SLOW), 2, period_ns=NS_PER_S)
    store = EmbeddedStore(tmp_path)
    store.write_raw([fast, slow])
    reader = EmbeddedReader(tmp_path)
    found = reader.series(EntityKind.GPU, ["power_w", "gpu_temp_c"], start_ns=START_NS, stop_ns=END_NS)
    assert (np.diff(found.time_ns) > 0).all()
    assert np.count_nonzero(~np.isnan(found.signal("gpu_temp_c"))) == np.count_nonzero(slow.fresh[:, :, 1])
    store.close()
    reader.close()


def test_a_signal_of_no_entity_returns_a_frame_without_rows(tmp_path: Path) -> None:
    EmbeddedStore(tmp_path).close()
    reader = EmbeddedReader(tmp_path)
    found = reader.series(EntityKind.FAN, ["rpm"], start_ns=0, stop_ns=END_NS)
    assert len(found) == 0
    reader.close()


def test_whole_frames_come_back_in_order_through_merging(tmp_path: Path) -> None:
    frame = sampled(gpu_spec(2), 20 * 150)
    store = EmbeddedStore(tmp_path)
    for first in range(0, len(frame), 20):
        store.write_raw([frame.rows(first, first + 20)])
    reader = EmbeddedReader(tmp_path)
    pieces = list(reader.frames(start_ns=START_NS + 25 * 50_000_000, stop_ns=END_NS))
    assert len(pieces) == 2 + 30  # two merged minutes, and what waits for the third
    assert_frames_equal(joined_frames(pieces), frame.rows(25, len(frame)))
    store.close()
    reader.close()


def test_the_newest_rollup_has_the_last_values_held(tmp_path: Path) -> None:
    frame = sampled(gpu_spec(), 60)
    rollup = Rollup(frame.spec)
    store = EmbeddedStore(tmp_path)
    store.write_rollups([rollup.feed(frame), rollup.flush(END_NS)])
    reader = EmbeddedReader(tmp_path)
    found = reader.series(EntityKind.GPU, ["power_w"], start_ns=START_NS, stop_ns=END_NS, step_ns=3600 * NS_PER_S)
    wanted = frame.signal("power_w")
    for index in range(len(frame.spec.entities)):
        known = wanted[~np.isnan(wanted[:, index]), index]
        assert found.signal("power_w_last")[-1, index] == pytest.approx(known[-1])
    store.close()
    reader.close()


def test_chunks_are_merged_by_the_time_they_cover(tmp_path: Path) -> None:
    frame = sampled(gpu_spec(2), 20 * 5 * 12)
    store = EmbeddedStore(tmp_path)
    reader = EmbeddedReader(tmp_path)
    counts = []
    for first in range(0, len(frame), 100):  # five seconds, as the service writes them
        store.write_raw([frame.rows(first, first + 100)])
        counts.append(len([*reader.frames(start_ns=0, stop_ns=END_NS)]))
    assert counts == [*range(1, 12), 1]
    store.close()
    reader.close()


def test_retention_is_checked_within_a_minute_of_writes(tmp_path: Path) -> None:
    frame = sampled(gpu_spec(), 60, period_ns=NS_PER_S)
    store, rollup = EmbeddedStore(tmp_path, retention=EmbeddedRetention(raw_ns=NS_PER_S)), Rollup(frame.spec)
    store.write_raw([sampled(gpu_spec(), 1, start_ns=START_NS - 3600 * NS_PER_S)])
    for first in range(0, 60, 5):
        store.write_rollups([rollup.feed(frame.rows(first, first + 5))])
        store.write_raw([frame.rows(first, first + 5)])
    reader = EmbeddedReader(tmp_path)
    assert [*reader.frames(start_ns=0, stop_ns=START_NS)] == []
    store.close()
    reader.close()


def test_old_raw_samples_go_and_rollups_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "_TRIM_WRITES", 1)
    monkeypatch.setattr(embedded, "_MERGE_S", 10)
    frame = sampled(gpu_spec(), 200, period_ns=NS_PER_S)
    store, rollup = EmbeddedStore(tmp_path, retention=EmbeddedRetention(raw_ns=50 * NS_PER_S)), Rollup(frame.spec)
    for first in range(0, 200, 10):
        store.write_raw([frame.rows(first, first + 10)])
        store.write_rollups([rollup.feed(frame.rows(first, first + 10))])
    store.write_rollups([rollup.flush(END_NS)])
    reader = EmbeddedReader(tmp_path)
    raw = list(reader.frames(start_ns=0, stop_ns=END_NS))
    rolled = reader.series(EntityKind.GPU, frame.spec.signals, start_ns=0, stop_ns=END_NS, step_ns=NS_PER_S)
    assert sum(map(len, raw)) <= 70
    assert len(rolled) == 200
    store.close()
    reader.close()


class Now:
    """Wall clock that a test sets."""

    def __init__(self, now_ns: int) -> None:
        self.now_ns = now_ns

    def utc_ns(self) -> int:
        return self.now_ns

    def monotonic_s(self) -> float:
        return 0.0

    def sleep_until(self, monotonic_s: float) -> None:
        """Never needed here."""


def test_one_row_from_the_far_future_does_not_make_the_history_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded, "_TRIM_WRITES", 1)
    frame = sampled(gpu_spec(), 40, period_ns=NS_PER_S)
    clock = Now(START_NS + 40 * NS_PER_S)
    store = EmbeddedStore(tmp_path, retention=EmbeddedRetention(raw_ns=50 * NS_PER_S), clock=clock)
    store.write_raw([frame])
    store.write_raw([sampled(gpu_spec(), 1, start_ns=START_NS + 30 * 365 * 86_400 * NS_PER_S)])
    reader = EmbeddedReader(tmp_path)
    assert sum(map(len, reader.frames(start_ns=0, stop_ns=END_NS))) == 40
    clock.now_ns += 200 * NS_PER_S
    store.write_raw([sampled(gpu_spec(), 1, start_ns=clock.now_ns)])
    assert sum(map(len, reader.frames(start_ns=0, stop_ns=END_NS))) == 1
    store.close()
    reader.close()


def test_where_space_is_short_rows_from_the_future_go_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "_TRIM_WRITES", 1)
    monkeypatch.setattr(embedded, "_TRIM_CHUNKS", 1)
    retention, clock = EmbeddedRetention(max_bytes=300_000), Now(START_NS + 3600 * NS_PER_S)
    store = EmbeddedStore(tmp_path, retention=retention, clock=clock)
    store.write_raw([sampled(gpu_spec(8), 20, start_ns=2 * START_NS)])
    reader = EmbeddedReader(tmp_path)
    for second in range(200):
        store.write_raw([sampled(gpu_spec(8), 20, start_ns=START_NS + second * NS_PER_S, seed=second)])
        kept = [int(frame.time_ns[0]) for frame in reader.frames(start_ns=0, stop_ns=3 * START_NS)]
        if 2 * START_NS not in kept:
            break
    assert kept[0] == START_NS
    assert second > 5
    store.close()
    reader.close()


def test_an_unreadable_file_is_reported_with_its_path(tmp_path: Path) -> None:
    store = EmbeddedStore(tmp_path)
    other = sqlite3.connect(tmp_path / embedded.FILE_NAME)
    other.execute("DROP TABLE chunk")
    other.close()
    with pytest.raises(TransientError, match="cannot be read now"):
        store.newest_raw_ns(gpu_spec())
    store.close()


def test_the_file_stays_within_its_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "_TRIM_WRITES", 1)
    monkeypatch.setattr(embedded, "_TRIM_CHUNKS", 4)
    store = EmbeddedStore(tmp_path, retention=EmbeddedRetention(max_bytes=300_000))
    for second in range(200):
        store.write_raw([sampled(gpu_spec(8), 20, start_ns=START_NS + second * NS_PER_S, seed=second)])
    reader = EmbeddedReader(tmp_path)
    assert reader.size_bytes() <= 300_000
    kept = [int(frame.time_ns[-1]) for frame in reader.frames(start_ns=0, stop_ns=END_NS)]
    assert max(kept) == START_NS + 199 * NS_PER_S + 19 * 50_000_000
    store.close()
    reader.close()


_WRITER = """
import sys
from pathlib import Path
from telemetry.store.embedded import EmbeddedStore
from tests.telemetry.frames_for_tests import START_NS, gpu_spec, sampled
store = EmbeddedStore(Path(sys.argv[1]))
for second in range(100_000):
    store.write_raw([sampled(gpu_spec(), 20, start_ns=START_NS + second * 1_000_000_000)])
    print(second, flush=True)
"""


def test_nothing_acknowledged_is_lost_to_kill_9_and_readers_see_it_before(tmp_path: Path) -> None:
    writer = subprocess.Popen([sys.executable, "-c", _WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    try:
        for line in writer.stdout:
            if int(line) == 70:
                break
        reader = EmbeddedReader(tmp_path)
        assert sum(map(len, reader.frames(start_ns=0, stop_ns=END_NS))) >= 71 * 20
        reader.close()
    finally:
        writer.send_signal(signal.SIGKILL)
        acknowledged = [70, *map(int, writer.stdout.read().split())]
        writer.wait()
        writer.stdout.close()
    store = EmbeddedStore(tmp_path)  # a new writer takes over
    reader = EmbeddedReader(tmp_path)
    seconds = {
        int(time_ns - START_NS) // NS_PER_S for f in reader.frames(start_ns=0, stop_ns=1 << 62) for time_ns in f.time_ns
    }
    assert seconds >= set(range(acknowledged[-1] + 1))
    assert len(seconds) <= acknowledged[-1] + 2
    with sqlite3.connect(tmp_path / embedded.FILE_NAME) as check:
        assert check.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    check.close()
    store.close()
    reader.close()


def test_a_reader_needs_a_store_that_is_there(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentLacksError, match="no such file"):
        EmbeddedReader(tmp_path)


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EnvironmentLacksError, match="cannot be opened for writing"):
        EmbeddedStore(tmp_path / "file" / "data")


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / embedded.FILE_NAME).write_bytes(b"not a database, but long enough to be looked at" * 100)
    with pytest.raises(EnvironmentLacksError, match="cannot be used as a store"):
        EmbeddedStore(tmp_path)


def test_a_layout_of_another_version_is_refused(tmp_path: Path) -> None:
    EmbeddedStore(tmp_path).close()
    with sqlite3.connect(tmp_path / embedded.FILE_NAME) as later:
        later.execute("PRAGMA user_version=99")
    later.close()
    with pytest.raises(EnvironmentLacksError, match="layout version 99"):
        EmbeddedStore(tmp_path)


_FULL = """
import resource, signal, sys
from pathlib import Path
from telemetry.errors import TransientError
from telemetry.store.embedded import EmbeddedReader, EmbeddedStore
from tests.telemetry.frames_for_tests import START_NS, gpu_spec, sampled
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
store = EmbeddedStore(Path(sys.argv[1]))
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, resource.RLIM_INFINITY))
kept = 0
try:
    for second in range(10_000):
        store.write_raw([sampled(gpu_spec(), 20, start_ns=START_NS + second * 1_000_000_000)])
        kept += 20
except TransientError as err:
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    store.write_raw([sampled(gpu_spec(), 20, start_ns=START_NS + 20_000 * 1_000_000_000)])
    reader = EmbeddedReader(Path(sys.argv[1]))
    print(kept + 20 == sum(map(len, reader.frames(start_ns=0, stop_ns=1 << 62))), err)
"""


def test_a_full_disk_is_a_passing_error_and_costs_nothing_that_was_kept(tmp_path: Path) -> None:
    """A limit on the size of files acts as the full disk."""
    done = subprocess.run(
        [sys.executable, "-c", _FULL, str(tmp_path)], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.stdout.startswith("True embedded store: cannot write samples"), done.stdout + done.stderr


def test_a_store_without_samples_and_records_reads_as_empty(tmp_path: Path) -> None:
    store, records = EmbeddedStore(tmp_path), RecordFile(tmp_path)
    store.write_raw([])
    records.append([])
    assert records.find() == ()
    reader = EmbeddedReader(tmp_path)
    found = reader.series(EntityKind.GPU, ["power_w"], start_ns=START_NS, stop_ns=START_NS + 1)
    assert found.values.shape == (0, 0, 1)
    reader.close()
    records.close()
    store.close()
