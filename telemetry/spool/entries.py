"""Format of an entry in a segment: length and checksum first, so that a torn entry is detected."""

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from telemetry.store.resolution import Resolution

# Magic, length of the body, checksum of the second head and the body.
_HEAD = struct.Struct("<4sII")
# Resolution, points, newest stamp.
_ABOUT = struct.Struct("<BIq")
_MAGIC = b"RWS1"
_RESOLUTIONS = tuple(Resolution)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpoolEntry:
    """One batch of lines; `segment` and `end` are its place, `newest_ns` the stamp of its newest point."""

    segment: int
    end: int
    resolution: Resolution
    points: int
    newest_ns: int
    body: bytes


def frame_entry(resolution: Resolution, body: bytes, *, points: int, newest_ns: int) -> bytes:
    """Return the bytes of one entry."""
    about = _ABOUT.pack(_RESOLUTIONS.index(resolution), points, newest_ns)
    return _HEAD.pack(_MAGIC, len(body), zlib.crc32(body, zlib.crc32(about))) + about + body


def read_entries(path: Path, segment: int, *, start: int, stop: int) -> Iterator[SpoolEntry]:
    """Yield the entries from `start` to `stop`, the end of the file or the first bad entry."""
    at, head_bytes = start, _HEAD.size + _ABOUT.size
    with path.open("rb") as source:
        source.seek(start)
        while at < stop:
            head = source.read(head_bytes)
            if len(head) < head_bytes:
                return
            at += head_bytes
            magic, length, checksum = _HEAD.unpack_from(head)
            if magic != _MAGIC or length > stop - at:
                return
            body = source.read(length)
            about = head[_HEAD.size :]
            if len(body) < length or zlib.crc32(body, zlib.crc32(about)) != checksum:
                return
            at += length
            index, points, newest_ns = _ABOUT.unpack(about)
            yield SpoolEntry(
                segment=segment,
                end=at,
                resolution=_RESOLUTIONS[index],
                points=points,
                newest_ns=newest_ns,
                body=body,
            )
