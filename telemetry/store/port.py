"""What the rest of the house needs of a store, in its words.

`telemetry.store.embedded` keeps everything in files beside the agent; `telemetry.store.influx` reads the same samples
out of a server; `telemetry.store.records` keeps the records of the loop, server or not.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Protocol

from telemetry.entities import EntityKind
from telemetry.frames import Frame
from telemetry.records import Record


class Resolution(StrEnum):
    """Every sensor update, or one row a second; also the name of the retention policy or bucket."""

    RAW = "raw"
    ROLLUP = "rollup"


class SampleStore(Protocol):
    """Takes samples in; TransientError where they could not be kept now."""

    def write_raw(self, frames: Sequence[Frame]) -> None:
        """Keep frames as they came from the sampler, ascending in time per table."""
        ...

    def write_rollups(self, frames: Sequence[Frame]) -> None:
        """Keep frames from `telemetry.rollup`, whose signals are named ``<signal>_mean`` and so on."""
        ...


class SeriesReader(Protocol):
    """Gives samples back; TransientError where the store does not answer now."""

    def series(
        self, kind: EntityKind, signals: Sequence[str], *, start_ns: int, stop_ns: int, resolution: Resolution
    ) -> Frame:
        """Return the signals of every entity of one kind over ``[start_ns, stop_ns)``.

        `signals` are names of the catalogue for raw samples (``power_w``) and names of statistics for rollups
        (``power_w_mean``). A row stands wherever one of them has a value; NaN and not fresh where there is none at
        that time. No entity that was seen in the stretch is left out; a frame without rows is no error.
        """
        ...

    def latest(self, kind: EntityKind, *, since_ns: int) -> Frame:
        """Return the newest known value of every signal under its catalogue name, as one row or none.

        The row's time is that of the newest value. Nothing older than `since_ns` counts.
        """
        ...


class RecordStore(Protocol):
    """Keeps every version of every record; the newest version is what a record is."""

    def append(self, records: Sequence[Record]) -> None:
        """Keep records, all or none; TransientError where they could not be kept now."""
        ...

    def find(
        self,
        record_type: str | None = None,
        *,
        since_ns: int = 0,
        limit: int = 100,
        where: Mapping[str, str] | None = None,
    ) -> tuple[Record, ...]:
        """Return newest versions, newest first, that changed at or after `since_ns`.

        `record_type` is a key of `telemetry.records.RECORD_TYPES`, None for all. `where` compares top fields of the
        newest version, such as ``{"state": "open"}``.
        """
        ...

    def get(self, record_id: str) -> Record | None:
        """Return the newest version of a record, None where no record has this id."""
        ...

    def history(self, record_id: str) -> tuple[Record, ...]:
        """Return every kept version of a record, oldest first."""
        ...
