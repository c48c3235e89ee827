"""Windows of temperature and power, condensed to what a thermal resistance needs.

Windows lie on a grid of UTC time, so that every entity and every shard has the same ones; a table with few rows gets
windows as long as it takes to have enough of them. Sums are kept in fixed steps that floats hold exactly: they do not
depend on how the rows were cut into frames. A row costs a few array operations, a frame as many as a row.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Annotated

import numpy as np

from physics.cooling import SINK_S, carried_w
from telemetry.clock import NS_PER_MS, NS_PER_S
from telemetry.frames import FloatArray, FromZero, MaskArray, TimeArray, filled

# Steps of the sums: 1/1024 K and W, finer than any sensor, and 1/256 of a weight, so that whole numbers of them add up
# exactly below 2**53.
_STEPS = 1024.0
_WEIGHT_STEPS = 256.0
# Values beyond these are a broken conversion, not heat: the sums stay exact, and the window goes on without them.
_LARGEST = 1e5
# Fewer samples than this do not show the mean power of a load that works in steps. heuristic: one every eight seconds
# in two minutes; a table with fewer rows is judged over a longer window.
MIN_SAMPLES = 16
# heuristic: share of the window that the samples must span, so that its mean represents it.
MIN_SPAN_RATIO = 0.6
# heuristic: a window of few rows ends where the next one is later than this many times their spacing: it is another
# time. And it takes no longer than a day, after which the room is another one.
_HOLE_SPACINGS = 4.0
_LONGEST_NS = 24 * 3600 * NS_PER_S


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HeatWindowSums:
    """Sums over the window that is open, each array of shape ``(n_entities,)``.

    A sample counts where temperature and power are both known. `air_*` and `fan_*` count those of them at which the
    inlet temperature and the fan duty were known. `recent` weighs power by how much of it the heat sink still holds at
    the end, `sink_w` is what it held at the beginning, NaN where it is unknown. `number` and `newest` are the first and
    the last place on the grid, -1 before the first; `rows`, `first_ns` and `last_ns` are the table's, and `spacing_ns`
    is how far apart its rows were before this window, 0 at first.
    """

    number: int
    newest: int
    rows: int
    first_ns: int
    last_ns: int
    spacing_ns: float
    count: FromZero
    temp: FromZero
    power: FromZero
    recent: FromZero
    recent_weight: FromZero
    sink_w: FloatArray
    begun_ms: Annotated[FloatArray, np.inf]
    ended_ms: Annotated[FloatArray, -np.inf]
    air_count: FromZero
    air: FromZero
    fan_count: FromZero
    fan: FromZero
    part: FromZero
    part_part: FromZero
    cut: MaskArray

    @staticmethod
    def start(
        n_entities: int, *, number: int = -1, spacing_ns: float = 0.0, sink_w: FloatArray | None = None
    ) -> "HeatWindowSums":
        """Return the sums of no sample."""
        return filled(HeatWindowSums, n_entities, number=number, newest=number, spacing_ns=spacing_ns, sink_w=sink_w)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HeatColumns:
    """Input rows of a window, each of shape ``(n_times, n_entities)``; `cut` where clocks were cut.

    `part` is power over the mean power of the siblings, or all NaN where it is not used.
    """

    temp_c: FloatArray
    power_w: FloatArray
    air_c: FloatArray
    fan_ratio: FloatArray
    part: FloatArray
    cut: MaskArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HeatWindow:
    """The means of one window, each of shape ``(n_entities,)``; NaN where too little was seen.

    `ended_ns` is the time of the row that ended it. `air_c` and `fan_ratio` are NaN where they were not known most of
    the time. `sink_w` is what the heat sink carried to the air, NaN where the time before is not known well enough,
    `part_error` the standard error of the mean of `part` over that mean, `cut` marks GPUs whose clocks were cut at any
    time.
    """

    ended_ns: int
    temp_c: FloatArray
    power_w: FloatArray
    sink_w: FloatArray
    air_c: FloatArray
    fan_ratio: FloatArray
    part_error: FloatArray
    cut: MaskArray


def add_rows(
    sums: HeatWindowSums, time_ns: TimeArray, columns: HeatColumns, *, window_ns: int
) -> Iterator[tuple[int, HeatWindowSums, HeatWindow | None]]:
    """Add rows; yield for each stretch of one window its first row, the sums after it, and the window that it ended.

    A clock that is set back ends the window as well; no sample counts in two windows.
    """
    if not len(time_ns):
        return
    numbers = time_ns // window_ns
    bounds = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
    for start, stop in pairwise(bounds):
        number, ended = int(numbers[start]), None
        if number != sums.newest:
            sums, ended = _at_boundary(sums, number, int(time_ns[start]), window_ns=window_ns)
        sums = _added(sums, time_ns[start:stop], columns, slice(start, stop), window_ns=window_ns)
        yield start, sums, ended


def _at_boundary(
    sums: HeatWindowSums, number: int, now_ns: int, *, window_ns: int
) -> tuple[HeatWindowSums, HeatWindow | None]:
    """Return the sums to continue with at another grid position, and the window that ended."""
    if _goes_on(sums, now_ns):
        kept = math.exp(-(number - sums.newest) * window_ns / NS_PER_S / SINK_S)
        older = replace(
            sums, newest=number, recent=np.rint(sums.recent * kept), recent_weight=np.rint(sums.recent_weight * kept)
        )
        return older, None
    size, spacing_ns = len(sums.count), _own_spacing_ns(sums) if sums.rows >= MIN_SAMPLES else now_ns - sums.last_ns
    if sums.number < 0 or not sums.count.any():
        return HeatWindowSums.start(size, number=number, spacing_ns=spacing_ns if sums.rows else 0.0), None
    ended, sink_w = _closed(sums, now_ns, window_ns=window_ns)
    follows = number == sums.newest + 1
    after = HeatWindowSums.start(size, number=number, spacing_ns=spacing_ns, sink_w=sink_w if follows else None)
    return after, ended


def _goes_on(sums: HeatWindowSums, now_ns: int) -> bool:
    """Return True if a window of a table with few rows continues."""
    if not 0 < sums.rows < MIN_SAMPLES or not sums.last_ns < now_ns <= sums.first_ns + _LONGEST_NS:
        return False
    return now_ns - sums.last_ns <= _HOLE_SPACINGS * max(sums.spacing_ns, _own_spacing_ns(sums))


def _own_spacing_ns(sums: HeatWindowSums) -> float:
    return (sums.last_ns - sums.first_ns) / max(sums.rows - 1, 1)


def _closed(sums: HeatWindowSums, ended_ns: int, *, window_ns: int) -> tuple[HeatWindow, FloatArray]:
    """Return the means of a window, and what the heat sink carries at its end."""
    length_s = (sums.newest - sums.number + 1) * window_ns / NS_PER_S
    spans_s = (sums.ended_ms - sums.begun_ms) / 1000.0
    enough = (sums.count >= MIN_SAMPLES) & (spans_s >= MIN_SPAN_RATIO * length_s)
    count = np.where(enough, sums.count, np.nan)
    power_w = sums.power / count / _STEPS
    older_weight = _WEIGHT_STEPS * count - sums.recent_weight
    sink_w, sink_after_w = carried_w(
        before_w=sums.sink_w,
        mean_w=power_w,
        older_w=(_WEIGHT_STEPS * sums.power - sums.recent) / np.where(older_weight > 0, older_weight, np.nan) / _STEPS,
        recent_w=sums.recent / np.where(sums.recent_weight > 0, sums.recent_weight, np.nan) / _STEPS,
        length_s=length_s,
    )
    half = 0.5 * sums.count
    part = sums.part / count
    scatter = np.sqrt(np.maximum(sums.part_part / count - part * part, 0.0) / count)
    window = HeatWindow(
        ended_ns=ended_ns,
        temp_c=sums.temp / count / _STEPS,
        power_w=power_w,
        sink_w=sink_w,
        air_c=sums.air / np.where(enough & (sums.air_count > half), sums.air_count, np.nan) / _STEPS,
        fan_ratio=sums.fan / np.where(enough & (sums.fan_count > half), sums.fan_count, np.nan) / _STEPS,
        part_error=scatter / np.where(part > 0, part, np.nan),
        cut=sums.cut,
    )
    return window, sink_after_w


def _added(
    sums: HeatWindowSums, time_ns: TimeArray, columns: HeatColumns, rows: slice, *, window_ns: int
) -> HeatWindowSums:
    temp, power = _in_steps(columns.temp_c[rows]), _in_steps(columns.power_w[rows])
    known = ~np.isnan(temp + power)
    temp, power = np.where(known, temp, 0.0), np.where(known, power, 0.0)
    at_ms = ((time_ns - sums.number * window_ns) // NS_PER_MS).astype(np.float64)
    weight = _weights(time_ns, end_ns=(sums.newest + 1) * window_ns)[:, np.newaxis]
    begun_ms, ended_ms = _span(sums, at_ms, known)
    air, has_air = _where_known(columns.air_c[rows], known)
    fan, has_fan = _where_known(columns.fan_ratio[rows], known)
    part, part_part = sums.part, sums.part_part
    if not _is_absent(columns.part):
        share = _in_steps(columns.part[rows])
        share = np.where(known & ~np.isnan(share), share, 0.0)
        part, part_part = part + share.sum(axis=0), part_part + (share * share).sum(axis=0)
    return replace(
        sums,
        rows=sums.rows + len(time_ns),
        first_ns=sums.first_ns if sums.rows else int(time_ns[0]),
        last_ns=int(time_ns[-1]),
        count=sums.count + known.sum(axis=0),
        temp=sums.temp + temp.sum(axis=0),
        power=sums.power + power.sum(axis=0),
        recent=sums.recent + (power * weight).sum(axis=0),
        recent_weight=sums.recent_weight + (known * weight).sum(axis=0),
        begun_ms=begun_ms,
        ended_ms=ended_ms,
        air_count=sums.air_count + has_air,
        air=sums.air + air,
        fan_count=sums.fan_count + has_fan,
        fan=sums.fan + fan,
        part=part,
        part_part=part_part,
        cut=sums.cut | columns.cut[rows].any(axis=0),
    )


def _weights(time_ns: TimeArray, *, end_ns: int) -> FloatArray:
    """Return how much of a row's power the heat sink still holds at the end of the window, in whole steps."""
    weights: FloatArray = np.rint(_WEIGHT_STEPS * np.exp((time_ns - end_ns) / (NS_PER_S * SINK_S)))
    return weights


def _span(sums: HeatWindowSums, at_ms: FloatArray, known: MaskArray) -> tuple[FloatArray, FloatArray]:
    """Return the first and the last time at which each entity was known."""
    if known.all():  # rows rise in time within a window
        return np.minimum(sums.begun_ms, at_ms[0]), np.maximum(sums.ended_ms, at_ms[-1])
    column = at_ms[:, np.newaxis]
    first = np.where(known, column, np.inf).min(axis=0)
    last = np.where(known, column, -np.inf).max(axis=0)
    return np.minimum(sums.begun_ms, first), np.maximum(sums.ended_ms, last)


def _in_steps(values: FloatArray) -> FloatArray:
    steps: FloatArray = np.rint(np.where(np.abs(values) < _LARGEST, values, np.nan) * _STEPS)
    return steps


def _where_known(values: FloatArray, known: MaskArray) -> tuple[FloatArray, FloatArray]:
    """Return the sums of a column that may be absent, and how many values went into them."""
    if _is_absent(values):
        nothing = np.zeros(values.shape[1])
        return nothing, nothing
    steps = _in_steps(values)
    there = known & ~np.isnan(steps)
    return np.where(there, steps, 0.0).sum(axis=0), there.sum(axis=0).astype(np.float64)


def _is_absent(values: FloatArray) -> bool:
    """Return True if the column is absent from the table: one NaN, broadcast."""
    return bool(values.size) and values.strides == (0, 0) and bool(np.isnan(values.flat[0]))
