"""Windows of temperature and power, condensed to what a thermal resistance needs.

Windows lie on a grid of UTC time, so that every entity and every shard has the same ones. Sums are kept in fixed steps
that floats hold exactly: they do not depend on how the rows were cut into frames. A row costs a few array operations,
a frame as many as a row.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from telemetry.clock import NS_PER_S
from telemetry.frames import FloatArray, MaskArray, TimeArray

_NS_PER_MS = 1_000_000
# Steps of the sums: 1/1024 K and W, finer than any sensor, so that whole numbers of them add up exactly below 2**53.
_STEPS = 1024.0
# Values beyond these are a broken conversion, not heat: the sums stay exact, and the window goes on without them.
_LARGEST = 1e5
# Fewer samples than this do not tell the mean power: a load that beats with two samples a minute looks steady at any
# level for an hour. Own choice: one every eight seconds in two minutes.
MIN_SAMPLES = 16
# Share of the window that the samples must span, so that its mean stands for it. Own choice.
MIN_SPAN_RATIO = 0.6


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WindowSums:
    """Sums over the window that is open, each array of shape ``(n_entities,)``.

    A sample counts where temperature and power are both known. `air_*` and `fan_*` count those of them at which the
    inlet temperature and the fan duty were known. `number` is the window's place on the grid, -1 before the first.
    """

    number: int
    count: FloatArray
    temp: FloatArray
    power: FloatArray
    time: FloatArray
    time_time: FloatArray
    time_temp: FloatArray
    first_ms: FloatArray
    last_ms: FloatArray
    air_count: FloatArray
    air: FloatArray
    fan_count: FloatArray
    fan: FloatArray
    part: FloatArray
    part_part: FloatArray
    cut: MaskArray

    @staticmethod
    def empty(n_entities: int, *, number: int = -1) -> "WindowSums":
        """Give the sums of no sample."""
        zero = np.zeros(n_entities)
        return WindowSums(
            number=number,
            count=zero.copy(),
            temp=zero.copy(),
            power=zero.copy(),
            time=zero.copy(),
            time_time=zero.copy(),
            time_temp=zero.copy(),
            first_ms=np.full(n_entities, np.inf),
            last_ms=np.full(n_entities, -np.inf),
            air_count=zero.copy(),
            air=zero.copy(),
            fan_count=zero.copy(),
            fan=zero.copy(),
            part=zero.copy(),
            part_part=zero.copy(),
            cut=np.zeros(n_entities, dtype=np.bool_),
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HeatColumns:
    """Rows of what a window takes in, each of shape ``(n_times, n_entities)``; `cut` where clocks were cut.

    `part` is power over the mean power of the siblings, or all NaN where nobody asks how far chance made it differ.
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

    `told_ns` is the time of the row that ended it. `air_c` and `fan_ratio` are NaN where they were not known most of
    the time. `drift_c_per_s` is the slope of the temperature by least squares, `part_error` the standard error of the
    mean of `part` over that mean, `cut` says where clocks were cut at any time of it.
    """

    told_ns: int
    temp_c: FloatArray
    power_w: FloatArray
    drift_c_per_s: FloatArray
    air_c: FloatArray
    fan_ratio: FloatArray
    part_error: FloatArray
    cut: MaskArray


def add_rows(
    sums: WindowSums, time_ns: TimeArray, columns: HeatColumns, *, window_ns: int
) -> Iterator[tuple[int, WindowSums, HeatWindow | None]]:
    """Add rows and give, for each stretch of one window: its first row, the sums after it, the window that it ended.

    A clock that is set back ends the window as well; no sample counts in two windows.
    """
    if not len(time_ns):
        return
    numbers = time_ns // window_ns
    bounds = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
    for start, stop in pairwise(bounds):
        number, ended = int(numbers[start]), None
        if number != sums.number:
            if sums.number >= 0 and sums.count.any():
                ended = closed(sums, int(time_ns[start]), window_ns=window_ns)
            sums = WindowSums.empty(len(sums.count), number=number)
        sums = _added(sums, time_ns[start:stop] - number * window_ns, columns, slice(start, stop))
        yield start, sums, ended


def closed(sums: WindowSums, told_ns: int, *, window_ns: int) -> HeatWindow:
    """Give the means of a window."""
    spans_s = (sums.last_ms - sums.first_ms) / 1000.0
    enough = (sums.count >= MIN_SAMPLES) & (spans_s >= MIN_SPAN_RATIO * window_ns / NS_PER_S)
    count = np.where(enough, sums.count, np.nan)
    temp, time = sums.temp / count, sums.time / count
    spread = sums.time_time / count - time * time
    slope = (sums.time_temp / count - time * temp) / spread
    half = 0.5 * sums.count
    part = sums.part / count
    scatter = np.sqrt(np.maximum(sums.part_part / count - part * part, 0.0) / count)
    return HeatWindow(
        told_ns=told_ns,
        temp_c=temp / _STEPS,
        power_w=sums.power / count / _STEPS,
        drift_c_per_s=slope * 1000.0 / _STEPS,
        air_c=sums.air / np.where(enough & (sums.air_count > half), sums.air_count, np.nan) / _STEPS,
        fan_ratio=sums.fan / np.where(enough & (sums.fan_count > half), sums.fan_count, np.nan) / _STEPS,
        part_error=scatter / np.where(part > 0, part, np.nan),
        cut=sums.cut,
    )


def _added(sums: WindowSums, since_ns: TimeArray, columns: HeatColumns, rows: slice) -> WindowSums:
    temp, power = _in_steps(columns.temp_c[rows]), _in_steps(columns.power_w[rows])
    known = ~np.isnan(temp + power)
    time_ms = np.broadcast_to((since_ns // _NS_PER_MS).astype(np.float64)[:, np.newaxis], known.shape)
    temp, power, at_ms = (np.where(known, part, 0.0) for part in (temp, power, time_ms))
    air, has_air = _where_known(columns.air_c[rows], known)
    fan, has_fan = _where_known(columns.fan_ratio[rows], known)
    part, part_part = sums.part, sums.part_part
    if not _is_absent(columns.part):
        share = _in_steps(columns.part[rows])
        share = np.where(known & ~np.isnan(share), share, 0.0)
        part, part_part = part + share.sum(axis=0), part_part + (share * share).sum(axis=0)
    return WindowSums(
        number=sums.number,
        count=sums.count + known.sum(axis=0),
        temp=sums.temp + temp.sum(axis=0),
        power=sums.power + power.sum(axis=0),
        time=sums.time + at_ms.sum(axis=0),
        time_time=sums.time_time + (at_ms * at_ms).sum(axis=0),
        time_temp=sums.time_temp + (at_ms * temp).sum(axis=0),
        first_ms=np.minimum(sums.first_ms, np.where(known, time_ms, np.inf).min(axis=0)),
        last_ms=np.maximum(sums.last_ms, np.where(known, time_ms, -np.inf).max(axis=0)),
        air_count=sums.air_count + has_air,
        air=sums.air + air,
        fan_count=sums.fan_count + has_fan,
        fan=sums.fan + fan,
        part=part,
        part_part=part_part,
        cut=sums.cut | columns.cut[rows].any(axis=0),
    )


def _in_steps(values: FloatArray) -> FloatArray:
    steps: FloatArray = np.rint(np.where(np.abs(values) < _LARGEST, values, np.nan) * _STEPS)
    return steps


def _where_known(values: FloatArray, known: MaskArray) -> tuple[FloatArray, FloatArray]:
    """Give the sums of a column that may be absent, and how many values went into them."""
    if _is_absent(values):
        nothing = np.zeros(values.shape[1])
        return nothing, nothing
    steps = _in_steps(values)
    there = known & ~np.isnan(steps)
    return np.where(there, steps, 0.0).sum(axis=0), there.sum(axis=0).astype(np.float64)


def _is_absent(values: FloatArray) -> bool:
    """Say whether this is a column that the table does not have: one NaN, broadcast."""
    return bool(values.size) and values.strides == (0, 0) and bool(np.isnan(values.flat[0]))
