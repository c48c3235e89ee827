"""Samples and records that a server keeps, as the node's own reader and the fleet's use them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from telemetry.clock import NS_PER_S
from telemetry.entities import Entity, EntityKind
from telemetry.frames import FloatArray, Frame, TableSpec, TimeArray
from telemetry.rollup import Resolution
from telemetry.series import FULL_RATE, merge_frames, rollup_columns
from telemetry.signals import signals_of

# Tags of the origin of a line, not of the entity.
LINE_TAGS = frozenset({"entity", "name", "node", "simulated", "by", "db"})
# Record of a server: tags, time in ns, fields.
StoredRecord = tuple[dict[str, str], int, dict[str, object]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TaggedColumns:
    """Some columns of one series of a server: times of shape ``(n_rows,)``, values ``(n_rows, n_columns)``."""

    tags: Mapping[str, str]
    time_ns: TimeArray
    values: FloatArray


class ServerStore(Protocol):
    """Server that keeps what nodes wrote. Lines of the fleet service itself are left out.

    Every method raises `TransientError` or `NotPermittedError` where the server does not reply.
    """

    def columns(
        self,
        resolution: Resolution,
        kind: EntityKind,
        columns: Sequence[str],
        start_ns: int,
        stop_ns: int,
        *,
        node: str | None = None,
        step_ns: int = NS_PER_S,
    ) -> Iterator[TaggedColumns]:
        """Yield the columns of every series of a kind, of one node or of all.

        Rollups are of `step_ns`, as `telemetry.rollup.coarsen` computes them from those of a second.
        """
        ...

    def records(self, measurement: str, start_ns: int, stop_ns: int) -> Iterator[StoredRecord]:
        """Yield the records of one type in order of time."""
        ...

    def counts(self, kind: EntityKind, columns: Sequence[str], start_ns: int, stop_ns: int) -> dict[str, int]:
        """Return the number of values of some columns of the rollups, by node."""
        ...

    def close(self) -> None:
        """Close all connections."""
        ...


class ServerSamples:
    """A `telemetry.series.SampleReader` of what one node wrote to a server."""

    def __init__(self, store: ServerStore, *, node: str) -> None:
        self._store = store
        self._node = node

    def series(
        self, kind: EntityKind, signals: Sequence[str], *, start_ns: int, stop_ns: int, step_ns: int = FULL_RATE
    ) -> Frame:
        """Return signals of every entity of one kind over ``[start_ns, stop_ns)``; see `SampleReader.series`."""
        raw = step_ns == FULL_RATE
        columns = tuple(signals) if raw else rollup_columns(kind, signals)
        found = self._store.columns(
            Resolution.RAW if raw else Resolution.ROLLUP,
            kind,
            columns,
            start_ns - (0 if raw else start_ns % step_ns),
            stop_ns,
            node=self._node,
            step_ns=step_ns or NS_PER_S,
        )
        return merge_frames(kind, columns, [_frame(kind, columns, one) for one in found])

    def frames(self, *, start_ns: int, stop_ns: int) -> Iterator[Frame]:
        """Yield the samples of ``[start_ns, stop_ns)``, one frame per kind; values are not held."""
        for kind in EntityKind:
            signals = [item.name for item in signals_of(kind)]
            if signals and len(frame := self.series(kind, signals, start_ns=start_ns, stop_ns=stop_ns)):
                yield frame

    def close(self) -> None:
        """Close all connections."""
        self._store.close()


def entity_of_tags(kind: EntityKind, tags: Mapping[str, str]) -> Entity:
    """Return the entity whose tags `telemetry.line_protocol` wrote."""
    own = tuple(sorted((name, value) for name, value in tags.items() if name not in LINE_TAGS and value))
    return Entity(kind=kind, key=tags.get("entity", ""), name=tags.get("name", ""), tags=own)


def flags_by_step(time_ns: TimeArray, values: FloatArray, step_ns: int) -> tuple[TimeArray, FloatArray]:
    """Return the bits that were set within each step, rows ascending in time; the times are the starts of the steps."""
    starts_ns, first = np.unique(time_ns // step_ns * step_ns, return_index=True)
    return starts_ns, np.bitwise_or.reduceat(values.astype(np.int64), first, axis=0).astype(np.float64)


def _frame(kind: EntityKind, columns: tuple[str, ...], one: TaggedColumns) -> Frame:
    spec = TableSpec(name=str(kind), kind=kind, entities=(entity_of_tags(kind, one.tags),), signals=columns)
    values = one.values[:, np.newaxis, :]
    return Frame(spec=spec, time_ns=one.time_ns, values=values, fresh=~np.isnan(values))
