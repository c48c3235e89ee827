"""Learnt baselines of a panel, saved over a restart, and the findings that continue.

A baseline that took a week must not be learnt again from a path that may be faulty by now. It is loaded at any age and
stays frozen until an operator accepts another. A finding continues where the incident book still holds it, and
clears by measurement. Everything else is measured again.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from analytics.detectors.condition import Conditions, clear_where
from analytics.detectors.panel import Panel, PanelState
from analytics.shards.learnt_batches import AHEAD_NS, CONTINUES_NS, LearntBatch, RestartSummary, carried, in_group_of
from analytics.shards.learnt_parts import PARTS
from analytics.shards.packing import archive, opened
from analytics.shards.shard import Leaf, leaves_of, with_leaves
from telemetry.entities import Entity
from telemetry.frames import MaskArray
from telemetry.records import Finding

LEARNT_VERSION = 2
# Fields of `Conditions` that files of version 2 may hold under their former names.
_RENAMED_FIELDS = {"told_ns": "reported_ns", "told_badness": "reported_badness"}
# heuristic: no sum, count or stamp of a detector comes near, and twice as much still fits 64 bits.
_MOST, _MOST_COUNT = 1e18, 2**62


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    shape: str
    single: dict[str, int | None]


class _Away(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    detector: str
    shape: str
    kept_ns: dict[str, int]


class _Head(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    version: int
    kept_ns: int
    detectors: dict[str, _Part]
    entities: dict[str, list[str]]
    frozen: dict[str, int]
    away: list[_Away] = Field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed:
    """Panel state after a restart, with what was loaded.

    Attributes
    ----------
    going_on
        Findings that the detectors still hold.
    frozen
        When each saved baseline was frozen, those that were not loaded included.
    away
        Saved baselines of entities that are absent now; pass them to the next `pack_learnt`.
    summary
        What was loaded and what is learnt again, in one line.
    is_whole
        True if nothing is learnt again, and nothing is absent that was present before.
    """

    state: PanelState
    going_on: tuple[Finding, ...]
    frozen: Mapping[str, int]
    away: tuple[LearntBatch, ...]
    summary: str
    is_whole: bool


def name_of(finding: Finding) -> str:
    """Return the detector of a finding; findings may carry its name with a suffix after a dot."""
    return finding.detector.partition(".")[0]


def pack_learnt(
    panel: Panel, state: PanelState, now_ns: int, *, frozen: Mapping[str, int], away: Sequence[LearntBatch] = ()
) -> bytes:
    """Return the learnt baselines of every entity as bytes; some milliseconds for a node.

    `frozen` has the time at which each baseline was frozen, `away` holds those of absent entities.
    """
    arrays: dict[str, npt.NDArray[Any]] = {}
    parts: dict[str, Any] = {}
    entities = _entities(panel, state)
    signals = {str(kind): one.spec.signals for kind, one in state.joins}
    for detector, own in zip(panel.detectors, state.detectors, strict=True):
        keeps = PARTS.get(detector.name)
        if own is None or keeps is None:
            continue
        kept = {place: leaf for place, leaf in leaves_of(own).items() if keeps.keeps(place)}
        arrays |= {f"{detector.name}/{place}": leaf for place, leaf in kept.items() if isinstance(leaf, np.ndarray)}
        parts[detector.name] = {
            "shape": keeps.shape(getattr(detector, "limits", None), signals[str(detector.kind)]),
            "single": {place: leaf for place, leaf in kept.items() if not isinstance(leaf, (np.ndarray, bool))},
        }
    ids = {kind: [one.id for one in every] for kind, every in entities.items()}
    head = {"version": LEARNT_VERSION, "kept_ns": now_ns, "detectors": parts, "entities": ids, "frozen": {**frozen}}
    for number, batch in enumerate(away):
        arrays |= {f"away {number}/{place}": array for place, array in batch.arrays.items()}
    absent = [{"detector": batch.detector, "shape": batch.shape, "kept_ns": {**batch.kept_ns}} for batch in away]
    return archive({**head, "away": absent}, arrays)


def with_learnt(panel: Panel, state: PanelState, blob: bytes, *, now_ns: int, holding: Iterable[Finding]) -> Resumed:
    """Return a start state with the saved baselines that fit; `holding` are the findings that still hold.

    Raises
    ------
    ValueError
        The file is damaged or of another version: nothing of it can be loaded.
    """
    kept, summary = _read(blob), RestartSummary()
    age_ns, states = now_ns - kept.head.kept_ns, list[Any]()
    held = tuple(holding) if -AHEAD_NS <= age_ns <= CONTINUES_NS else ()
    entities = {str(kind): one.spec.entities for kind, one in state.joins}
    signals = {kind: one.spec.signals for kind, one in state.joins}
    going_on, away = list[Finding](), list[LearntBatch]()
    for detector, own in zip(panel.detectors, state.detectors, strict=True):
        after = own
        if detector.name in PARTS:
            newest = kept.newest(detector.name, str(detector.kind))
            if own is None:
                batches = kept.away(detector.name) + ([] if newest is None else kept.lasting(newest))
                away += batches
                summary.idle += [detector.name] if batches else []
            else:
                here = entities[str(detector.kind)]
                taken, left = _taken_up(detector, own, kept, here, signals=signals[detector.kind], summary=summary)
                ours = [one for one in held if newest is not None and one.entity_id in newest.kept_ns]
                after, still = _holding(detector.name, taken, own, here, held=ours)
                going_on += still
                away += left
        states.append(after)
    on = carried(away, now_ns)
    summary.note_entities(
        {one for ids in kept.head.entities.values() for one in ids},
        {one for batch in kept.head.away for one in batch.kept_ns},
        _entities(panel, state),
        on,
    )
    return Resumed(
        state=replace(state, detectors=tuple(states)),
        going_on=tuple(going_on),
        frozen={key: since_ns for key, since_ns in kept.head.frozen.items() if since_ns > 0},
        away=on,
        summary=summary.text(age_ns),
        is_whole=age_ns >= -AHEAD_NS and summary.is_whole,
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Kept:
    head: _Head
    arrays: Mapping[str, npt.NDArray[Any]]

    def newest(self, detector: str, kind: str) -> LearntBatch | None:
        """Return the saved batch of one detector, for the entities that were present then."""
        ids, part = self.head.entities.get(kind, []), self.head.detectors.get(detector)
        if part is None or not ids:
            return None
        kept_ns = dict.fromkeys(ids, self.head.kept_ns)
        return LearntBatch(detector=detector, shape=part.shape, kept_ns=kept_ns, arrays=self.under(detector))

    def away(self, detector: str) -> list[LearntBatch]:
        """Return the saved batches of one detector, for entities that were already absent then."""
        batches = [
            LearntBatch(detector=detector, shape=one.shape, kept_ns=one.kept_ns, arrays=self.under(f"away {number}"))
            for number, one in enumerate(self.head.away)
            if one.detector == detector
        ]
        return [batch for batch in batches if batch.fits_itself]

    def lasting(self, newest: LearntBatch) -> list[LearntBatch]:
        """Return the part of the newest batch that can be carried over; empty if it is damaged."""
        return [newest.lasting(self.head.detectors[newest.detector].single)] if newest.fits_itself else []

    def under(self, head: str) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays below a name, without that name."""
        return {
            name.removeprefix(f"{head}/"): array for name, array in self.arrays.items() if name.startswith(f"{head}/")
        }


def _read(blob: bytes) -> _Kept:
    head, arrays = opened(blob)
    if head.get("version") != LEARNT_VERSION:
        raise ValueError(f"version {head.get('version')!r}, expected {LEARNT_VERSION}")
    try:
        return _Kept(
            head=_Head.model_validate(head), arrays={_current_name(name): array for name, array in arrays.items()}
        )
    except ValidationError as err:
        first = err.errors()[0]
        raise ValueError(f"head: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None


def _current_name(name: str) -> str:
    """Return the name that an array has now; files written before a field was renamed still load."""
    head, dot, last = name.rpartition(".")
    return f"{head}{dot}{_RENAMED_FIELDS.get(last, last)}"


def _taken_up(
    detector: Any,
    start: Any,
    kept: _Kept,
    entities: Sequence[Entity],
    *,
    signals: Sequence[str],
    summary: RestartSummary,
) -> tuple[Any, list[LearntBatch]]:
    """Return a detector's state with the saved rows of its entities, and the batches of absent ones."""
    shape = PARTS[detector.name].shape(getattr(detector, "limits", None), signals)
    newest, batches = kept.newest(detector.name, str(detector.kind)), kept.away(detector.name)
    state, left, here = start, [batch for batch in batches if batch.shape != shape], {one.id for one in entities}
    came = False
    for batch in (batch for batch in batches if batch.shape == shape):
        with suppress(ValueError):  # another version's layout: no use any more
            old = _old_leaves(detector, start, batch, None, summary=summary)
            left.append(batch.without(here))
            state = _taken(state, old, [*batch.kept_ns], entities)
            came |= bool(here & batch.kept_ns.keys())
    if newest is None:
        if not came:
            summary.restarted[detector.name] = "nothing was saved"
        return state, left
    if newest.shape != shape:
        summary.restarted[detector.name] = "settings or signals changed"
        return state, left + kept.lasting(newest)
    try:
        old = _old_leaves(detector, start, newest, kept.head.detectors[detector.name].single, summary=summary)
        left += [batch.without(here) for batch in kept.lasting(newest)]
        # The newest batch comes last and wins.
        state = _taken(state, old, [*newest.kept_ns], entities)
    except ValueError as err:
        summary.restarted[detector.name] = str(err)
    return state, left


def _old_leaves(
    detector: Any, start: Any, batch: LearntBatch, single: Mapping[str, int | None] | None, *, summary: RestartSummary
) -> dict[str, Leaf]:
    """Return the saved leaves of one detector, checked; under ``odd`` the entities with impossible values.

    Without the single values, leaves of the same group are left out too.
    """
    keeps, ids = PARTS[detector.name], [*batch.kept_ns]
    found: dict[str, Leaf] = {}
    odd = np.zeros(len(ids), dtype=np.bool_)
    leaves = {place: leaf for place, leaf in leaves_of(start).items() if keeps.keeps(place)}
    leaves = {place: leaf for place, leaf in leaves.items() if not isinstance(leaf, bool)}
    singles = [place for place, leaf in leaves.items() if not isinstance(leaf, np.ndarray)]
    for place, leaf in leaves.items():
        if single is None and in_group_of(place, singles):
            continue
        if not isinstance(leaf, np.ndarray):
            found[place] = _single(place, single or {})
            continue
        array = batch.arrays.get(place, batch.arrays.get(place.removeprefix(keeps.moved_to)))
        if array is None and keeps.is_added(place):
            array = np.full((len(ids), *leaf.shape[1:]), leaf.flat[0] if leaf.size else 0, dtype=leaf.dtype)
        if array is None or array.dtype != leaf.dtype or array.shape != (len(ids), *leaf.shape[1:]):
            raise ValueError(f"layout of {place} changed")
        odd |= _odd(array, leaf)
        found[place] = array
    odd |= keeps.odd(detector, found)
    summary.odd.update(dict.fromkeys(one for one, is_odd in zip(ids, odd.tolist(), strict=True) if is_odd))
    found["odd"] = odd
    return found


def _single(place: str, singles: Mapping[str, int | None]) -> int | None:
    if place not in singles:
        raise ValueError(f"{place} is missing")
    value = singles[place]
    if value is not None and not 0 <= value < _MOST_COUNT:
        raise ValueError(f"{place} is {value}: out of range")
    return value


def _odd(array: npt.NDArray[Any], start: npt.NDArray[Any]) -> MaskArray:
    """Return a mask of entities with impossible values: too large, negative, or NaN where the start state has none.

    An infinity with which the start state begins is a lowest or highest value before the first.
    """
    flat = array.reshape(len(array), -1)
    if array.dtype.kind == "f":
        begins = np.isinf(flat) & np.isin(flat, start[np.isinf(start)])
        odd = (np.abs(flat) > _MOST) & ~begins
        if not np.isnan(start).any():
            odd |= np.isnan(flat)
    elif array.dtype.kind == "i":
        odd = (flat < 0) | (flat > _MOST_COUNT)
    else:
        odd = np.zeros_like(flat, dtype=np.bool_)
    marked: MaskArray = odd.any(axis=1)
    return marked


def _taken(start: Any, old: dict[str, Leaf], ids: Sequence[str], entities: Sequence[Entity]) -> Any:
    """Return a state for these entities, each with its saved row."""
    odd = np.asarray(old.pop("odd"))
    rows = {entity_id: row for row, entity_id in enumerate(ids) if not odd[row]}
    pairs = [(place, rows[one.id]) for place, one in enumerate(entities) if one.id in rows]
    here, there = [place for place, _ in pairs], [row for _, row in pairs]
    leaves = leaves_of(start)
    for place, leaf in old.items():
        if isinstance(leaf, np.ndarray):
            made = np.array(leaves[place])
            made[here] = leaf[there]
            leaves[place] = made
        else:
            leaves[place] = leaf
    return with_leaves(start, leaves)


def _holding(
    name: str, state: Any, start: Any, entities: Sequence[Entity], *, held: Sequence[Finding]
) -> tuple[Any, tuple[Finding, ...]]:
    """Keep the findings that both sides hold, and reset what belongs to the others."""
    ours = {(one.entity_id, one.since_ns, one.cause): one for one in held if name_of(one) == name}
    conditions = {place: own for place, own in conditions_of(state) if place in PARTS[name].causes}
    some, going_on = np.zeros(len(entities), dtype=np.bool_), []
    after: dict[str, Leaf] = {}
    for place, own in conditions.items():
        still = np.zeros(len(entities), dtype=np.bool_)
        for row in np.flatnonzero(own.active).tolist():
            about = entities[row].id, int(own.since_ns[row])
            finding = next(
                (ours[*about, cause] for cause in PARTS[name].causes[place] if (*about, cause) in ours), None
            )
            if finding is not None:
                still[row] = True
                going_on.append(finding)
        some |= still
        no = np.zeros_like(still)
        cleared = clear_where(replace(own, running=no, judged=no), ~still)
        after |= {f"{place}.{part}": leaf for part, leaf in leaves_of(cleared).items()}
    leaves, fresh, parts = leaves_of(state) | after, leaves_of(start), PARTS[name]
    calm = some | ~parts.has_enough(state)
    for place, leaf in leaves.items():
        if place in after or not isinstance(leaf, np.ndarray):
            continue
        if parts.holds(place) or parts.gathers(place):
            stays = some if parts.holds(place) else calm
            none: Any = fresh[place]
            leaves[place] = np.where(stays.reshape(-1, *[1] * (leaf.ndim - 1)), leaf, none)
    return with_leaves(state, leaves), tuple(going_on)


def conditions_of(state: Any, place: str = "") -> Iterator[tuple[str, Conditions]]:
    """Yield the conditions of a state with their places in its tree."""
    for field in fields(state):
        own = getattr(state, field.name)
        if isinstance(own, Conditions):
            yield f"{place}{field.name}", own
        elif is_dataclass(own):
            yield from conditions_of(own, f"{place}{field.name}.")


def _entities(panel: Panel, state: PanelState) -> dict[str, tuple[Entity, ...]]:
    """Return the entities of each kind that has baselines."""
    kinds = {
        detector.kind
        for detector, own in zip(panel.detectors, state.detectors, strict=True)
        if own is not None and detector.name in PARTS
    }
    return {str(kind): one.spec.entities for kind, one in state.joins if kind in kinds}
