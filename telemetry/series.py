"""Read port for samples, over the ring of a running node, the embedded store, a server, or a recording.

A reader returns frames. At full rate their signals have the names of the catalogue and their rows are the updates of
the sensors. At a step of whole seconds they have the columns of a rollup (`telemetry.rollup.rollup_spec`) and one row
per step that has samples, at its start. A gap is a missing row, or NaN where other signals have a value.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from telemetry.clock import NS_PER_S
from telemetry.entities import Entity, EntityKind
from telemetry.frames import Frame, TableSpec
from telemetry.rollup import Rollup, coarsen, statistics_of

# Step of a read at full rate.
FULL_RATE = 0
# Steps for charts, in s. The long ones are whole multiples of what the embedded store keeps for a year.
STEPS_S = (1, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 10_800, 43_200, 86_400)
# heuristic: a chart is some 800 pixels wide.
MOST_STEPS = 750
# Later than any sample.
END_NS = 1 << 62


class SampleReader(Protocol):
    """Reader of samples by kind of entity, signal and time.

    Both methods raise `telemetry.errors.TransientError` where the samples cannot be read now.
    """

    def series(
        self, kind: EntityKind, signals: Sequence[str], *, start_ns: int, stop_ns: int, step_ns: int = FULL_RATE
    ) -> Frame:
        """Return signals of every entity of one kind over ``[start_ns, stop_ns)``; see the module.

        `signals` are names of the catalogue at any step. A frame without rows is no error.
        """
        ...

    def frames(self, *, start_ns: int, stop_ns: int) -> Iterator[Frame]:
        """Yield all samples of ``[start_ns, stop_ns)`` at full rate, in order of time per table."""
        ...


def step_for(span_ns: int, most_steps: int = MOST_STEPS) -> int:
    """Return the shortest step that shows a span in at most so many rows, in ns."""
    fitting = (step_s for step_s in STEPS_S if span_ns <= most_steps * step_s * NS_PER_S)
    return next(fitting, STEPS_S[-1]) * NS_PER_S


def rollup_columns(kind: EntityKind, signals: Sequence[str]) -> tuple[str, ...]:
    """Return the columns of some signals in a rollup."""
    return tuple(f"{name}_{statistic}" for name in signals for statistic in statistics_of(kind, name))


def series_of(frames: Iterable[Frame], kind: EntityKind, signals: Sequence[str], *, step_ns: int = FULL_RATE) -> Frame:
    """Return the signals of all frames of one kind; see `SampleReader.series`.

    Rollups are of polled rows with their held values, so late tables count at full rate only.

    Parameters
    ----------
    frames
        At full rate, ascending in time per table, tables in any order.
    step_ns
        Whole seconds; ValueError otherwise.
    """
    own = (narrowed(frame, signals) for frame in frames if frame.spec.kind is kind)
    if step_ns == FULL_RATE:
        return merge_frames(kind, signals, [frame for frame in own if frame.spec.signals])
    if step_ns % NS_PER_S:
        raise ValueError(f"step of {step_ns} ns: expected whole seconds")
    rollups: dict[TableSpec, Rollup] = {}
    polled = (frame for frame in own if frame.spec.signals and not frame.spec.is_late)
    seconds = [rollups.setdefault(frame.spec, Rollup(frame.spec)).feed(frame) for frame in polled]
    seconds += [rollup.flush(END_NS) for rollup in rollups.values()]
    merged = merge_frames(kind, rollup_columns(kind, signals), seconds)
    return coarsen(merged, step_ns)


def narrowed(frame: Frame, signals: Sequence[str]) -> Frame:
    """Return a frame with those of its signals that are in `signals`, in its own order."""
    kept = [index for index, name in enumerate(frame.spec.signals) if name in signals]
    if len(kept) == len(frame.spec.signals):
        return frame
    spec = replace(frame.spec, signals=tuple(frame.spec.signals[index] for index in kept))
    return Frame(spec=spec, time_ns=frame.time_ns, values=frame.values[:, :, kept], fresh=frame.fresh[:, :, kept])


def between(frame: Frame, start_ns: int, stop_ns: int) -> Frame:
    """Return the rows of ``[start_ns, stop_ns)``, whatever their order."""
    inside = (frame.time_ns >= start_ns) & (frame.time_ns < stop_ns)
    if inside.all():
        return frame
    return Frame(spec=frame.spec, time_ns=frame.time_ns[inside], values=frame.values[inside], fresh=frame.fresh[inside])


def merge_frames(kind: EntityKind, signals: Sequence[str], frames: Sequence[Frame]) -> Frame:
    """Return one frame with the asked signals of all entities in `frames`, what is not fresh left out as NaN.

    A row exists where at least one value does. Of two values for the same entity, signal and time the later frame wins;
    of two entities with the same key the later one's name and tags.
    """
    entities: dict[str, Entity] = {}
    for frame in frames:
        for entity in frame.spec.entities:
            entities[entity.key] = entity
    rows = {key: row for row, key in enumerate(entities)}
    wanted = {name: column for column, name in enumerate(signals)}
    pieces = []
    for frame in frames:
        own = [(i, wanted[name]) for i, name in enumerate(frame.spec.signals) if name in wanted]
        if not own or not len(frame):
            continue
        source, target = (list(side) for side in zip(*own, strict=True))
        kept = frame.fresh[:, :, source] & ~np.isnan(frame.values[:, :, source])
        lines = kept.any(axis=(1, 2))
        places = [rows[entity.key] for entity in frame.spec.entities]
        pieces.append((frame.time_ns[lines], kept[lines], frame.values[lines][:, :, source], places, target))
    stamps = [piece[0] for piece in pieces]
    times_ns = np.unique(np.concatenate(stamps)) if stamps else np.array([], dtype=np.int64)
    values = np.full((len(times_ns), len(entities), len(signals)), np.nan)
    for own_ns, kept, found, places, target in pieces:
        at = np.ix_(np.searchsorted(times_ns, own_ns), np.array(places), np.array(target))
        values[at] = np.where(kept, found, values[at])
    spec = TableSpec(name=str(kind), kind=kind, entities=tuple(entities.values()), signals=tuple(signals))
    return Frame(spec=spec, time_ns=times_ns, values=values, fresh=~np.isnan(values))
