"""Progress of rehearsals: each process writes a mark per simulated second."""

from collections.abc import Callable
from pathlib import Path
from types import TracebackType

_MARK = b"."
MS_PER_S = 1000


class Marks:
    """The marks of one run, in a file of its own; where there is no folder none are left."""

    def __init__(self, folder: Path | None, name: str) -> None:
        self._file = None if folder is None else (folder / name).open("wb", buffering=0)
        self._made_s = 0

    def __enter__(self) -> Callable[[int], None]:
        """Return what is to be told of the time that has passed in the simulation, in milliseconds."""
        return self._reached

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()

    def _reached(self, now_ms: int) -> None:
        now_s = now_ms // MS_PER_S
        if self._file is not None and now_s > self._made_s:
            self._file.write(_MARK * (now_s - self._made_s))
            self._made_s = now_s


def simulated_s(folder: Path) -> int:
    """Return how many seconds all runs that leave their marks in a folder have simulated."""
    return sum(file.stat().st_size for file in folder.iterdir())
