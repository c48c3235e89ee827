"""Files that get their name only when all of them are complete."""

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from telemetry.errors import ConfigError, EnvironmentLacksError, Problem
from telemetry.recording import SUFFIXES
from telemetry.recording_files import Header, RowWriter, open_writer

TRUTH_SUFFIXES = (".json", *SUFFIXES)


class Draft:
    """A file under a name of its own until everything is written.

    Attributes
    ----------
    writer
        Takes rows; None for a document.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._draft = path.with_name(f".{path.name}.part")
        self.writer: RowWriter | None = None
        if path.suffix in SUFFIXES:
            self.writer = open_writer(self._draft, suffix=path.suffix)
        else:
            self._draft.touch()
        self._open = self.writer is not None

    def end(self, header: Header) -> None:
        """Write what is known about the rows."""
        if self.writer is not None:
            self._open = False
            self.writer.close(header)

    def write_text(self, text: str) -> None:
        """Write a document."""
        self._draft.write_text(text, encoding="utf-8")

    def name(self) -> None:
        """Give the file its name; what had that name before is replaced."""
        self._draft.replace(self.path)

    def drop(self) -> None:
        """Take everything back."""
        if self._open and self.writer is not None:
            self._open = False
            with contextlib.suppress(OSError, ValueError):  # a full disk stays full; the file goes anyway
                self.writer.close({})
        self._draft.unlink(missing_ok=True)


@contextlib.contextmanager
def drafts(paths: Sequence[Path]) -> Iterator[list[Draft]]:
    """Give a draft for each path; all get their names at the end, or none is left when anything is raised.

    Raises
    ------
    EnvironmentLacksError
        One of the files cannot be written.
    """
    opened: list[Draft] = []
    try:
        for path in paths:
            opened.append(Draft(path))  # noqa: PERF401 -- those before a failure have to be dropped
        yield opened
        for draft in opened:
            draft.name()
    except OSError as err:
        names = ", ".join(map(str, paths))
        reason = os.strerror(err.errno) if err.errno else err
        raise EnvironmentLacksError(f"{names}: cannot be written: {reason}") from err
    finally:
        for draft in opened:
            draft.drop()


def check_outputs(out: Path, truth: Path | None) -> None:
    """Refuse file names that say no known format, or the same file twice, with a ConfigError of every problem."""
    problems = []
    for option, path, suffixes in (("--out", out, SUFFIXES), ("--truth", truth, TRUTH_SUFFIXES)):
        if path is not None and path.suffix not in suffixes:
            found = f"ends in {path.suffix!r}" if path.suffix else "has no suffix"
            problems.append(
                Problem(where=option, line=None, key=str(path), found=found, expected=" or ".join(suffixes))
            )
        if path is not None and path.is_dir():
            problems.append(Problem(where=option, line=None, key=str(path), found="a folder", expected="a file"))
    if truth is not None and truth.absolute() == out.absolute():
        problems.append(
            Problem(where="--truth", line=None, key=str(truth), found="the file of --out", expected="another file")
        )
    if problems:
        raise ConfigError(problems)
