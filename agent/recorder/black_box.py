"""The black box: the newest entries on disk, in segments, so that a kill or a power cut leaves the last minutes.

A segment is a file of entries; each one begins with what is needed to read it alone. Whatever is handed to `append` is
on the device when it returns, as far as the device tells the truth about its cache (`fdatasync(2)`). The oldest
segments go first, by age and by bytes. A disk that is full is said once; what could not be written is owed, and written
when there is room again.
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
    left_entries: int = 0  # how many a run before left in it; none in a segment of this run


@dataclass(slots=True)
class BoxCounts:
    """Counters of the black box: bytes on disk, and bytes and entries that were lost."""

    written_bytes: int = 0
    failed_flushes: int = 0
    flushes_never_written: int = 0
    segments_cut: int = 0


@dataclass(slots=True)
class BlackBox:
    """The segments of one folder; `max_bytes` bounds them and, once more, what is owed in memory.

    What `left` gave stays, up to the bound, until another thread sets `left_is_safe`: it stands in recordings then.
    """

    folder: Path
    max_bytes: int
    counts: BoxCounts = field(default_factory=BoxCounts)
    _segments: deque[_Segment] = field(default_factory=deque)
    _fd: int | None = None
    _owed: deque[bytes] = field(default_factory=deque)
    _owed_bytes: int = 0
    _trouble: str = ""
    _cut_logged: bool = False
    left_is_safe: bool = False

    @property
    def trouble(self) -> str:
        """Reason why writing fails now, empty while it works."""
        return self._trouble

    @property
    def size_bytes(self) -> int:
        """Bytes on disk."""
        return sum(segment.size_bytes for segment in self._segments)

    def left(self) -> tuple[BoxEntry, ...]:
        """Return the entries that a run before left behind, oldest first; new segments come behind theirs."""
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
            segment.left_entries = len(entries)
            self._segments.append(segment)
        return tuple(found)

    def go_on_from(self, n_entries: int) -> None:
        """Take the newest entries of what was left as this run's own: their segments age as those do that follow."""
        for segment in reversed(self._segments):
            if n_entries <= 0:
                return
            n_entries -= segment.left_entries
            segment.left_entries = 0

    def append(
        self, entries: Sequence[BoxEntry], *, opening: Callable[[], Sequence[BoxEntry]], keep_from_ns: int
    ) -> None:
        """Write entries to disk and delete segments that ended before `keep_from_ns`; `opening` begins a segment."""
        if not entries:
            return
        taken_ns = entries[-1].taken_ns
        self._owe(b"".join(entry.to_bytes() for entry in entries))
        try:
            if self._fd is None or taken_ns - self._segments[-1].first_ns >= SEGMENT_NS:
                self._begin(taken_ns, opening())
            self._write(taken_ns)
        except OSError as err:
            self._fail(err)
        else:
            if self._trouble:
                logger.warning("the black box in %s is written again", self.folder)
            self._trouble = ""
        self._let_go(keep_from_ns)

    def forget(self) -> None:
        """Remove every segment: after a clean end nobody needs them."""
        self.close()
        while self._segments:
            self._remove(self._segments[0])

    def close(self) -> None:
        """Close the file that is open; what stands in it stays."""
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
        self._owed.appendleft(b"".join(entry.to_bytes() for entry in opening))
        self._owed_bytes += len(self._owed[0])
        sync_folder(self.folder)

    def _write(self, taken_ns: int) -> None:
        """Write what is owed as one; half of it is taken back."""
        if self._fd is None:
            return
        segment = self._segments[-1]
        data = b"".join(self._owed)
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
        self._owed.clear()
        self._owed_bytes = 0

    def _owe(self, data: bytes) -> None:
        self._owed.append(data)
        self._owed_bytes += len(data)
        while self._owed_bytes > self.max_bytes and len(self._owed) > 1:
            self._owed_bytes -= len(self._owed.popleft())
            self.counts.flushes_never_written += 1

    def _fail(self, err: OSError) -> None:
        self.counts.failed_flushes += 1
        if not self._trouble:
            logger.error("black box %s cannot be written: %s; it goes on in memory", self.folder, err.strerror)
        self._trouble = err.strerror or str(err)
        if self._fd is not None:
            self.close()  # its end may be torn: what follows begins a segment of its own
            if self._segments[-1].size_bytes == 0:
                self._remove_newest()

    def _let_go(self, keep_from_ns: int) -> None:
        for segment in tuple(self._segments)[:-1]:
            # Times of a run before may be of another boot.
            if self.left_is_safe if segment.left_entries else segment.last_ns < keep_from_ns:
                self._remove(segment)
        while len(self._segments) > 1 and self.size_bytes > self.max_bytes:
            self.counts.segments_cut += 1
            if not self._cut_logged:
                logger.warning("the black box holds less than it should: %d bytes are full", self.max_bytes)
            self._cut_logged = True
            self._remove(self._segments[0])

    def _remove(self, segment: _Segment) -> None:
        self._segments.remove(segment)
        segment.path.unlink(missing_ok=True)

    def _remove_newest(self) -> None:
        # The opening is owed to the next segment, which brings its own.
        self._segments.pop().path.unlink(missing_ok=True)
        if self._owed:
            self._owed_bytes -= len(self._owed.popleft())
