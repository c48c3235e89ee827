"""Frames as the columns that a browser draws: thinned without losing a dip or a peak, rounded, gaps as null."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from telemetry.catalogue.pins import PIN_CURRENTS, PIN_VOLTAGES
from telemetry.clock import NS_PER_S
from telemetry.entities import EntityKind
from telemetry.frames import FloatArray, Frame, TimeArray
from telemetry.signals import signal

NS_PER_MS = 1_000_000

# What the page draws and lists; everything else is read through /api/v1/series.
PAGE_SIGNALS: dict[EntityKind, tuple[str, ...]] = {
    EntityKind.SUPPLY: (
        "voltage_v",
        "current_a",
        "rail_voltage_v",
        "rail_current_a",
        "output_voltage_v",
        "output_current_a",
        "power_w",
    ),
    EntityKind.GPU: (
        "power_w",
        "sm_clock_mhz",
        "throttle_reasons",
        "gpu_util_ratio",
        "gpu_temp_c",
        "slowdown_temp_c",
        "power_limit_w",
        "app_clock_mhz",
        "pci_present",
        *PIN_VOLTAGES,
        *PIN_CURRENTS,
    ),
    EntityKind.NODE: ("cpu_util_ratio", "inlet_temp_c"),
    EntityKind.AGENT: ("cpu_ratio", "resident_bytes", "tick_late_p99_s"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Column of one signal of one entity; null where the value is absent."""

    entity: str
    signal: str
    unit: str
    values: tuple[float | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Series that share their times, in ms since 1970-01-01 UTC."""

    table: str
    kind: EntityKind
    time_ms: tuple[int, ...]
    series: tuple[Series, ...]


def thin(time_ns: TimeArray, values: FloatArray, bucket_ns: int) -> tuple[TimeArray, FloatArray]:
    """Keep at most two rows a bucket: both extremes of every series, in the order in which the bucket ran.

    Buckets with one or two rows pass unchanged. A bucket is absent (NaN) only where all its rows are.

    Parameters
    ----------
    time_ns
        Ascending, shape ``(n_times,)``.
    values
        Shape ``(n_times, n_series)``.
    """
    if len(time_ns) == 0:
        return time_ns, values
    bucket = time_ns // bucket_ns
    starts = np.flatnonzero(np.r_[True, np.diff(bucket) != 0])
    counts = np.diff(np.r_[starts, len(time_ns)])
    if counts.max() <= 2:
        return time_ns, values
    lasts = starts + counts - 1
    low = np.fmin.reduceat(values, starts, axis=0)
    high = np.fmax.reduceat(values, starts, axis=0)
    rising = values[starts] <= values[lasts]
    pair_times = np.stack([time_ns[starts], time_ns[lasts]], axis=1)
    pairs = np.stack([np.where(rising, low, high), np.where(rising, high, low)], axis=1)
    small = counts <= 2
    pairs[small, 0], pairs[small, 1] = values[starts[small]], values[lasts[small]]
    keep = np.stack([np.ones(len(starts), dtype=bool), counts > 1], axis=1)
    return pair_times[keep], pairs[keep]


def whole_buckets(frame: Frame, *, now_ns: int, bucket_ns: int) -> Frame:
    """Return the rows whose bucket has ended by now, so that a bucket is thinned once and not in two halves."""
    end_ns = now_ns // bucket_ns * bucket_ns
    return frame.rows(0, int(np.searchsorted(frame.time_ns, end_ns)))


def table_of(frame: Frame, *, bucket_s: float, signals: Sequence[str], entities: Sequence[str] = ()) -> Table | None:
    """Return the named signals of a frame as columns; None where the frame has none of them.

    `entities` narrows by entity id; empty for all.
    """
    chosen = [name for name in frame.spec.signals if name in signals]
    who = [index for index, entity in enumerate(frame.spec.entities) if not entities or entity.id in entities]
    if not chosen or not who:
        return None
    columns = np.concatenate([frame.signal(name)[:, who] for name in chosen], axis=1)
    time_ns, thinned = thin(frame.time_ns, columns, max(1, round(bucket_s * NS_PER_S)))
    series = []
    for index, name in enumerate(chosen):
        known = signal(frame.spec.kind, name)
        for place, row in enumerate(who):
            series.append(
                Series(
                    entity=frame.spec.entities[row].id,
                    signal=name,
                    unit=known.unit,
                    values=numbers(thinned[:, index * len(who) + place], known.decimals),
                )
            )
    return Table(
        table=frame.spec.name,
        kind=frame.spec.kind,
        time_ms=tuple((time_ns // NS_PER_MS).tolist()),
        series=tuple(series),
    )


def table_json(table: Table) -> dict[str, Any]:
    """Return a table as JSON types."""
    return {
        "table": table.table,
        "kind": str(table.kind),
        "time_ms": table.time_ms,
        "series": [
            {"entity": item.entity, "signal": item.signal, "unit": item.unit, "values": item.values}
            for item in table.series
        ],
    }


def numbers(values: FloatArray, decimals: int) -> tuple[float | None, ...]:
    """Return values with that many decimals, None for NaN."""
    return tuple(None if value != value else value for value in np.round(values, decimals).tolist())  # noqa: PLR0124
