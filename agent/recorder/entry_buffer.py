"""The newest entries in memory: what a recording is made of, whatever the disk does."""

from collections import deque
from dataclasses import dataclass, field

from agent.recorder.entries import BoxEntry


@dataclass(slots=True)
class EntryBuffer:
    """Entries by the time at which they were taken, at most `max_bytes` of them.

    Times are monotonic, so a wall clock that is stepped moves no window. `cut_bytes` counts what had to go although
    it was still wanted, the newest of it taken at `cut_until_ns`.
    """

    max_bytes: int
    cut_bytes: int = 0
    cut_until_ns: int = 0
    _entries: deque[BoxEntry] = field(default_factory=deque)
    _size_bytes: int = 0

    def __len__(self) -> int:
        """Return the number of entries."""
        return len(self._entries)

    @property
    def size_bytes(self) -> int:
        """The packed size of what is kept."""
        return self._size_bytes

    def add(self, entry: BoxEntry) -> None:
        """Keep an entry; where the bytes are full the oldest go."""
        self._entries.append(entry)
        self._size_bytes += len(entry.body)
        while self._size_bytes > self.max_bytes and len(self._entries) > 1:
            self.cut_until_ns = self._entries[0].taken_ns
            self.cut_bytes += self._drop()

    def let_go(self, keep_from_ns: int) -> None:
        """Drop what was taken before that time."""
        while self._entries and self._entries[0].taken_ns < keep_from_ns:
            self._drop()

    def between(self, first_ns: int, last_ns: int) -> tuple[BoxEntry, ...]:
        """Return the entries taken from `first_ns` to `last_ns`, oldest first."""
        return tuple(entry for entry in self._entries if first_ns <= entry.taken_ns <= last_ns)

    def _drop(self) -> int:
        size_bytes = len(self._entries.popleft().body)
        self._size_bytes -= size_bytes
        return size_bytes
