"""Buffer of the newest entries in memory, from which recordings are built whatever the disk does."""

from collections import deque
from dataclasses import dataclass, field

from agent.recorder.entries import BoxEntry


@dataclass(slots=True)
class EntryBuffer:
    """Entries by the time at which they were taken, at most `max_bytes` of them.

    Times are monotonic, so a wall clock that is stepped moves no window. `cut_bytes` counts entries that were dropped
    although they were still wanted, the newest of them taken at `cut_until_ns`.
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
        """Packed size of the entries."""
        return self._size_bytes

    def add(self, entry: BoxEntry) -> None:
        """Add an entry; drop the oldest above `max_bytes`."""
        self._entries.append(entry)
        self._size_bytes += len(entry.body)
        while self._size_bytes > self.max_bytes and len(self._entries) > 1:
            self.cut_until_ns = self._entries[0].taken_ns
            self.cut_bytes += self._drop()

    def drop_before(self, keep_from_ns: int) -> None:
        """Drop the entries taken before that time."""
        while self._entries and self._entries[0].taken_ns < keep_from_ns:
            self._drop()

    def between(self, first_ns: int, last_ns: int) -> tuple[BoxEntry, ...]:
        """Return the entries taken from `first_ns` to `last_ns`, oldest first."""
        return tuple(entry for entry in self._entries if first_ns <= entry.taken_ns <= last_ns)

    def _drop(self) -> int:
        size_bytes = len(self._entries.popleft().body)
        self._size_bytes -= size_bytes
        return size_bytes
