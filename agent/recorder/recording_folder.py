"""The folder of recordings: written whole or not at all, and bounded; the oldest go first."""

import contextlib
import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from agent.recorder.unpacking import RecordingContents
from telemetry.clock import NS_PER_S
from telemetry.commands import Command
from telemetry.errors import EnvironmentLacksError
from telemetry.recording import RecordingMeta, write_recording
from telemetry.records import Event, Record

logger = logging.getLogger(__name__)

_SUFFIX = ".parquet"
_NAME_MAX = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingJob:
    """Recording to write: its contents, its metadata, and its name without a suffix."""

    name: str
    contents: RecordingContents
    meta: RecordingMeta


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenRecording:
    """Recording that was written, and the names of those that were removed to make room."""

    path: Path
    rows: int
    size_bytes: int
    removed: tuple[str, ...]


@dataclass(slots=True)
class RecordingFolder:
    """Recordings of one folder, at most `max_bytes` together."""

    folder: Path
    max_bytes: int

    def write(self, job: RecordingJob) -> WrittenRecording:
        """Write a recording and make room for it; EnvironmentLacksError where it cannot be written."""
        self.sweep_drafts()
        try:
            self.folder.mkdir(mode=0o750, parents=True, exist_ok=True)
        except OSError as err:
            raise EnvironmentLacksError(f"{self.folder}: {err.strerror}; expected a folder for recordings") from err
        path = self._free_path(job.name)
        contents = job.contents
        about = {**job.meta.about, "first_rows": contents.first_rows, "event_order": event_order(contents.records)}
        rows = write_recording(
            path,
            contents.frames(),
            topology=contents.topology,
            meta=job.meta.with_about(about),
            records=contents.records,
            kernel_lines=contents.kernel_lines,
        )
        return WrittenRecording(path=path, rows=rows, size_bytes=path.stat().st_size, removed=self._make_room(path))

    def sweep_drafts(self) -> None:
        """Remove drafts that a kill left behind: one process writes here, and it writes none now."""
        for draft in self.folder.glob(f".*{_SUFFIX}.part"):
            draft.unlink(missing_ok=True)

    def _free_path(self, name: str) -> Path:
        path, number = self.folder / f"{name}{_SUFFIX}", 2
        while path.exists():
            path, number = self.folder / f"{name}-{number}{_SUFFIX}", number + 1
        return path

    def _make_room(self, newest: Path) -> tuple[str, ...]:
        """Remove the oldest until the bound is kept; the newest stays whatever its size, and what cannot be removed."""
        sizes: dict[Path, os.stat_result] = {}
        for path in self.folder.glob(f"*{_SUFFIX}"):
            with contextlib.suppress(OSError):  # a person has removed it meanwhile
                sizes[path] = path.stat()
        total_bytes = sum(status.st_size for status in sizes.values())
        gone: list[str] = []
        for path, status in sorted(sizes.items(), key=lambda item: (item[1].st_mtime_ns, item[0].name)):
            if total_bytes <= self.max_bytes:
                break
            if path == newest:
                continue
            try:
                path.unlink(missing_ok=True)
            except OSError as err:
                logger.warning("%s cannot be removed: %s", path, err.strerror)
                continue
            total_bytes -= status.st_size
            gone.append(path.name)
        return tuple(gone)


def event_order(records: Sequence[Record]) -> list[int]:
    """Return for each event and command, in the order of the journal, its place among them by time."""
    reports = [record for record in records if isinstance(record, Event | Command)]
    by_time = sorted(range(len(reports)), key=lambda place: reports[place].time_ns)
    places = {place: number for number, place in enumerate(by_time)}
    return [places[place] for place in range(len(reports))]


def name_of(what: str, time_ns: int) -> str:
    """Return the name of a recording: time and trigger."""
    stamp = datetime.fromtimestamp(time_ns // NS_PER_S, tz=UTC).strftime("%Y%m%dT%H%M%SZ")
    trigger = "".join(letter if letter.isalnum() or letter in "-_" else "-" for letter in what)[:_NAME_MAX]
    return f"{stamp}-{trigger}"
