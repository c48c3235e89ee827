import struct
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.recorder.entries import BoxEntry, EntryKind, pack_rows, place_of_rows, unpack_rows, whole_entries
from telemetry.entities import Entity, EntityKind
from telemetry.frames import Frame, TableSpec
from tests.agent.fakes import START_NS


def spec_of(n_entities: int, n_signals: int) -> TableSpec:
    return TableSpec(
        name="gpu_fast",
        kind=EntityKind.GPU,
        entities=tuple(Entity(kind=EntityKind.GPU, key=f"GPU-{i}", name=f"gpu{i}") for i in range(n_entities)),
        signals=tuple(f"signal_{i}" for i in range(n_signals)),
    )


@settings(max_examples=60)
@given(st.data())
def test_rows_come_back_bit_for_bit(data: st.DataObject) -> None:
    n_rows, n_entities, n_signals = (data.draw(st.integers(1, most)) for most in (20, 3, 4))
    spec = spec_of(n_entities, n_signals)
    cells = n_rows * n_entities * n_signals
    values = data.draw(st.lists(st.floats(width=64), min_size=cells, max_size=cells))
    fresh = data.draw(st.lists(st.booleans(), min_size=cells, max_size=cells))
    frame = Frame(
        spec=spec,
        time_ns=START_NS + np.arange(n_rows, dtype=np.int64) * 50_000_000,
        values=np.array(values).reshape(n_rows, *spec.shape),
        fresh=np.array(fresh).reshape(n_rows, *spec.shape),
    )
    entry = pack_rows(frame, layout=3, taken_ns=7)
    back = unpack_rows(entry, spec)
    assert place_of_rows(entry) == (3, "gpu_fast", 0)
    assert back.time_ns.tolist() == frame.time_ns.tolist()
    assert back.values.tobytes() == frame.values.tobytes()
    assert back.fresh.tolist() == frame.fresh.tolist()


def test_a_file_that_ends_anywhere_returns_its_whole_entries() -> None:
    entries = [BoxEntry(kind=EntryKind.STATE, taken_ns=n, body=b"x" * n) for n in (3, 50, 1)]
    data = b"".join(entry.to_bytes() for entry in entries)
    ends = np.cumsum([len(entry.to_bytes()) for entry in entries]).tolist()
    for size in range(len(data) + 1):
        assert list(whole_entries(data[:size])) == entries[: sum(end <= size for end in ends)]


@pytest.mark.parametrize("at", [0, 2, 4, 9, 14, 30])
def test_a_damaged_byte_ends_the_reading(at: int) -> None:
    good = BoxEntry(kind=EntryKind.STATE, taken_ns=1, body=b"first").to_bytes()
    bad = bytearray(BoxEntry(kind=EntryKind.STATE, taken_ns=2, body=b"second, a longer one").to_bytes())
    bad[at] ^= 0x55
    assert [entry.taken_ns for entry in whole_entries(good + bytes(bad) + good)] == [1]


def test_an_entry_of_a_kind_that_another_version_knows_ends_the_reading() -> None:
    good = BoxEntry(kind=EntryKind.STATE, taken_ns=1, body=b"ours")
    body, taken_ns, kind = b"theirs", 2, 200
    crc = zlib.crc32(body, zlib.crc32(struct.pack("<Bq", kind, taken_ns)))
    theirs = struct.pack("<HBxIIq", 0x5742, kind, len(body), crc, taken_ns) + body
    assert list(whole_entries(good.to_bytes() + theirs)) == [good]


def test_zeroes_after_the_last_entry_are_no_entry() -> None:
    good = BoxEntry(kind=EntryKind.STATE, taken_ns=1, body=b"first").to_bytes()
    assert len(list(whole_entries(good + bytes(4096)))) == 1
