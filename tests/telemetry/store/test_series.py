"""The same series through the ring, the embedded store, a recording and real servers."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from agent.ring.ring import Ring
from agent.ring.rings import Rings
from config.destination import server_store_of
from config.fleet import FleetStore
from config.store import Store
from telemetry.clock import NS_PER_S, SystemClock
from telemetry.entities import EntityKind, Topology
from telemetry.errors import TransientError
from telemetry.frames import FloatArray, Frame, TableSpec
from telemetry.line_protocol import encode_frame, encode_rollups
from telemetry.recording import RecordingMeta, read_recording, write_recording
from telemetry.rollup import Resolution, Rollup, coarsen, decimals_of
from telemetry.series import FULL_RATE, MOST_STEPS, STEPS_S, SampleReader, series_of, step_for
from telemetry.store import embedded as embedded_store
from telemetry.store import stored_chunks
from telemetry.store.embedded import EmbeddedReader, EmbeddedStore
from telemetry.store.servers import ServerSamples
from telemetry.uplink.influx_v1 import InfluxV1, InfluxV1Settings
from telemetry.uplink.port import WriteStatus
from tests.servers import Server, influxd, victoria_metrics
from tests.telemetry.frames_for_tests import START_NS, gpu_spec, sampled

SIGNALS = ("power_w", "throttle_reasons", "gpu_temp_c", "power_brake_s")
TAGS = {"node": "box's", "simulated": "true"}
# Whole windows of the embedded store, so that everything is rolled up.
BEGIN_NS = START_NS - START_NS % (3600 * NS_PER_S)


def node_frames(start_ns: int = BEGIN_NS, *, seconds: int = 1400) -> list[Frame]:
    """Two tables of three GPUs at 2 Hz and at 1 Hz, with a silence of 35 and of 70 s in the middle."""
    fast = sampled(spec_of("gpu_fast", SIGNALS[:2]), 2 * seconds, start_ns=start_ns, period_ns=NS_PER_S // 2)
    slow = sampled(spec_of("gpu_slow", SIGNALS[2:]), seconds, start_ns=start_ns, period_ns=NS_PER_S, seed=3)
    halves = ((frame.rows(0, len(frame) // 2), frame.rows(len(frame) // 2 + 70, len(frame))) for frame in (fast, slow))
    return [part for both in halves for part in both]


class Standing:
    """Clock that stays, or goes on by so much with every look."""

    def __init__(self, tick_s: float = 0.0) -> None:
        self._tick_s, self._now_s = tick_s, 0.0

    def utc_ns(self) -> int:
        return BEGIN_NS

    def monotonic_s(self) -> float:
        self._now_s += self._tick_s
        return self._now_s

    def sleep_until(self, monotonic_s: float) -> None:
        """Never needed here."""


def spec_of(name: str, signals: tuple[str, ...]) -> TableSpec:
    return replace(gpu_spec(3, name=name), signals=signals)


def end_ns(frames: list[Frame]) -> int:
    return max(int(frame.time_ns[-1]) for frame in frames if len(frame)) + 1


def seconds_of(frames: list[Frame]) -> list[Frame]:
    """Roll frames up second by second, as the service does."""
    rollups = {frame.spec: Rollup(frame.spec) for frame in frames}
    done = [rollups[frame.spec].feed(frame) for frame in frames]
    return [*done, *(rollup.flush(1 << 62) for rollup in rollups.values())]


def by_entity(frame: Frame, column: str) -> dict[str, FloatArray]:
    return {entity.key: frame.signal(column)[:, place] for place, entity in enumerate(frame.spec.entities)}


def assert_same_series(found: Frame, wanted: Frame) -> None:
    """Compare value by value; a store keeps the digits of the catalogue, and a gap is a gap."""
    np.testing.assert_array_equal(found.time_ns, wanted.time_ns)
    assert found.spec.signals == wanted.spec.signals
    for column in wanted.spec.signals:
        own, other = by_entity(found, column), by_entity(wanted, column)
        assert own.keys() == other.keys()
        digit = 10.0 ** -decimals_of(EntityKind.GPU, column)
        for key, values in other.items():
            np.testing.assert_allclose(own[key], values, rtol=0, atol=0.51 * digit, equal_nan=True, err_msg=column)


def read(reader: SampleReader, step_s: int, *, start_ns: int = BEGIN_NS, stop_ns: int = 1 << 62) -> Frame:
    return reader.series(EntityKind.GPU, SIGNALS, start_ns=start_ns, stop_ns=stop_ns, step_ns=step_s * NS_PER_S)


def wanted_series(frames: list[Frame], step_s: int) -> Frame:
    return series_of(frames, EntityKind.GPU, SIGNALS, step_ns=step_s * NS_PER_S)


def embedded(folder: Path, frames: list[Frame], *, later_ns: int = 0) -> EmbeddedReader:
    """Store frames second by second, as the service does; `later_ns` is how far the clock goes on afterwards."""
    store = EmbeddedStore(folder)
    store.write_raw(frames)
    rollups = seconds_of(frames)
    last_ns = end_ns(rollups)
    for start_ns in range(BEGIN_NS, last_ns + 1, 20 * NS_PER_S):
        rows = [np.searchsorted(one.time_ns, [start_ns, start_ns + 20 * NS_PER_S]) for one in rollups]
        store.write_rollups([one.rows(*map(int, bounds)) for one, bounds in zip(rollups, rows, strict=True)])
    if later_ns:
        spec = gpu_spec(name="gpu_rare")
        for count in range(1, 5):
            row = sampled(spec, 1, start_ns=last_ns + later_ns + count * NS_PER_S)
            rollup = Rollup(row.spec)
            rollup.feed(row)
            store.write_rollups([rollup.flush(1 << 62)])
    store.close()
    return EmbeddedReader(folder)


def ring(folder: Path, frames: list[Frame]) -> Rings:
    specs = {frame.spec.name: frame.spec for frame in frames}
    made = Ring.create(
        folder / "ring",
        [*specs.values()],
        node="box",
        topology=Topology(entities=(), edges=()),
        simulated=True,
        rows=dict.fromkeys(specs, 5000),
    )
    for frame in frames:
        for row in range(len(frame)):
            made.tables[frame.spec.name].append(int(frame.time_ns[row]), frame.values[row], frame.fresh[row])
    return Rings.attach(folder / "ring")


@pytest.mark.parametrize(
    ("step_s", "stored_s"), [(FULL_RATE, 0), (1, 1), (5, 1), (60, 60), (120, 60), (600, 600), (1200, 600)]
)
def test_ring_and_embedded_store_return_the_same_series(tmp_path: Path, step_s: int, stored_s: int) -> None:
    frames = node_frames()
    wanted = wanted_series(frames, step_s)
    assert len(wanted)
    assert np.isnan(wanted.values).any() or step_s >= 60
    assert_same_series(read(ring(tmp_path, frames), step_s), wanted)
    # In a mean every stored row has the same weight, however many of its seconds have a value.
    wanted = coarsen(wanted_series(frames, stored_s), step_s * NS_PER_S) if step_s else wanted
    for later_ns, name in ((0, "open"), (700 * NS_PER_S, "over")):
        with closing(embedded(tmp_path / name, frames, later_ns=later_ns)) as reader:
            assert_same_series(read(reader, step_s, stop_ns=end_ns(frames)), wanted)
            if not later_ns:
                assert_same_series(read(reader, step_s), wanted)


def test_a_recording_returns_the_rollups_of_its_samples(tmp_path: Path) -> None:
    frames = node_frames(seconds=200)
    path = tmp_path / "a.csv"
    write_recording(path, frames, topology=Topology(entities=(), edges=()), meta=RecordingMeta())
    assert_same_series(read(read_recording(path), 60), wanted_series(frames, 60))
    part = read(read_recording(path), 60, start_ns=BEGIN_NS + 90 * NS_PER_S, stop_ns=BEGIN_NS + 150 * NS_PER_S)
    assert ((part.time_ns - BEGIN_NS) // NS_PER_S).tolist() == [60, 120]


def test_a_gap_stays_a_gap_at_every_step(tmp_path: Path) -> None:
    frames = node_frames()
    for step_s in (1, 5, 60):
        with closing(embedded(tmp_path / f"{step_s}", frames)) as reader:
            found = read(reader, step_s)
        silent_s = (found.time_ns[1:] - found.time_ns[:-1]).max() // NS_PER_S
        assert silent_s == {1: 36, 5: 40, 60: 60}[step_s]


def test_rolled_up_rows_are_read_in_place_of_the_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frames = node_frames(seconds=3600)
    with closing(embedded(tmp_path, frames, later_ns=700 * NS_PER_S)) as reader:
        asked: list[tuple[str, int]] = []
        real = reader._read

        def counted(resolution: str, *args: object, **kwargs: object) -> list[Frame]:
            found: list[Frame] = real(resolution, *args, **kwargs)  # type: ignore[arg-type]
            asked.append((resolution, sum(map(len, found))))
            return found

        monkeypatch.setattr(reader, "_read", counted)
        read(reader, 600, stop_ns=BEGIN_NS + 3600 * NS_PER_S)
    assert asked == [("ten_minutes", 12), ("rollup", 0)]


@pytest.mark.parametrize("step_s", [1, 5, 60])
def test_a_long_read_is_coarsened_in_parts_and_returns_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step_s: int
) -> None:
    frames = node_frames()
    parts: list[int] = []

    def counted(frame: Frame, step_ns: int) -> Frame:
        parts.append(len(frame))
        return coarsen(frame, step_ns)

    monkeypatch.setattr(stored_chunks, "coarsen", counted)
    with closing(embedded(tmp_path, frames)) as reader:
        whole = read(reader, step_s)
        assert len(parts) == 1
        monkeypatch.setattr(stored_chunks, "_READ_CELLS", 1000)
        assert_same_series(read(reader, step_s), whole)
    assert len(parts) >= 5
    assert max(parts[1:]) < parts[0] / 2


def test_a_store_with_many_windows_behind_catches_up_in_one_write(tmp_path: Path) -> None:
    spec = spec_of("gpu_fast", SIGNALS[:2])
    row = sampled(spec, 3 * 24 * 60, start_ns=BEGIN_NS, period_ns=60 * NS_PER_S)  # three days
    store = EmbeddedStore(tmp_path, clock=Standing())
    store.write_rollups(seconds_of([row]))
    with closing(EmbeddedReader(tmp_path)) as reader:
        rolled = reader._read("ten_minutes", 0, 1 << 62, EntityKind.GPU, ["power_w_mean"])
    assert sum(map(len, rolled)) == 3 * 24 * 6 - 1
    store.close()


def test_catching_up_ends_with_its_time_and_goes_on_with_the_next_write(tmp_path: Path) -> None:
    spec = spec_of("gpu_fast", SIGNALS[:2])
    row = sampled(spec, 10 * 60, start_ns=BEGIN_NS, period_ns=60 * NS_PER_S)
    store = EmbeddedStore(tmp_path, clock=Standing(tick_s=0.3))
    found = []
    for part in (seconds_of([row]), seconds_of([sampled(spec, 1, start_ns=BEGIN_NS + 36_000 * NS_PER_S)])):
        store.write_rollups(part)
        with closing(EmbeddedReader(tmp_path)) as reader:
            rolled = reader._read("ten_minutes", 0, 1 << 62, EntityKind.GPU, ["power_w_mean"])
        found.append(sum(map(len, rolled)))
    assert found == [2, 4]
    store.close()


def test_a_late_second_rolls_up_its_own_window_only(tmp_path: Path) -> None:
    spec, rare = spec_of("gpu_fast", SIGNALS[:2]), spec_of("gpu_slow", SIGNALS[2:])
    row = sampled(spec, 600, start_ns=BEGIN_NS, period_ns=60 * NS_PER_S)
    store = EmbeddedStore(tmp_path, clock=Standing())
    store.write_rollups(seconds_of([row]))
    late = sampled(rare, 1, start_ns=BEGIN_NS + 1830 * NS_PER_S)
    now = sampled(spec, 1, start_ns=BEGIN_NS + 36_000 * NS_PER_S)
    for second in range(3):
        later = sampled(spec, 1, start_ns=BEGIN_NS + (36_001 + second) * NS_PER_S)
        store.write_rollups(seconds_of([late, now] if not second else [later]))
    with closing(EmbeddedReader(tmp_path)) as reader:
        again = reader._read("ten_minutes", 0, 1 << 62, EntityKind.GPU, ["power_w_mean"])
        assert sum(map(len, again)) == 59 + 1
        found = reader.series(
            EntityKind.GPU, ["gpu_temp_c"], start_ns=BEGIN_NS, stop_ns=1 << 62, step_ns=600 * NS_PER_S
        )
    known = ~np.isnan(found.signal("gpu_temp_c_last")).all(axis=1)
    assert found.time_ns[known].tolist() == [BEGIN_NS + 1800 * NS_PER_S]
    store.close()


def test_a_write_that_is_rolled_back_leaves_no_columns_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first write fails after its windows were rolled up."""
    rows = seconds_of([sampled(spec_of("gpu_fast", SIGNALS[:2]), 60, start_ns=BEGIN_NS, period_ns=60 * NS_PER_S)])
    store = EmbeddedStore(tmp_path, clock=Standing())

    def full() -> None:
        raise sqlite3.OperationalError("database or disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(embedded_store, "_TRIM_WRITES", 1)
        patch.setattr(store, "_trim", full)
        with pytest.raises(TransientError):
            store.write_rollups(rows)
    store.write_rollups(rows)
    with closing(EmbeddedReader(tmp_path)) as reader:
        assert len(read(reader, 600)) == 6
    store.close()


def test_a_window_with_late_rows_is_rolled_up_again(tmp_path: Path) -> None:
    frames = node_frames()
    late = gpu_spec(3, name="gpu_late")
    with closing(embedded(tmp_path, frames, later_ns=700 * NS_PER_S)):
        pass
    store = EmbeddedStore(tmp_path)
    rollup = Rollup(late)
    rollup.feed(sampled(late, 1, start_ns=BEGIN_NS + 30 * NS_PER_S))
    store.write_rollups([rollup.flush(1 << 62)])
    for second in range(3):
        row = sampled(late, 1, start_ns=BEGIN_NS + (2500 + second) * NS_PER_S)
        store.write_rollups([Rollup(late).feed(row), seconds_of([row])[1]])
    store.close()
    with closing(EmbeddedReader(tmp_path)) as reader:
        found = reader.series(
            EntityKind.GPU, ["sm_clock_mhz"], start_ns=BEGIN_NS, stop_ns=BEGIN_NS + 60 * NS_PER_S, step_ns=60 * NS_PER_S
        )
    assert len(found) == 1


def test_a_flipped_byte_costs_its_chunk_and_is_counted(tmp_path: Path) -> None:
    frames = node_frames()
    with closing(embedded(tmp_path, frames)) as reader:
        whole = read(reader, 1)
    store = EmbeddedStore(tmp_path)
    chunk_id, body = store._connection.execute(
        "SELECT id, body FROM chunk WHERE resolution = 'rollup' ORDER BY id LIMIT 1"
    ).fetchone()
    flipped = bytes([*body[:40], body[40] ^ 0x10, *body[41:]])
    store._connection.execute("UPDATE chunk SET body = ? WHERE id = ?", (flipped, chunk_id))
    store.close()
    with closing(EmbeddedReader(tmp_path)) as reader:
        found = read(reader, 1)
        assert reader.damaged_chunks == 1
        read(reader, 1)
        assert reader.damaged_chunks == 1
    assert 0 < len(found) <= len(whole)
    assert np.isnan(found.values).sum() > np.isnan(whole.values).sum() or len(found) < len(whole)


def test_a_damaged_chunk_does_not_stop_the_writer(tmp_path: Path) -> None:
    frame = sampled(gpu_spec(), 200, period_ns=NS_PER_S)
    store = EmbeddedStore(tmp_path)
    store.write_raw([frame.rows(0, 1)])
    store._connection.execute("UPDATE chunk SET body = x'00'")
    for first in range(1, 70):
        store.write_raw([frame.rows(first, first + 1)])
    assert store.damaged_chunks == 1
    with closing(EmbeddedReader(tmp_path)) as reader:
        assert sum(map(len, reader.frames(start_ns=0, stop_ns=1 << 62))) == 69
    store.close()


def test_steps_are_chosen_by_the_length_of_the_range() -> None:
    chosen = {span_s: step_for(span_s * NS_PER_S) // NS_PER_S for span_s in (60, 600, 3600, 86_400, 30 * 86_400)}
    assert chosen == {60: 1, 600: 1, 3600: 5, 86_400: 120, 30 * 86_400: 3600}
    for span_s in (1, 751, 86_400, 365 * 86_400):
        assert span_s * NS_PER_S / step_for(span_s * NS_PER_S) <= MOST_STEPS
    assert step_for(1 << 62) == STEPS_S[-1] * NS_PER_S


def test_coarse_rows_of_coarse_rows_are_those_of_the_seconds() -> None:
    (merged,) = {frame.spec.name: frame for frame in [wanted_series(node_frames(), 1)]}.values()
    in_two = coarsen(coarsen(merged, 60 * NS_PER_S), 600 * NS_PER_S)
    at_once = coarsen(merged, 600 * NS_PER_S)
    for column in at_once.spec.signals:
        if not column.endswith("_mean"):
            np.testing.assert_array_equal(in_two.signal(column), at_once.signal(column))


def send(server: Server, frames: list[Frame]) -> None:
    """Store frames and their rollups as a node does."""
    destination = InfluxV1(InfluxV1Settings(url=server.url))
    destination.prepare()
    raw = b"".join(encode_frame(frame, tags=TAGS) for frame in frames)
    other = encode_rollups(seconds_of(frames), tags=TAGS | {"node": "another"})
    rolled = encode_rollups(seconds_of(frames), tags=TAGS)
    for resolution, body in ((Resolution.RAW, raw), (Resolution.ROLLUP, rolled), (Resolution.ROLLUP, other)):
        assert destination.write(resolution, body).status is WriteStatus.STORED
    destination.close()


@pytest.mark.integration
@pytest.mark.parametrize(
    ("start", "language", "signal"),
    [(influxd, FleetStore.INFLUXQL, ""), (victoria_metrics, FleetStore.VICTORIAMETRICS, "gpu_power_w")],
)
def test_a_server_returns_the_same_series(
    tmp_path: Path, start: Callable[..., object], language: FleetStore, signal: str
) -> None:
    now_s = SystemClock().utc_ns() // NS_PER_S
    begin_ns = (now_s - now_s % 1200 - 2400) * NS_PER_S
    frames = node_frames(begin_ns, seconds=1400)
    stop_ns = end_ns(frames)
    with start(tmp=tmp_path) as server:  # type: ignore[attr-defined]
        send(server, frames)
        if signal:
            server.export(signal, samples=int(np.count_nonzero(frames[0].fresh[:, :, 0])))
        settings = Store.model_validate({"kind": "influxdb1", "url": server.url})
        store = server_store_of(settings, language, timeout_s=20)
        with closing(ServerSamples(store, node=TAGS["node"])) as samples:
            for step_s in (FULL_RATE, 1, 5, 60, 1200):
                found = read(samples, step_s, start_ns=begin_ns, stop_ns=stop_ns)
                assert_same_series(found, wanted_series(frames, step_s))
            (whole,) = samples.frames(start_ns=begin_ns, stop_ns=stop_ns)
            assert np.nanmax(whole.signal("power_w")) == np.nanmax(frames[0].signal("power_w"))
