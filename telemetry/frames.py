"""Frames: values of one kind of entity over an interval, as arrays, and dataclasses of arrays with a row per entity."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Annotated, Any, TypeAlias, TypeVar, cast, get_args, get_origin

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


def joined_frames(frames: Sequence[Frame]) -> Frame:
    """Return the rows of frames of one table, at least one, as one frame."""
    return Frame(
        spec=frames[0].spec,
        time_ns=np.concatenate([frame.time_ns for frame in frames]),
        values=np.concatenate([frame.values for frame in frames]),
        fresh=np.concatenate([frame.fresh for frame in frames]),
    )


CellView: TypeAlias = "memoryview[float]"

_EMPTY = np.empty(0)


class Cells:
    """Flat float64 view of the cells of an array; caches the view of the last array.

    When a thread wakes, the code of NumPy is no longer in the caches of the processor: one assignment then costs 20 to
    40 us, a copy between two memory views 1 to 3 us.
    """

    def __init__(self) -> None:
        # One attribute, so that a thread that wakes from a hang cannot leave one array with the view of another.
        self._known: tuple[FloatArray, CellView] = (_EMPTY, memoryview(_EMPTY.data).cast("B").cast("d"))

    def of(self, values: FloatArray) -> CellView:
        """Return the view of a C-contiguous array; TypeError for another."""
        known = self._known
        if known[0] is not values:
            known = self._known = (values, memoryview(values.data).cast("B").cast("d"))
        return known[1]


# Floats that `filled` starts at zero, as counts and sums do. Another value is ``Annotated[FloatArray, np.inf]``, a
# second axis of nine ``Annotated[FloatArray, 0.0, 9]``.
FromZero: TypeAlias = Annotated[FloatArray, 0.0]

_State = TypeVar("_State")
_STARTS: dict[Any, tuple[type, float]] = {
    FloatArray: (np.float64, np.nan),
    TimeArray: (np.int64, 0),
    MaskArray: (np.bool_, False),
}


def filled(kind: Callable[..., _State], shape: int | tuple[int, ...], **starts: Any) -> _State:
    """Return a dataclass of arrays of one shape, as a state before its first row.

    Floats are NaN, times 0, masks False unless the field is annotated otherwise (`FromZero`); numbers are 0 and what
    may be None is None. A dataclass within is what its ``start`` returns for this shape, or filled alike. `starts` has
    the values of the other fields.
    """
    axes = shape if isinstance(shape, tuple) else (shape,)
    made: dict[str, Any] = {}
    for field in fields(cast("Any", kind)):
        declared = cast("Any", field.type)
        form, *start = get_args(declared) if get_origin(declared) is Annotated else (declared,)
        if starts.get(field.name) is not None:
            made[field.name] = starts[field.name]
        elif form in _STARTS:
            dtype, usual = _STARTS[form]
            value, *inner = start or (usual,)
            made[field.name] = np.full((*axes, *inner), value, dtype=dtype)
        elif is_dataclass(form):
            made[field.name] = form.start(shape) if hasattr(form, "start") else filled(cast("Any", form), shape)
        elif form in (bool, int, float):
            made[field.name] = form()
        elif type(None) in get_args(form):
            made[field.name] = None
    return kind(**made)


def reset_where(state: _State, fresh: _State, where: MaskArray) -> _State:
    """Return a dataclass of arrays with the values of `fresh` for the marked entities ``(n_entities,)``.

    The first axis of every array is the entity; dataclasses within are taken in the same way.
    """
    kind: Callable[..., _State] = type(state)
    names = (one.name for one in fields(cast("Any", state)))
    return kind(**{name: _chosen(getattr(state, name), getattr(fresh, name), where) for name in names})


def _chosen(held: Any, fresh: Any, where: MaskArray) -> Any:
    if is_dataclass(held):
        return reset_where(held, fresh, where)
    return np.where(where.reshape(-1, *[1] * (held.ndim - 1)), fresh, held)
