"""Spool: encoded lines on disk that wait for the store, in order, bounded, safe against a killed process.

Entries are appended to numbered segment files. Each has its length and a checksum, so that the torn end after a kill
or a power cut is found and cut off. Entries that the store has taken are acknowledged: the read position moves on, and
finished segments are deleted. A crash between the store's reply and the acknowledgement sends an entry again, which
changes nothing, because a store keeps one point per series and time.

When the bound is reached, or the disk is full, the oldest segment is dropped, and its points are counted.
"""

import contextlib
import fcntl
import json
import logging
import os
import struct
import threading
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from telemetry.atomic_files import replace_file
from telemetry.errors import EnvironmentLacksError
from telemetry.json_text import json_bytes
from telemetry.line_protocol import count_lines
from telemetry.rollup import Resolution

_log = logging.getLogger(__name__)

DEFAULT_MAX_BYTES = 256 << 20
# One overflow drops at most an eighth of the bound.
_SEGMENTS = 8
_POSITION = "position.json"

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


@dataclass(frozen=True, slots=True, kw_only=True)
class SpoolStatus:
    """Points that wait in the spool, and those dropped since its directory was created.

    `oldest_ns` is the newest stamp of the oldest waiting entry, None where nothing waits.
    """

    waiting_bytes: int
    waiting_points: int
    dropped_points: int
    torn_bytes: int
    oldest_ns: int | None


@dataclass(slots=True)
class _Segment:
    number: int
    path: Path
    size: int = 0
    unsent_points: int = 0


class Spool:
    """Directory of segments, for one process; every method may be called from any thread.

    Parameters
    ----------
    directory
        Created if missing.
    max_bytes
        Bound of the segments on disk.

    Raises
    ------
    EnvironmentLacksError
        The directory cannot be written, or another process uses it.
    """

    def __init__(self, directory: Path, *, max_bytes: int = DEFAULT_MAX_BYTES) -> None:
        self._directory = directory
        self._max_bytes = max_bytes
        self._segment_bytes = max(1, max_bytes // _SEGMENTS)
        self._changed = threading.Condition()
        self._dropped_points = 0
        self._torn_bytes = 0
        self._read_offset = 0
        self._oldest_ns: int | None = None
        self._segments: list[_Segment] = []
        self._open()

    def append(self, resolution: Resolution, body: bytes, *, newest_ns: int) -> bool:
        """Append encoded lines; False where the disk could not take them, which is counted.

        They survive a kill of this process at once, and a power cut after the next `sync`.
        """
        points = count_lines(body)
        if not points:
            return True
        record = frame_entry(resolution, body, points=points, newest_ns=newest_ns)
        with self._changed:
            kept = len(record) <= self._max_bytes and self._append(record, points)
            if not kept:
                self._dropped_points += points
                self._save_position()
            self._changed.notify_all()
            return kept

    def sync(self) -> None:
        """Sync appended lines to the disk; once per second is enough. A failing disk shows at the next append."""
        with self._changed, contextlib.suppress(OSError):
            os.fdatasync(self._file)

    def peek(self, *, max_points: int) -> tuple[SpoolEntry, ...]:
        """Return the oldest entries that are not acknowledged: at least one if any waits, then up to `max_points`."""
        with self._changed:
            found: list[SpoolEntry] = []
            offset, points = self._read_offset, 0
            for segment in self._segments:
                own_points = 0
                for entry in read_entries(segment.path, segment.number, start=offset, stop=segment.size):
                    if found and points + entry.points > max_points:
                        return tuple(found)
                    found.append(entry)
                    points += entry.points
                    own_points += entry.points
                    offset = entry.end
                if offset < segment.size:
                    self._cut(segment, offset, own_points)
                offset = 0
            return tuple(found)

    def ack(self, entries: Sequence[SpoolEntry]) -> None:
        """Remove entries that the store has taken; they must be what `peek` returned, from the first on."""
        with self._changed:
            for entry in entries:
                if entry.segment < self._segments[0].number:
                    # Dropped while it was being sent: it did arrive.
                    self._dropped_points -= entry.points
                    continue
                while self._segments[0].number < entry.segment:
                    self._remove_first()
                self._read_offset = entry.end
                self._segments[0].unsent_points -= entry.points
            if len(self._segments) > 1 and self._read_offset >= self._segments[0].size:
                self._remove_first()
            self._oldest_ns = None
            self._save_position()

    def wait(self, timeout_s: float) -> None:
        """Return when something is appended, at the latest after the time-out."""
        with self._changed:
            self._changed.wait(timeout_s)

    def wake(self) -> None:
        """Wake every `wait`."""
        with self._changed:
            self._changed.notify_all()

    def status(self) -> SpoolStatus:
        """Return the status."""
        with self._changed:
            waiting = sum(segment.unsent_points for segment in self._segments)
            if waiting and self._oldest_ns is None:
                first = self.peek(max_points=1)
                self._oldest_ns = first[0].newest_ns if first else None
            return SpoolStatus(
                waiting_bytes=max(0, sum(segment.size for segment in self._segments) - self._read_offset),
                waiting_points=waiting,
                dropped_points=self._dropped_points,
                torn_bytes=self._torn_bytes,
                oldest_ns=self._oldest_ns if waiting else None,
            )

    def close(self) -> None:
        """Sync to the disk and release the directory."""
        self.sync()
        with self._changed:
            os.close(self._file)
            os.close(self._lock)

    # -- opening ------------------------------------------------------------------------------------------------

    def _open(self) -> None:
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(self._directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as err:
            raise EnvironmentLacksError(f"{self._directory}: cannot be used as spool: {err.strerror}") from err
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._load()
            self._file = self._open_last()
        except OSError as err:
            os.close(self._lock)
            reason = "in use by another process" if isinstance(err, BlockingIOError) else err.strerror
            raise EnvironmentLacksError(f"{self._directory}: cannot be used as spool: {reason}") from err

    def _load(self) -> None:
        first, offset = self._read_position()
        found = sorted(self._directory.glob("*.spool"))
        own = [path for path in found if path.stem.isascii() and path.stem.isdigit() and path.is_file()]
        if foreign := [path.name for path in found if path not in own]:
            _log.warning("%s: ignoring files that are not segments: %s", self._directory, ", ".join(foreign))
        for path in own:
            number = int(path.stem)
            if number < first:
                path.unlink()
                continue
            segment = _Segment(number=number, path=path, size=path.stat().st_size)
            self._segments.append(segment)
            start = valid = min(offset, segment.size) if number == first else 0
            for entry in read_entries(path, number, start=start, stop=segment.size):
                segment.unsent_points += entry.points
                valid = entry.end
            if valid < segment.size:
                self._cut(segment, valid, segment.unsent_points)
        if not self._segments:
            self._segments.append(self._new_segment(first))
        self._read_offset = min(offset, self._segments[0].size) if self._segments[0].number == first else 0

    def _new_segment(self, number: int) -> _Segment:
        return _Segment(number=number, path=self._directory / f"{number:012d}.spool")

    def _open_last(self) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        return os.open(self._segments[-1].path, flags, 0o600)

    def _read_position(self) -> tuple[int, int]:
        try:
            position = json.loads((self._directory / _POSITION).read_text())
            self._dropped_points = int(position["dropped_points"])
            return int(position["segment"]), int(position["offset"])
        except (OSError, ValueError, KeyError, TypeError):
            # Missing, or torn by a power cut: sending from the oldest entry on is correct, though some go twice.
            return 0, 0

    def _save_position(self) -> None:
        position = {
            "segment": self._segments[0].number,
            "offset": self._read_offset,
            "dropped_points": self._dropped_points,
        }
        # On a full disk the position stays behind, and entries are sent again after a restart.
        with contextlib.suppress(OSError):
            replace_file(self._directory / _POSITION, json_bytes(position), synced=False)

    # -- growing and shrinking ----------------------------------------------------------------------------------

    def _append(self, record: bytes, points: int) -> bool:
        while sum(segment.size for segment in self._segments) + len(record) > self._max_bytes and self._drop_first():
            pass
        try:
            if self._segments[-1].size and self._segments[-1].size + len(record) > self._segment_bytes:
                self._rotate()
            self._write(record)
        except OSError:
            if not self._drop_first():
                return False
            try:
                self._write(record)
            except OSError:
                return False
        last = self._segments[-1]
        last.size += len(record)
        last.unsent_points += points
        return True

    def _write(self, record: bytes) -> None:
        last = self._segments[-1]
        left = memoryview(record)
        try:
            while left:
                left = left[os.write(self._file, left) :]
        except OSError:
            # Half an entry must not precede the next one.
            os.ftruncate(self._file, last.size)
            raise

    def _rotate(self) -> None:
        following = self._new_segment(self._segments[-1].number + 1)
        self._segments.append(following)
        try:
            opened = self._open_last()
        except OSError:
            self._segments.pop()
            raise
        with contextlib.suppress(OSError):
            os.fdatasync(self._file)
        os.close(self._file)
        self._file = opened

    def _drop_first(self) -> bool:
        """Drop the oldest segment; False if the only segment is the one being written and it is empty."""
        if len(self._segments) == 1:
            if not self._segments[0].size:
                return False
            try:
                self._rotate()
            except OSError:
                return False
        self._dropped_points += self._segments[0].unsent_points
        self._remove_first()
        self._save_position()
        return True

    def _remove_first(self) -> None:
        gone = self._segments.pop(0)
        self._read_offset = 0
        self._oldest_ns = None
        gone.path.unlink(missing_ok=True)

    def _cut(self, segment: _Segment, valid: int, points: int) -> None:
        """Cut a segment at its first bad entry: torn by a kill, or changed on the disk since."""
        self._torn_bytes += segment.size - valid
        self._dropped_points += segment.unsent_points - points
        segment.size, segment.unsent_points = valid, points
        os.truncate(segment.path, valid)
