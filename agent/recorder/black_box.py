"""The black box: the newest entries on disk, in segments, so that a kill or a power cut leaves the last minutes.

A segment is a file of entries; each one begins with the entries needed to read it alone. Entries of `append` are
on the device when it returns, as far as the device reports its cache correctly (`fdatasync(2)`). The oldest
segments are removed first, by age and by bytes. A full disk is logged once; what could not be written is kept in memory
and written when there is room again.
"""

import logging
import os
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agent.recorder.entries import BoxEntry, whole_entries
from telemetry.atomic_files import sync_folder

logger = logging.getLogger(__name__)

_SUFFIX = ".seg"
# Heuristic: short enough that what goes with the oldest segment is a small part of the minutes that are kept.
SEGMENT_NS = 15_000_000_000


@dataclass(slots=True)
class _Segment:
    path: Path
    first_ns: int
    size_bytes: int = 0
    last_ns: int = 0
    leftover_entries: int = 0  # number of entries of an earlier run; 0 in a segment of this run


@dataclass(slots=True)
class BoxCounts:
    """Counters of the black box: bytes on disk, and bytes and entries that were lost."""

    written_bytes: int = 0
    failed_flushes: int = 0
    flushes_never_written: int = 0
    segments_cut: int = 0


@dataclass(slots=True)
class BlackBox:
    """The segments of one folder; `max_bytes` bounds them and, separately, the unwritten entries in memory.

    Leftovers stay, up to the bound, until another thread sets `leftovers_saved`: they are in a recording then.
    """

    folder: Path
    max_bytes: int
    counts: BoxCounts = field(default_factory=BoxCounts)
    _segments: deque[_Segment] = field(default_factory=deque)
    _fd: int | None = None
    _unwritten: deque[bytes] = field(default_factory=deque)
    _unwritten_bytes: int = 0
    _trouble: str = ""
    _cut_logged: bool = False
    leftovers_saved: bool = False

    @property
    def trouble(self) -> str:
        """Reason why writing fails now, empty while it works."""
        return self._trouble

    @property
    def size_bytes(self) -> int:
        """Bytes on disk."""
        return sum(segment.size_bytes for segment in self._segments)

    def leftovers(self) -> tuple[BoxEntry, ...]:
        """Return the entries of an earlier run, oldest first; new segments follow theirs."""
        found: list[BoxEntry] = []
        for path in sorted(self.folder.glob(f"*{_SUFFIX}")):
            try:
                data = path.read_bytes()
            except OSError as err:
                logger.warning("%s cannot be read: %s", path, err.strerror)
                continue
            entries = list(whole_entries(data))
            found += entries
            first_ns, last_ns = (entries[0].taken_ns, entries[-1].taken_ns) if entries else (0, 0)
            segment = _Segment(path=path, first_ns=first_ns, size_bytes=len(data), last_ns=last_ns)
            segment.leftover_entries = len(entries)
            self._segments.append(segment)
        return tuple(found)

    def resume_from(self, n_entries: int) -> None:
        """Adopt the newest entries of an earlier run: their segments age as those of this run do."""
        for segment in reversed(self._segments):
            if n_entries <= 0:
                return
            n_entries -= segment.leftover_entries
            segment.leftover_entries = 0

    def append(
        self, entries: Sequence[BoxEntry], *, opening: Callable[[], Sequence[BoxEntry]], keep_from_ns: int
    ) -> None:
        """Write entries to disk and delete segments that ended before `keep_from_ns`; `opening` begins a segment."""
        if not entries:
            return
        taken_ns = entries[-1].taken_ns
        self._queue_unwritten(b"".join(entry.to_bytes() for entry in entries))
        try:
            if self._fd is None or taken_ns - self._segments[-1].first_ns >= SEGMENT_NS:
                self._begin(taken_ns, opening())
            self._write(taken_ns)
        except OSError as err:
            self._fail(err)
        else:
            if self._trouble:
                logger.warning("black box in %s is writable again", self.folder)
            self._trouble = ""
        self._drop_old(keep_from_ns)

    def forget(self) -> None:
        """Remove every segment, after a clean end."""
        self.close()
        while self._segments:
            self._remove(self._segments[0])

    def close(self) -> None:
        """Close the open segment and keep it."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _begin(self, taken_ns: int, opening: Sequence[BoxEntry]) -> None:
        self.close()
        self.folder.mkdir(mode=0o750, parents=True, exist_ok=True)
        number = 1 + (int(self._segments[-1].path.stem) if self._segments else 0)
        path = self.folder / f"{number:08d}{_SUFFIX}"
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o640)
        self._segments.append(_Segment(path=path, first_ns=taken_ns))
        self._unwritten.appendleft(b"".join(entry.to_bytes() for entry in opening))
        self._unwritten_bytes += len(self._unwritten[0])
        sync_folder(self.folder)

    def _write(self, taken_ns: int) -> None:
        """Write the unwritten entries at once; a partial write is truncated."""
        if self._fd is None:
            return
        segment = self._segments[-1]
        data = b"".join(self._unwritten)
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._fd, view) :]
            os.fdatasync(self._fd)
        except OSError:
            os.ftruncate(self._fd, segment.size_bytes)
            raise
        segment.size_bytes += len(data)
        segment.last_ns = taken_ns
        self.counts.written_bytes += len(data)
        self._unwritten.clear()
        self._unwritten_bytes = 0

    def _queue_unwritten(self, data: bytes) -> None:
        self._unwritten.append(data)
        self._unwritten_bytes += len(data)
        while self._unwritten_bytes > self.max_bytes and len(self._unwritten) > 1:
            self._unwritten_bytes -= len(self._unwritten.popleft())
            self.counts.flushes_never_written += 1

    def _fail(self, err: OSError) -> None:
        self.counts.failed_flushes += 1
        if not self._trouble:
            logger.error("cannot write black box %s: %s; continuing in memory", self.folder, err.strerror)
        self._trouble = err.strerror or str(err)
        if self._fd is not None:
            self.close()  # its end may be torn: what follows begins a segment of its own
            if self._segments[-1].size_bytes == 0:
                self._remove_newest()

    def _drop_old(self, keep_from_ns: int) -> None:
        for segment in tuple(self._segments)[:-1]:
            # Times of a run before may be of another boot.
            if self.leftovers_saved if segment.leftover_entries else segment.last_ns < keep_from_ns:
                self._remove(segment)
        while len(self._segments) > 1 and self.size_bytes > self.max_bytes:
            self.counts.segments_cut += 1
            if not self._cut_logged:
                logger.warning("black box is shorter than configured: limit of %d bytes reached", self.max_bytes)
            self._cut_logged = True
            self._remove(self._segments[0])

    def _remove(self, segment: _Segment) -> None:
        self._segments.remove(segment)
        segment.path.unlink(missing_ok=True)

    def _remove_newest(self) -> None:
        # The next segment has an opening of its own.
        self._segments.pop().path.unlink(missing_ok=True)
        if self._unwritten:
            self._unwritten_bytes -= len(self._unwritten.popleft())
