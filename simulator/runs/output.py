"""Files that a run writes, recordings and truth; they get their names only when all of them are complete."""

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from simulator.runs.stream import RowStream
from telemetry.entities import Topology
from telemetry.errors import ConfigError, EnvironmentLacksError, Problem
from telemetry.frames import TableSpec
from telemetry.recording import SUFFIXES, RecordingMeta, header_of
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
        """Pass the file its name; what had that name before is replaced."""
        self._draft.replace(self.path)

    def drop(self) -> None:
        """Undo everything."""
        if self._open and self.writer is not None:
            self._open = False
            with contextlib.suppress(OSError, ValueError):  # a full disk stays full; the file goes anyway
                self.writer.close({})
        self._draft.unlink(missing_ok=True)


@contextlib.contextmanager
def drafts(paths: Sequence[Path]) -> Iterator[list[Draft]]:
    """Return a draft for each path; all get their names at the end, or none is left when anything is raised.

    Raises
    ------
    EnvironmentLacksError
        One of the files cannot be written.
    """
    opened: list[Draft] = []
    concerned: Sequence[Path] = paths
    try:
        for path in paths:
            concerned = [path]
            opened.append(Draft(path))
        concerned = paths
        yield opened
        for draft in opened:
            draft.name()
    except OSError as err:
        names = ", ".join(map(str, concerned))
        reason = os.strerror(err.errno) if err.errno else err
        raise EnvironmentLacksError(f"{names}: cannot be written: {reason}") from err
    finally:
        for draft in opened:
            draft.drop()


def node_paths(out: Path, nodes: int) -> list[Path]:
    """Return the paths of the recordings of a rack's nodes, in one folder: ``rack.node0.parquet`` and so on."""
    return [out.with_name(f"{out.stem}.node{number}{out.suffix}") for number in range(nodes)]


def check_outputs(out: Path, truth: Path | None) -> None:
    """Refuse file names without a known format with a ConfigError of every problem."""
    problems = []
    for option, path, suffixes in (("--out", out, SUFFIXES), ("--truth", truth, TRUTH_SUFFIXES)):
        if path is not None and path.suffix not in suffixes:
            found = f"ends in {path.suffix!r}" if path.suffix else "has no suffix"
            problems.append(_problem(option, path, found, " or ".join(suffixes)))
    if problems:
        raise ConfigError(problems)


def check_places(recordings: Sequence[Path], truth: Path | None, *, replaces: bool) -> None:
    """Refuse folders in place of files, files that exist unless `replaces`, and the same file twice.

    Raises a ConfigError of every problem.
    """
    asked = [("--out", path) for path in recordings]
    if truth is not None:
        asked.append(("--truth", truth))
    problems = [_problem(option, path, "a folder", "a file") for option, path in asked if path.is_dir()]
    if not replaces:
        there = [(option, path) for option, path in asked if path.is_file()]
        problems += [_problem(option, path, "exists", "a new file name, or --force") for option, path in there]
    if truth is not None and truth.absolute() in [path.absolute() for path in recordings]:
        problems.append(_problem("--truth", truth, "the file of --out", "another file"))
    if problems:
        raise ConfigError(problems)


def _problem(option: str, path: Path, found: str, expected: str) -> Problem:
    return Problem(where=option, line=None, key=str(path), found=found, expected=expected)


class RecordingFile:
    """A recording that is being written.

    Attributes
    ----------
    rows
        Takes its rows.
    """

    def __init__(self, draft: Draft) -> None:
        if draft.writer is None:
            raise ValueError("a recording has rows")
        self._draft = draft
        self.rows = RowStream(draft.writer)

    def end(self, tables: Sequence[TableSpec], *, topology: Topology, meta: RecordingMeta) -> None:
        """Write the last rows, and what is known of all of them."""
        self.rows.flush()
        self._draft.end(header_of(tables, topology=topology, meta=meta))


class TruthFile:
    """Truth on its way into a file: a document, or series in the form of a recording; nothing without a draft.

    Attributes
    ----------
    series
        File of the series; None where none was requested.
    """

    def __init__(self, draft: Draft | None) -> None:
        self._draft = draft
        self.series = None if draft is None or draft.writer is None else RecordingFile(draft)

    def end(self, tables: Sequence[TableSpec], *, topology: Topology, meta: RecordingMeta, document: str) -> None:
        """Write what was asked for."""
        if self.series is not None:
            self.series.end(tables, topology=topology, meta=meta)
        elif self._draft is not None:
            self._draft.write_text(document)


@contextlib.contextmanager
def run_files(recordings: Sequence[Path], truth: Path | None) -> Iterator[tuple[list[RecordingFile], TruthFile]]:
    """Return the files of a run to write to; all get their names at the end, or none is left when anything is raised.

    Raises
    ------
    EnvironmentLacksError
        One of the files cannot be written.
    """
    paths = [*recordings, *([] if truth is None else [truth])]
    with drafts(paths) as opened:
        files = [RecordingFile(draft) for draft in opened[: len(recordings)]]
        yield files, TruthFile(None if truth is None else opened[-1])
