"""Merge frames of several tables and times into one."""

from collections.abc import Sequence

import numpy as np

from telemetry.entities import Entity, EntityKind
from telemetry.frames import Frame, TableSpec


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
        if not own:
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


def newest_values(kind: EntityKind, frames: Sequence[Frame]) -> Frame:
    """Return one row with the newest value of every signal and entity; ``_last`` of a rollup counts as its signal.

    The row's time is that of the newest value; without any value there is no row.
    """
    entities: dict[str, Entity] = {}
    newest: dict[tuple[str, str], tuple[int, float]] = {}
    for frame in frames:
        for i, entity in enumerate(frame.spec.entities):
            entities[entity.key] = entity
            for j, column in enumerate(frame.spec.signals):
                if not column.endswith("_last"):
                    continue
                known = np.flatnonzero(~np.isnan(frame.values[:, i, j]))
                if not len(known):
                    continue
                row = int(known[-1])
                found = (int(frame.time_ns[row]), float(frame.values[row, i, j]))
                place = (entity.key, column.removesuffix("_last"))
                newest[place] = max(newest.get(place, found), found)
    signals = tuple(dict.fromkeys(name for _, name in newest))
    rows = 1 if newest else 0
    values = np.full((rows, len(entities), len(signals)), np.nan)
    for i, key in enumerate(entities):
        for j, name in enumerate(signals):
            if (key, name) in newest:
                values[0, i, j] = newest[key, name][1]
    spec = TableSpec(name=str(kind), kind=kind, entities=tuple(entities.values()), signals=signals)
    times_ns = np.array([max(time_ns for time_ns, _ in newest.values())] if rows else [], dtype=np.int64)
    return Frame(spec=spec, time_ns=times_ns, values=values, fresh=~np.isnan(values))
