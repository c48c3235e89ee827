"""Faults of a recording as it was written: found in its rows, named in one line each, left out and counted.

- Readings of -1 or -2 where no reading can be negative: analysers and loggers write them for a read that failed. Of
  a coarse meter of something that is off, which shows 0 and 2 as well, they are readings.
- Several readings of one signal at one time: all but the first.
- An entity whose clock is off: its readings begin and end whole half hours before or after those of the others.
- A channel that shows the mean or the sum of the other feeds, as analysers add one: it is no feed of its own.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from analytics.connectivity import GroupArray
from telemetry.clock import NS_PER_S
from telemetry.entities import EntityKind, label_of
from telemetry.frames import FloatArray, MaskArray
from telemetry.recording import Recording
from telemetry.recording_rows import TICK, SampleRows

_FAILED = (-1.0, -2.0)
# Volts, amperes and watts of supplies, feeds, nodes and GPUs are not negative.
_NOT_NEGATIVE = ("_v", "_a", "_w")
# Clocks are set to another zone by half hours (IANA time zone database); heuristic: within a minute and a half.
_ZONE_S, _ZONE_WITHIN_S = 1800.0, 90.0
# heuristic: fewer readings, such as a limit that is written once, have no beginning and end.
_LEAST_READINGS = 10
# heuristic: readings of thousandths in some amperes are rounded by less, and feeds that share alike differ by more.
_ROUNDING, _LEAST_ROWS, _ALIKE_PART = 3e-4, 30, 0.99
_MAINS_V = 90.0
_VOLTS = ("voltage_v", "input_voltage_v", "mains_voltage_v")
_SUMMED = ("power_w", "input_power_w", "mains_power_w", "node_power_w")
_AVERAGED = ("current_a", "input_current_a", "mains_current_a", *_SUMMED)
_MOST_NAMES = 4

Key = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """Readings that were left out of a recording: how many, and why in one line."""

    readings: int
    text: str


def cleaned(read: Recording) -> tuple[Recording, tuple[LeftOut, ...]]:
    """Return a recording without the readings that are none, and what was left out.

    What the flight recorder kept with the steps of a live guard is replayed as the guard saw it.
    """
    if "first_rows" in read.meta.about:
        return read, ()
    left: list[LeftOut] = []
    for find in (_failed, _doubled, _off_clocks, _derived):
        for mask, text in find(read.samples):
            count = int(np.count_nonzero(mask))
            left.append(LeftOut(readings=count, text=text.format(count=count)))
            read = replace(read, samples=_without(read.samples, mask))
    return read, tuple(left)


def _without(samples: SampleRows, mask: MaskArray) -> SampleRows:
    kept = ~mask
    return replace(samples, time_ns=samples.time_ns[kept], place=samples.place[kept], value=samples.value[kept])


def _failed(samples: SampleRows) -> Iterable[tuple[MaskArray, str]]:
    candidates = np.array([signal.endswith(_NOT_NEGATIVE) for _, _, signal in samples.places], dtype=np.bool_)
    if not candidates.any():
        return
    negative = candidates[samples.place] & np.isin(samples.value, _FAILED)
    if not negative.any():
        return
    small = (np.abs(samples.value) <= -min(_FAILED)) & ~negative
    near_zero = np.bincount(samples.place, weights=small, minlength=len(samples.places)) > 0
    mask = negative & ~near_zero[samples.place]
    # What was read together failed together.
    of_entity, _ = _entities(samples)
    reads = np.stack((of_entity, samples.time_ns), axis=1)
    failed = {(one, at) for one, at in reads[mask].tolist()}
    rest = np.flatnonzero(negative & ~mask)
    mask[rest] = [(one, at) in failed for one, at in reads[rest].tolist()]
    if mask.any():
        count = len(np.unique(samples.time_ns[mask]))
        times = f"{count} times" if count > 1 else "one time"
        number = " or ".join(f"{value:g}" for value in _FAILED if (samples.value[mask] == value).any())
        yield mask, f"{{count}} readings of {number} at {times} ({_names(samples, mask)}): failed reads, left out"


def _doubled(samples: SampleRows) -> Iterable[tuple[MaskArray, str]]:
    order = np.lexsort((samples.time_ns, samples.place))
    place, time_ns = samples.place[order], samples.time_ns[order]
    again = np.zeros(len(order), dtype=np.bool_)
    again[1:] = (place[1:] == place[:-1]) & (time_ns[1:] == time_ns[:-1])
    mask = np.zeros(len(order), dtype=np.bool_)
    mask[order] = again
    mask &= np.array([kind != TICK for kind, _, _ in samples.places], dtype=np.bool_)[samples.place]
    if mask.any():
        yield mask, f"{{count}} readings have the stamp of the one before ({_names(samples, mask)}): left out"


def _off_clocks(samples: SampleRows) -> Iterable[tuple[MaskArray, str]]:
    spans = _spans(samples)
    if len(spans) < 2:
        return
    right = _reference(spans)
    start_s, end_s = np.median([spans[key][:2] for key in right], axis=0)
    for key, (first_s, last_s, _) in spans.items():
        off_s = first_s - start_s
        apart_s = abs((last_s - end_s) - off_s)
        zones = round(off_s / _ZONE_S)
        if key in right or not zones or apart_s > _ZONE_WITHIN_S or abs(off_s - zones * _ZONE_S) > _ZONE_WITHIN_S:
            continue
        way = "behind" if off_s < 0 else "ahead of"
        hours = f"{abs(zones) / 2:g} h"
        text = f"clock of {key[0]} {label_of(key[1])} is {hours} {way} the others: its {{count}} readings left out"
        yield _of_entities(samples, [key]), text


def _spans(samples: SampleRows) -> dict[Key, tuple[float, float, int]]:
    """Return the first and last time (s) and the number of readings of each entity that has enough of them."""
    number, keys = _entities(samples)
    spans = {}
    for place, key in enumerate(keys):
        times_ns = samples.time_ns[number == place]
        if len(times_ns) >= _LEAST_READINGS and key[0] != TICK:
            spans[key] = (times_ns[0] / NS_PER_S, times_ns[-1] / NS_PER_S, len(times_ns))
    return spans


def _reference(spans: dict[Key, tuple[float, float, int]]) -> list[Key]:
    """Return the entities that begin within half a zone of each other and are most, by their readings if as many."""
    groups = [[other for other in spans if abs(spans[other][0] - spans[key][0]) < _ZONE_S / 2.0] for key in spans]
    return max(groups, key=lambda group: (len(group), sum(spans[key][2] for key in group)))


def _derived(samples: SampleRows) -> Iterable[tuple[MaskArray, str]]:
    for kind in (str(EntityKind.SUPPLY), str(EntityKind.NODE)):
        for one, what, others in _derived_channels(samples, kind):
            names = ", ".join(label_of(other) for other in others[:_MOST_NAMES])
            more = f" and {len(others) - _MOST_NAMES} more" if len(others) > _MOST_NAMES else ""
            text = f"{label_of(one)} shows the {what} of {names}{more}: its {{count}} readings left out"
            yield _of_entities(samples, [(kind, one)]), text


def _derived_channels(samples: SampleRows, kind: str) -> Iterable[tuple[str, str, list[str]]]:
    """Yield channels that are the sum or the mean of all others, the first of them by name where several fit."""
    tables = {signal: _table(samples, kind, signal) for signal in (*_AVERAGED, *_VOLTS)}
    rails = {
        name
        for signal in _VOLTS
        for name, column in _columns(tables[signal])
        if np.isfinite(column).any() and 1.0 < np.nanmedian(column) <= _MAINS_V
    }
    found: set[str] = set()
    for signal in _AVERAGED:
        columns = [(name, column) for name, column in _columns(tables[signal]) if name not in rails | found]
        for name, column in columns:
            others = [other for key, other in columns if key != name]
            if len(others) < 2 or name in found:
                continue
            whole = np.sum(others, axis=0)
            if signal in _SUMMED and _is(column, whole):
                found.add(name)
                yield name, "sum", [key for key, _ in columns if key != name]
            elif _is(column, whole / len(others)):
                found.add(name)
                yield name, "mean", [key for key, _ in columns if key != name]


def _is(column: FloatArray, other: FloatArray) -> bool:
    """Return True if a channel follows another one within rounding while it moves."""
    known = np.isfinite(column) & np.isfinite(other) & (np.abs(column) > 0.0)
    known[1:] &= column[1:] != column[:-1]
    if np.count_nonzero(known) < _LEAST_ROWS:
        return False
    alike = np.abs(column[known] - other[known]) <= _ROUNDING * np.abs(column[known])
    return bool(alike.mean() >= _ALIKE_PART)


Table = tuple[Sequence[str], FloatArray]


def _table(samples: SampleRows, kind: str, signal: str) -> Table:
    """Return the entities of a kind that have a signal, and its values at each time, NaN where there is none."""
    places = {place: entity for place, (k, entity, s) in enumerate(samples.places) if k == kind and s == signal}
    rows = np.flatnonzero(np.isin(samples.place, list(places)))
    stamps, at = np.unique(samples.time_ns[rows], return_inverse=True)
    columns = {place: column for column, place in enumerate(places)}
    values = np.full((len(stamps), len(places)), np.nan)
    values[at, [columns[place] for place in samples.place[rows].tolist()]] = samples.value[rows]
    return list(places.values()), values


def _columns(table: Table) -> list[tuple[str, FloatArray]]:
    names, values = table
    return [(name, values[:, column]) for column, name in enumerate(names)]


def _entities(samples: SampleRows) -> tuple[GroupArray, list[Key]]:
    """Return the number of the entity of each row, and the entities by number."""
    numbers: dict[Key, int] = {}
    of_place = [numbers.setdefault((kind, entity), len(numbers)) for kind, entity, _ in samples.places]
    return np.array(of_place, dtype=np.intp)[samples.place], list(numbers)


def _of_entities(samples: SampleRows, keys: Sequence[Key]) -> MaskArray:
    wanted = [(kind, entity) in keys for kind, entity, _ in samples.places]
    return np.array(wanted, dtype=np.bool_)[samples.place]


def _names(samples: SampleRows, mask: MaskArray) -> str:
    """Return the entities of some rows, the first few by name."""
    named = dict.fromkeys(samples.places[place][:2] for place in np.unique(samples.place[mask]).tolist())
    labels = [f"{kind} {label_of(entity)}" for kind, entity in named]
    more = f" and {len(labels) - _MOST_NAMES} more" if len(labels) > _MOST_NAMES else ""
    return ", ".join(labels[:_MOST_NAMES]) + more
