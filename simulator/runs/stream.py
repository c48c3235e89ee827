"""Rows that come in no particular order, written in the order of time, a group at a time."""

from collections.abc import Sequence

import numpy as np

from simulator.plant.state import CountArray
from telemetry.frames import FloatArray
from telemetry.recording_files import RowWriter
from telemetry.recording_rows import Place, RecordingRows, in_order

GROUP_ROWS = 100_000  # a Parquet row group of about half a megabyte
_NO_COUNTS: CountArray = np.empty(0, dtype=np.int64)
_NO_VALUES: FloatArray = np.empty(0)


class RowStream:
    """Gathers rows and hands them to a writer; holds one group in memory.

    Attributes
    ----------
    rows
        How many were added so far.
    """

    def __init__(self, writer: RowWriter) -> None:
        self._writer = writer
        self._places: list[Place] = []
        self._numbers: dict[Place, int] = {}
        self._times: list[CountArray] = []
        self._codes: list[CountArray] = []
        self._values: list[FloatArray] = []
        self._texts: list[RecordingRows] = []
        self._waiting = 0
        self.rows = 0

    def places(self, places: Sequence[Place]) -> CountArray:
        """Return the numbers under which samples of these places are added."""
        for place in places:
            if place not in self._numbers:
                self._numbers[place] = len(self._places)
                self._places.append(place)
        return np.array([self._numbers[place] for place in places], dtype=np.int64)

    def add(self, time_ns: CountArray, place: CountArray, value: FloatArray) -> None:
        """Add samples, all arrays ``(n,)``; the stream keeps them as they are."""
        self._times.append(time_ns)
        self._codes.append(place)
        self._values.append(value)
        self._waiting += len(time_ns)
        self.rows += len(time_ns)

    def add_rows(self, rows: RecordingRows) -> None:
        """Add rows of any kind."""
        self._texts.append(rows)
        self._waiting += len(rows)
        self.rows += len(rows)

    def flush(self, *, before_ns: int | None = None) -> None:
        """Write what is older than `before_ns` where a group is full; everything where there is no such time."""
        if not self._waiting or (before_ns is not None and self._waiting < GROUP_ROWS):
            return
        rows = in_order([self._samples(), *self._texts])
        split = len(rows) if before_ns is None else int(np.searchsorted(rows.time_ns, before_ns))
        if split:
            self._writer.write(rows.taken(slice(0, split)))
        rest = rows.taken(slice(split, len(rows)))
        self._times, self._codes, self._values = [], [], []
        self._texts = [rest] if len(rest) else []
        self._waiting = len(rest)

    def _samples(self) -> RecordingRows:
        places = np.array(self._places, dtype=object).reshape(-1, 3)
        codes = np.concatenate([_NO_COUNTS, *self._codes])
        return RecordingRows(
            time_ns=np.concatenate([_NO_COUNTS, *self._times]),
            kind=places[codes, 0],
            entity=places[codes, 1],
            signal=places[codes, 2],
            value=np.concatenate([_NO_VALUES, *self._values]),
            text=np.full(len(codes), None, dtype=object),
        )
