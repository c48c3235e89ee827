"""State of a whole panel: rearranged when entities come or go, and packed as bytes."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy.typing as npt

from analytics.detectors.joined_columns import ColumnJoin
from analytics.detectors.panel import Panel, PanelState
from analytics.detectors.table_join import JoinState
from analytics.shards.packing import VERSION, ShardLabel, archive, joined, opened, parted
from analytics.shards.shard import Shard, arranged
from telemetry.entities import EntityKind
from telemetry.frames import FloatArray, TableSpec


def rearranged(panel: Panel, state: PanelState, specs: Sequence[TableSpec]) -> PanelState:
    """Return the state for other tables: known entities continue, new ones start, absent ones are dropped."""
    fresh = panel.start(specs)
    return _carried(panel, fresh, state, entities=_entities(state))


def pack_panel(panel: Panel, state: PanelState) -> bytes:
    """Return the state of every frame detector as bytes, with the panel's own state.

    Event detectors are left out: their events are delivered again.
    """
    arrays: dict[str, npt.NDArray[Any]] = {}
    detectors: dict[str, Any] = {}
    for detector, own in zip(panel.detectors, state.detectors, strict=True):
        if own is None:
            continue
        label = ShardLabel.of(detector)
        own_arrays, rest = parted(own)
        arrays |= {f"{detector.name}/{place}": array for place, array in own_arrays.items()}
        detectors[detector.name] = {
            "detector": label.detector, "limits": label.limits, "layout": label.layout, "rest": rest
        }  # fmt: skip
    for kind, one in state.joins:
        arrays[f"join/{kind}"] = one.values
    for name, column_joins in _column_joins(panel, state):
        for column_join in column_joins:
            arrays[f"loan/{name}/{column_join.terms.name}"] = column_join.values
    head = {
        "version": VERSION,
        "detectors": detectors,
        "entities": _entities(state),
        "signals": {str(kind): one.spec.signals for kind, one in state.joins},
        "last_ns": {str(kind): one.last_ns for kind, one in state.joins},
    }
    return archive(head, arrays)


def unpack_panel(panel: Panel, specs: Sequence[TableSpec], blob: bytes) -> PanelState:
    """Return the packed state, arranged for these tables.

    Raises
    ------
    ValueError
        It is damaged, or a detector's part is of another version or of other limits.
    """
    head, arrays = opened(blob)
    if head.get("version") != VERSION:
        raise ValueError(f"state of a panel: version {head.get('version')!r}, expected {VERSION}")
    fresh = panel.start(specs)
    signals = {str(kind): list(one.spec.signals) for kind, one in fresh.joins if str(kind) in head["signals"]}
    if signals != {kind: names for kind, names in head["signals"].items() if kind in signals}:
        raise ValueError("state of a panel: its tables have other signals")
    entities = {EntityKind(kind): tuple(ids) for kind, ids in head["entities"].items()}
    states: list[Any] = []
    for detector, own in zip(panel.detectors, fresh.detectors, strict=True):
        kept = head["detectors"].get(detector.name)
        if own is None or kept is None:
            states.append(None)
            continue
        ShardLabel.of(detector).check(kept)
        states.append(joined(own, _under(arrays, f"{detector.name}/"), kept["rest"]))
    before = PanelState(
        joins=tuple(
            (kind, replace(one, values=arrays[f"join/{kind}"], last_ns=head["last_ns"][kind]))
            for kind, one in fresh.joins
            if f"join/{kind}" in arrays
        ),
        detectors=tuple(states),
        column_joins=tuple(
            tuple(
                replace(column_join, values=arrays.get(f"loan/{name}/{column_join.terms.name}", column_join.values))
                for column_join in column_joins
            )
            for name, column_joins in _column_joins(panel, fresh)
        ),
        event_detectors=fresh.event_detectors,
    )
    return _carried(panel, fresh, before, entities=entities)


def _carried(
    panel: Panel, fresh: PanelState, before: PanelState, *, entities: Mapping[EntityKind, tuple[str, ...]]
) -> PanelState:
    now = _entities(fresh)
    states: list[Any] = []
    for detector, start, own in zip(panel.detectors, fresh.detectors, before.detectors, strict=True):
        if start is None or own is None:
            states.append(start)
            continue
        old = Shard(entities=entities[detector.kind], state=own)
        states.append(arranged(Shard(entities=now[detector.kind], state=start), [old]).state)
    joins = dict(before.joins)
    return replace(
        fresh,
        joins=tuple((kind, _join(one, joins.get(kind), entities.get(kind, ()))) for kind, one in fresh.joins),
        detectors=tuple(states),
        column_joins=tuple(
            tuple(_column_join(column_join, old, entities) for column_join, old in zip(column_joins, olds, strict=True))
            for column_joins, olds in zip(fresh.column_joins, before.column_joins, strict=True)
        ),
        event_detectors=before.event_detectors,
    )


def _join(fresh: JoinState, before: JoinState | None, entities: tuple[str, ...]) -> JoinState:
    if before is None:
        return fresh
    ids = tuple(entity.id for entity in fresh.spec.entities)
    return replace(fresh, values=_moved(fresh.values, ids, before.values, entities), last_ns=before.last_ns)


def _column_join(fresh: ColumnJoin, before: ColumnJoin, entities: Mapping[EntityKind, tuple[str, ...]]) -> ColumnJoin:
    if fresh.source_spec is None or not before.values.size:
        return fresh
    ids = tuple(entity.id for entity in fresh.source_spec.entities)
    return replace(fresh, values=_moved(fresh.values, ids, before.values, entities[fresh.terms.kind]))


def _moved(start: FloatArray, ids: Sequence[str], given: FloatArray, given_ids: Sequence[str]) -> FloatArray:
    rows = {entity_id: row for row, entity_id in enumerate(given_ids)}
    made = start.copy()
    for place, entity_id in enumerate(ids):
        if entity_id in rows:
            made[place] = given[rows[entity_id]]
    return made


def _entities(state: PanelState) -> dict[EntityKind, tuple[str, ...]]:
    return {kind: tuple(entity.id for entity in one.spec.entities) for kind, one in state.joins}


def _column_joins(panel: Panel, state: PanelState) -> list[tuple[str, tuple[ColumnJoin, ...]]]:
    return [
        (detector.name, column_joins)
        for detector, column_joins in zip(panel.detectors, state.column_joins, strict=True)
    ]


def _under(arrays: Mapping[str, npt.NDArray[Any]], head: str) -> dict[str, npt.NDArray[Any]]:
    return {name.removeprefix(head): array for name, array in arrays.items() if name.startswith(head)}
