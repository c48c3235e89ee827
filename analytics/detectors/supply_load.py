"""Sums of what supplies carry between two verdicts: means, load steps, lowest voltages, meters, source resistance.

Rows are summed as they come, all else once a second. Arrays have the shape ``(n_supplies,)`` unless noted.
"""

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from analytics.connectivity import GroupArray
from analytics.detectors.columns import optional
from analytics.detectors.seconds import running_sum
from physics.rail_classes import times_measured
from telemetry.frames import FloatArray, Frame, FromZero, MaskArray

_FAST = ("voltage_v", "current_a")
# What slow meters of supplies, PDUs and UPSs show, sampled once a second.
METERS = (
    "output_voltage_v",
    "output_current_a",
    "power_w",
    "input_power_w",
    "mains_power_w",
    "mains_current_a",
    "ups_power_w",
)
# heuristic: with less than half of its seconds a minute does not show the load.
_SEEN_RATIO = 0.5
# A source resistance is read off the load where that moves: by 1 A at 12 V and 3 % of itself, with a correlation of
# -0.9 between voltage and current, over 20 s. heuristic: as `source_resistance`, over a minute.
_MOVES_A, _MOVES_RATIO, _CORRELATED, _LEAST_S = 1.0, 0.03, -0.9, 20.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LoadMinute:
    """Sums of the open second and of the seconds since the last verdict.

    `row_sums` and `fit` have number, V, A, V², A² and VA of the rows of the open second and of all ended ones, shape
    ``(n_supplies, 6)``. `sums` and `last` have volts and amperes, shape ``(n_supplies, 2)``; `last` is the mean of the
    last second. `high_a` and `low_v` are the extremes of the open second. `step_a` is the highest current of a supply's
    whole bus within a second, `second_step_a` that of the second second, so that one wrong reading is no load; `dip_v`
    and `second_dip_v` likewise are lowest voltages of a supply. `meter_sums` and `meter_seconds` are of `METERS`, shape
    ``(n_supplies, 7)``.
    """

    row_sums: Annotated[FloatArray, 0.0, 6]
    high_a: Annotated[FloatArray, -np.inf]
    low_v: Annotated[FloatArray, np.inf]
    seconds: FromZero
    sums: Annotated[FloatArray, 0.0, 2]
    fit: Annotated[FloatArray, 0.0, 6]
    last: Annotated[FloatArray, np.nan, 2]
    step_a: FromZero
    second_step_a: FromZero
    dip_v: Annotated[FloatArray, np.inf]
    second_dip_v: Annotated[FloatArray, np.inf]
    meter_sums: Annotated[FloatArray, 0.0, 7]
    meter_seconds: Annotated[FloatArray, 0.0, 7]


def with_rows(minute: LoadMinute, values: FloatArray, highs_a: FloatArray, lows_v: FloatArray) -> LoadMinute:
    """Return the sums with rows of volts and amperes, ``(n_rows, n_supplies, 2)``, and of their extremes."""
    known: MaskArray = np.isfinite(values[:, :, 0]) & np.isfinite(values[:, :, 1])
    if not known.all():
        values, highs_a = np.where(known[:, :, np.newaxis], values, 0.0), np.where(known, highs_a, -np.inf)
        lows_v = np.where(known, lows_v, np.inf)
    return replace(
        minute,
        row_sums=running_sum(minute.row_sums, _moments(known, values)),
        high_a=np.fmax(minute.high_a, highs_a.max(axis=0)),
        low_v=np.fmin(minute.low_v, lows_v.min(axis=0)),
    )


def _moments(known: MaskArray, values: FloatArray) -> FloatArray:
    """Return 1, V, A, V², A² and VA of each row, 0 for those that are unknown."""
    moments = np.empty((*known.shape, 6))
    moments[:, :, 0], moments[:, :, 1:3] = known, values
    np.square(values, out=moments[:, :, 3:5])
    np.multiply(values[:, :, 0], values[:, :, 1], out=moments[:, :, 5])
    return moments


def with_second(minute: LoadMinute, buses: GroupArray, frame: Frame, row: int) -> LoadMinute:
    """Return the sums with the open second closed; `row` of the frame is the first one after it."""
    count, n_supplies = minute.row_sums[:, 0], len(minute.row_sums)
    known = count > 0
    # A bus of which a supply was not read in this second has an unknown total.
    highs_a = np.where(np.isfinite(minute.high_a), minute.high_a, np.nan)
    total_a = np.bincount(buses, weights=highs_a)[buses]
    means = minute.row_sums[:, 1:3] / np.maximum(count, 1.0)[:, np.newaxis]
    sums, seconds = _with_meters(minute, frame, row)
    return LoadMinute(
        row_sums=np.zeros_like(minute.row_sums),
        high_a=np.full(n_supplies, -np.inf),
        low_v=np.full(n_supplies, np.inf),
        seconds=minute.seconds + known,
        sums=minute.sums + means,
        fit=minute.fit + minute.row_sums,
        last=np.where(known[:, np.newaxis], means, np.nan),
        step_a=np.fmax(minute.step_a, total_a),
        second_step_a=np.fmax(minute.second_step_a, np.fmin(minute.step_a, total_a)),
        dip_v=np.fmin(minute.dip_v, minute.low_v),
        second_dip_v=np.fmin(minute.second_dip_v, np.fmax(minute.dip_v, minute.low_v)),
        meter_sums=sums,
        meter_seconds=seconds,
    )


def _with_meters(minute: LoadMinute, frame: Frame, row: int) -> tuple[FloatArray, FloatArray]:
    places = [(own, frame.spec.signals.index(name)) for own, name in enumerate(METERS) if name in frame.spec.signals]
    if not places:
        return minute.meter_sums, minute.meter_seconds
    sums, seconds = minute.meter_sums.copy(), minute.meter_seconds.copy()
    for own, column in places:
        values = frame.values[row, :, column]
        known = np.isfinite(values)
        sums[:, own] += np.where(known, values, 0.0)
        seconds[:, own] += known
    return sums, seconds


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MinuteMeans:
    """What a minute shows of each supply, NaN where it does not; arrays of shape ``(n_supplies,)``.

    `step_a` is the current in the highest load step of its bus, `step_v` the lowest voltage, `last` volts and amperes
    of the last second. `meters` are the means of `METERS` by name.
    """

    voltage_v: FloatArray
    current_a: FloatArray
    step_a: FloatArray
    step_v: FloatArray
    last: FloatArray
    meters: dict[str, FloatArray]


def means_of(minute: LoadMinute, buses: GroupArray, passed_s: int) -> MinuteMeans:
    """Return the means of a minute of so many seconds; those of slow meters where there is no other."""
    with np.errstate(invalid="ignore", divide="ignore"):
        metered = np.where(
            minute.meter_seconds >= _SEEN_RATIO * passed_s, minute.meter_sums / minute.meter_seconds, np.nan
        )
        meters = dict(zip(METERS, metered.T, strict=True))
        seconds = np.where(minute.seconds >= _SEEN_RATIO * passed_s, minute.seconds, np.nan)
        volts, amps = (minute.sums / seconds[:, np.newaxis]).T
        slow_v = meters["output_voltage_v"]
        slow_a = np.where(np.isnan(meters["output_current_a"]), meters["power_w"] / slow_v, meters["output_current_a"])
    is_slow = np.isnan(volts) & np.isfinite(slow_v) & np.isfinite(slow_a)
    volts, amps = np.where(is_slow, slow_v, volts), np.where(is_slow, slow_a, amps)
    total_a = np.bincount(buses, weights=np.nan_to_num(amps))[buses]
    step = np.divide(minute.second_step_a, total_a, out=np.ones_like(total_a), where=total_a > 0.0)
    dips_v = np.where(np.isfinite(minute.second_dip_v), minute.second_dip_v, np.nan)
    last = np.where(is_slow[:, np.newaxis], np.stack((volts, amps), axis=1), minute.last)
    return MinuteMeans(
        voltage_v=volts,
        current_a=amps,
        step_a=amps * np.fmax(step, 1.0),
        step_v=np.fmin(dips_v, volts),
        last=last,
        meters=meters,
    )


def source_ohm(minute: LoadMinute, before: FloatArray) -> FloatArray:
    """Return the resistance that each supply shows where its load moved within the minute, else the one before."""
    count = np.maximum(minute.fit[:, :1], 1.0)
    mean_v, mean_a, square_v, square_a, product = (minute.fit[:, 1:] / count).T
    spread_v, spread_a = (np.maximum(square_v - mean_v**2, 0.0), np.maximum(square_a - mean_a**2, 0.0))
    together = product - mean_v * mean_a
    least_a = np.fmax(_MOVES_A / times_measured(mean_v), _MOVES_RATIO * mean_a)
    moves = (minute.seconds >= _LEAST_S) & (np.sqrt(spread_a) >= least_a)
    falls = together <= _CORRELATED * np.sqrt(spread_v * spread_a)
    found = moves & falls & (together < 0.0)
    ohm = np.divide(-together, spread_a, out=np.full_like(mean_a, np.nan), where=spread_a > 0.0)
    return np.where(found, ohm, before)


def volts_and_amps(frame: Frame) -> FloatArray:
    """Return volts and amperes of each row, shape ``(n_rows, n_supplies, 2)``; NaN where no table reads them fast."""
    columns = [frame.spec.signals.index(name) for name in _FAST if name in frame.spec.signals]
    if len(columns) == len(_FAST):
        fast: FloatArray = frame.values[:, :, columns]
        return fast
    return np.broadcast_to(np.nan, (*frame.values.shape[:2], len(_FAST)))


def extremes_of(frame: Frame, values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the highest current and the lowest voltage of each row; `values` has its volts and amperes."""
    highs_a = np.fmax(values[:, :, 1], optional(frame, "current_max_a"))
    return highs_a, np.fmin(values[:, :, 0], optional(frame, "voltage_min_v"))
