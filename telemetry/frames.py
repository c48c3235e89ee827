"""Frames: values of one kind of entity over an interval, as arrays."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from telemetry.entities import Entity, EntityKind

FloatArray = npt.NDArray[np.float64]
TimeArray = npt.NDArray[np.int64]
MaskArray = npt.NDArray[np.bool_]


# Tables whose rows have the time of measurement and come later than rows of other tables with the same signals, whose
# gaps they fill. Only stores of raw updates read them; detectors, pages and rollups do not.
LATE_TABLES = frozenset({"gpu_samples"})


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSpec:
    """Columns of a table: entities of one kind and their signals.

    A table has one writer, so a source that hangs stops its own table and no other.
    """

    name: str
    kind: EntityKind
    entities: tuple[Entity, ...]
    signals: tuple[str, ...]

    @property
    def shape(self) -> tuple[int, int]:
        """``(n_entities, n_signals)``."""
        return len(self.entities), len(self.signals)

    @property
    def is_late(self) -> bool:
        """True for a table whose rows fill the gaps of another table later."""
        return self.name in LATE_TABLES


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Frame:
    """Values of one table over an interval.

    Attributes
    ----------
    spec
        Entities and signals of the axes.
    time_ns
        UTC ns of each row, ascending, shape ``(n_times,)``.
    values
        Shape ``(n_times, n_entities, n_signals)``. Each row holds the newest known value, held from row to row;
        NaN where the value is absent: not supported, lost, or stale.
    fresh
        Same shape; True where the row brought a new sensor update, False where the value is held from before.
        Only fresh values are stored, so every distinct update is stored exactly once.
    """

    spec: TableSpec
    time_ns: TimeArray
    values: FloatArray
    fresh: MaskArray

    def __post_init__(self) -> None:
        """Check the shapes of the arrays; ValueError where they do not fit the table."""
        wanted = (len(self.time_ns), *self.spec.shape)
        if self.values.shape != wanted or self.fresh.shape != wanted:
            raise ValueError(
                f"table {self.spec.name}: values {self.values.shape} and fresh {self.fresh.shape}, expected {wanted}"
            )

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.time_ns)

    def signal(self, name: str) -> FloatArray:
        """Return the values of one signal, shape ``(n_times, n_entities)``, as a view."""
        return self.values[:, :, self.spec.signals.index(name)]

    def rows(self, start: int, stop: int) -> "Frame":
        """Return the rows from `start` up to `stop` as views."""
        return Frame(
            spec=self.spec,
            time_ns=self.time_ns[start:stop],
            values=self.values[start:stop],
            fresh=self.fresh[start:stop],
        )
