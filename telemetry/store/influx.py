"""Samples read back out of InfluxDB, for the page, recordings and doctor."""

from collections.abc import Sequence

import numpy as np

from telemetry.entities import Entity, EntityKind
from telemetry.frames import Frame, TableSpec
from telemetry.store.influxql import InfluxQl, QlSeries, quoted, text_literal
from telemetry.store.merge import merge_frames, newest_values
from telemetry.store.port import Resolution

# Tags that say where a line comes from, not what the entity is.
_LINE_TAGS = frozenset({"entity", "name", "node", "simulated"})
# Tables of one kind end their second at different moments: the newest few rows together know every signal.
_LATEST_ROWS = 5


class InfluxReader:
    """Reads one database whose retention policies are named as the uplink names them.

    Parameters
    ----------
    node
        Only what this node wrote; None for all nodes.
    """

    def __init__(
        self,
        ql: InfluxQl,
        *,
        database: str,
        node: str | None = None,
        raw_policy: str = "raw",
        rollup_policy: str = "rollup",
    ) -> None:
        self._ql = ql
        self._database = database
        self._node = node
        self._policies = {Resolution.RAW: raw_policy, Resolution.ROLLUP: rollup_policy}

    def series(
        self, kind: EntityKind, signals: Sequence[str], *, start_ns: int, stop_ns: int, resolution: Resolution
    ) -> Frame:
        """Return the signals of every entity of one kind over ``[start_ns, stop_ns)``; see the port."""
        fields = ", ".join(quoted(name) for name in signals)
        found = self._select(fields, kind, resolution, f"time >= {start_ns} AND time < {stop_ns}", order="")
        return merge_frames(kind, signals, [_frame(kind, series) for series in found])

    def latest(self, kind: EntityKind, *, since_ns: int) -> Frame:
        """Return the newest known value of every signal as one row or none; see the port."""
        found = self._select(
            "*", kind, Resolution.ROLLUP, f"time >= {since_ns}", order=f" ORDER BY time DESC LIMIT {_LATEST_ROWS}"
        )
        return newest_values(kind, [_frame(kind, series) for series in found])

    def close(self) -> None:
        """Let connections go."""
        self._ql.close()

    def _select(
        self, fields: str, kind: EntityKind, resolution: Resolution, condition: str, *, order: str
    ) -> tuple[QlSeries, ...]:
        source = ".".join(quoted(name) for name in (self._database, self._policies[resolution], kind))
        if self._node is not None:
            condition += f' AND "node" = {text_literal(self._node)}'
        # Every name is quoted and every text escaped above; times are whole numbers.
        found = self._ql.query(f"SELECT {fields} FROM {source} WHERE {condition} GROUP BY *{order}")  # noqa: S608
        return tuple(sorted(found, key=_by_name))


def _by_name(series: QlSeries) -> tuple[int, str, str]:
    name = series.tags.get("name", "")
    return len(name), name, series.tags.get("entity", "")  # gpu2 before gpu10


def _frame(kind: EntityKind, series: QlSeries) -> Frame:
    entity = Entity(
        kind=kind,
        key=series.tags.get("entity", ""),
        name=series.tags.get("name", ""),
        tags=tuple((name, value) for name, value in series.tags.items() if name not in _LINE_TAGS and value),
    )
    signals = series.columns[1:]
    rows = sorted(series.rows, key=lambda row: int(row[0]))
    # None turns into NaN.
    values = np.array([row[1:] for row in rows], dtype=np.float64).reshape(len(rows), 1, len(signals))
    return Frame(
        spec=TableSpec(name=str(kind), kind=kind, entities=(entity,), signals=signals),
        time_ns=np.array([row[0] for row in rows], dtype=np.int64),
        values=values,
        fresh=~np.isnan(values),
    )
