"""A kernel log in the form of ``/dev/kmsg``: ``priority,sequence,microseconds,flags;text``.

Documentation/ABI/testing/dev-kmsg. The priority's low three bits are the level and the rest the facility, which is 0
for what the kernel itself says.
"""

from collections.abc import Iterable
from io import FileIO
from pathlib import Path

from simulator.served.kernel_lines import Line


class KernelLog:
    """Appends records to a file, each with one write."""

    def __init__(self, path: Path) -> None:
        path.unlink(missing_ok=True)
        self._file = FileIO(path, "a")
        self._sequence = 0

    def write(self, lines: Iterable[Line], *, time_us: int) -> None:
        """Append lines of the kernel's own facility."""
        for line in lines:
            self._file.write(f"{line.level},{self._sequence},{time_us},-;{line.text}\n".encode())
            self._sequence += 1

    def close(self) -> None:
        """Close the file."""
        self._file.close()
