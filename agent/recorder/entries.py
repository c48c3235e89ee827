"""Entries of the black box: rows, records and their layout, each with its own check sum.

On disk an entry is a head and a body: ``magic u16 | kind u8 | 0 u8 | bytes u32 | crc32 u32 | taken_ns i64``, little
endian, the check sum over kind, time and body. A file that ends within an entry, as a power cut leaves it, is read up
to its last whole one. Bodies are JSON, and rows are packed: see `pack_rows`.
"""

import json
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

from telemetry.frames import Frame, TableSpec
from telemetry.json_text import json_bytes

_HEAD = struct.Struct("<HBxIIq")
_CHECKED = struct.Struct("<Bq")
_MAGIC = 0x5742  # "BW" in the file: any two bytes that zeroed blocks of a file system are not
# Heuristic: far more than a flush of sixteen GPUs at 1 kHz, and less than what a torn length may make us read.
_MAX_BODY_BYTES = 256 << 20
# Level 1: differences of held values are zeros, which no level packs much better and every level packs slower.
_ZLIB_LEVEL = 1


class EntryKind(IntEnum):
    """Content of an entry."""

    RUN = 1
    TABLES = 2
    ROWS = 3
    RECORDS = 4
    STATE = 5


_KINDS = frozenset(EntryKind)


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxEntry:
    """Entry of the black box; `taken_ns` is the monotonic time at which it was taken, valid within one boot."""

    kind: EntryKind
    taken_ns: int
    body: bytes

    def to_bytes(self) -> bytes:
        """Return the entry in its file format."""
        crc = zlib.crc32(self.body, zlib.crc32(_CHECKED.pack(self.kind, self.taken_ns)))
        return _HEAD.pack(_MAGIC, self.kind, len(self.body), crc, self.taken_ns) + self.body

    def fields(self) -> dict[str, Any]:
        """Parse a JSON body."""
        fields: dict[str, Any] = json.loads(self.body)
        return fields


def json_entry(kind: EntryKind, taken_ns: int, fields: dict[str, Any]) -> BoxEntry:
    """Return an entry with a body of JSON."""
    return BoxEntry(kind=kind, taken_ns=taken_ns, body=json_bytes(fields))


def whole_entries(data: bytes) -> Iterator[BoxEntry]:
    """Yield the entries of a file up to the first that is torn or damaged, or that another version wrote."""
    at = 0
    while at + _HEAD.size <= len(data):
        magic, kind, length, crc, taken_ns = _HEAD.unpack_from(data, at)
        at += _HEAD.size
        body = data[at : at + length]
        if magic != _MAGIC or kind not in _KINDS or length > _MAX_BODY_BYTES or len(body) < length:
            return
        if zlib.crc32(body, zlib.crc32(_CHECKED.pack(kind, taken_ns))) != crc:
            return
        at += length
        yield BoxEntry(kind=EntryKind(kind), taken_ns=taken_ns, body=body)


def pack_rows(frame: Frame, *, layout: int, taken_ns: int, first: int = 0) -> BoxEntry:
    """Return the rows of a frame as an entry, without loss.

    `layout` is the number of the set of tables, `first` the number of the first row within its table.

    Each row is kept as its difference (exclusive or) from the row before, byte planes together: what is held from row
    to row becomes zeros.
    """
    patterns = np.ascontiguousarray(frame.values).view(np.uint64).reshape(len(frame), -1)
    steps = patterns.copy()
    steps[1:] ^= patterns[:-1]
    planes = np.ascontiguousarray(steps.T).view(np.uint8).reshape(-1, 8).T
    head = {"table": frame.spec.name, "layout": layout, "rows": len(frame), "first": first}
    parts = (
        json_bytes(head) + b"\n",
        np.diff(frame.time_ns, prepend=np.int64(0)).astype("<i8").tobytes(),
        np.packbits(frame.fresh).tobytes(),
        np.ascontiguousarray(planes).tobytes(),
    )
    return BoxEntry(kind=EntryKind.ROWS, taken_ns=taken_ns, body=zlib.compress(b"".join(parts), _ZLIB_LEVEL))


def place_of_rows(entry: BoxEntry) -> tuple[int, str, int]:
    """Return the layout and the table that rows belong to, and the number of the first, without unpacking them."""
    text = zlib.decompressobj().decompress(entry.body, 512).partition(b"\n")[0]
    head = json.loads(text)
    return head["layout"], head["table"], head["first"]


def unpack_rows(entry: BoxEntry, spec: TableSpec) -> Frame:
    """Return the frame of a `pack_rows` entry."""
    text, _, body = zlib.decompress(entry.body).partition(b"\n")
    n_rows = json.loads(text)["rows"]
    n_cells = spec.shape[0] * spec.shape[1]
    masks_at = 8 * n_rows
    planes_at = masks_at + -(-n_rows * n_cells // 8)
    time_ns = np.cumsum(np.frombuffer(body, "<i8", n_rows), dtype=np.int64)
    bits = np.frombuffer(body, np.uint8, planes_at - masks_at, masks_at)
    fresh = np.unpackbits(bits, count=n_rows * n_cells).astype(np.bool_)
    planes = np.frombuffer(body, np.uint8, 8 * n_rows * n_cells, planes_at).reshape(8, -1)
    steps = np.ascontiguousarray(planes.T).view(np.uint64).reshape(n_cells, n_rows)
    patterns = np.ascontiguousarray(np.bitwise_xor.accumulate(steps, axis=1).T)
    shape = (n_rows, *spec.shape)
    return Frame(
        spec=spec, time_ns=time_ns, values=patterns.view(np.float64).reshape(shape), fresh=fresh.reshape(shape)
    )
