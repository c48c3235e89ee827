"""Files that a run writes: recordings, and the truth."""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from simulator.runs.output import Draft, drafts
from simulator.runs.stream import RowStream
from telemetry.entities import Topology
from telemetry.frames import TableSpec
from telemetry.recording import RecordingMeta, header_of


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
        Where the series go; None where nobody asked for them.
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
