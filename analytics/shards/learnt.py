"""What a panel's detectors learnt of each entity, kept over a restart, and which of their findings go on.

A baseline that took a week must not be learnt again from a path that may be ill by now, so it is taken up whatever its
age: it is frozen until a person accepts another. A finding goes on where whoever keeps the findings still holds it too;
it ends by what is measured. Everything else has to be measured again.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from analytics.detectors.condition import Conditions, set_aside
from analytics.detectors.panel import Panel, PanelState
from analytics.shards.learnt_away import Lot, beside, carried
from analytics.shards.learnt_parts import PARTS
from analytics.shards.packing import archive, opened
from analytics.shards.tree import Leaf, leaves_of, with_leaves
from telemetry.clock import NS_PER_S
from telemetry.entities import Entity
from telemetry.frames import MaskArray
from telemetry.records import Finding

LEARNT_VERSION = 2
# Heuristic: a clock that is set by a time server moves by less, and time stamps further ahead than that are no use.
_AHEAD_NS = 60 * NS_PER_S
# Heuristic: in a day somebody may have put it right, and what held before is told again within minutes of load.
_GOES_ON_NS = 86_400 * NS_PER_S
# Heuristic: no sum, count or stamp of a detector comes near, and twice as much still fits 64 bits.
_MOST, _MOST_COUNT = 1e18, 2**62
_MOST_NAMED = 3


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
    """A panel that goes on with what was kept.

    Attributes
    ----------
    going_on
        The findings that the detectors still hold.
    frozen
        When each baseline was frozen, as it was kept; those that were not taken up are among them.
    away
        What was kept of that which is not there now; whoever packs next hands it on.
    words
        What was taken up and what begins anew, in one line.
    is_whole
        Whether nothing begins anew, and nothing is away that was there before.
    """

    state: PanelState
    going_on: tuple[Finding, ...]
    frozen: Mapping[str, int]
    away: tuple[Lot, ...]
    words: str
    is_whole: bool


def name_of(finding: Finding) -> str:
    """Return name of the detector that tells it: it may tell under several, its own with a dot and more behind it."""
    return finding.detector.partition(".")[0]


def pack_learnt(
    panel: Panel, state: PanelState, now_ns: int, *, frozen: Mapping[str, int], away: Sequence[Lot] = ()
) -> bytes:
    """Return what the detectors learnt of each entity as bytes, and when it was frozen; some milliseconds for a node.

    `away` is what was kept of those that are not there.
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
    for number, lot in enumerate(away):
        arrays |= {f"away {number}/{place}": array for place, array in lot.arrays.items()}
    told = [{"detector": lot.detector, "shape": lot.shape, "kept_ns": {**lot.kept_ns}} for lot in away]
    return archive({**head, "away": told}, arrays)


def with_learnt(panel: Panel, state: PanelState, blob: bytes, *, now_ns: int, holding: Iterable[Finding]) -> Resumed:
    """Return a state at its start with what was kept, as far as it fits; `holding` are the findings that still hold.

    Raises
    ------
    ValueError
        It is damaged, or of another version: nothing of it can be taken.
    """
    kept, tally = _read(blob), _Tally()
    age_ns, states = now_ns - kept.head.kept_ns, list[Any]()
    held = tuple(holding) if -_AHEAD_NS <= age_ns <= _GOES_ON_NS else ()
    entities = {str(kind): one.spec.entities for kind, one in state.joins}
    signals = {kind: one.spec.signals for kind, one in state.joins}
    going_on, away = list[Finding](), list[Lot]()
    for detector, own in zip(panel.detectors, state.detectors, strict=True):
        after = own
        if detector.name in PARTS:
            newest = kept.newest(detector.name, str(detector.kind))
            if own is None:
                lots = kept.away(detector.name) + ([] if newest is None else kept.lasting(newest))
                away += lots
                tally.idle += [detector.name] if lots else []
            else:
                here = entities[str(detector.kind)]
                taken, left = _taken_up(detector, own, kept, here, signals=signals[detector.kind], tally=tally)
                ours = [one for one in held if newest is not None and one.entity_id in newest.kept_ns]
                after, still = _holding(detector.name, taken, own, here, held=ours)
                going_on += still
                away += left
        states.append(after)
    on = carried(away, now_ns)
    tally.note_entities(kept.head, _entities(panel, state), on)
    return Resumed(
        state=replace(state, detectors=tuple(states)),
        going_on=tuple(going_on),
        frozen={key: since_ns for key, since_ns in kept.head.frozen.items() if since_ns > 0},
        away=on,
        words=f"{_age(age_ns)}{tally.words()}",
        is_whole=age_ns >= -_AHEAD_NS and tally.is_whole,
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Kept:
    head: _Head
    arrays: Mapping[str, npt.NDArray[Any]]

    def newest(self, detector: str, kind: str) -> Lot | None:
        """Return what is kept of one detector by those that were there then."""
        ids, part = self.head.entities.get(kind, []), self.head.detectors.get(detector)
        if part is None or not ids:
            return None
        kept_ns = dict.fromkeys(ids, self.head.kept_ns)
        return Lot(detector=detector, shape=part.shape, kept_ns=kept_ns, arrays=self.under(detector))

    def away(self, detector: str) -> list[Lot]:
        """Return what is kept of one detector by those that were away then already."""
        lots = [
            Lot(detector=detector, shape=one.shape, kept_ns=one.kept_ns, arrays=self.under(f"away {number}"))
            for number, one in enumerate(self.head.away)
            if one.detector == detector
        ]
        return [lot for lot in lots if lot.fits_itself]

    def lasting(self, newest: Lot) -> list[Lot]:
        """Return of the newest what can be carried, nothing where it is damaged."""
        return [newest.lasting(self.head.detectors[newest.detector].single)] if newest.fits_itself else []

    def under(self, head: str) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays below a name."""
        return {
            name.removeprefix(f"{head}/"): array for name, array in self.arrays.items() if name.startswith(f"{head}/")
        }


@dataclass(slots=True)
class _Tally:
    """What was taken, and what begins anew and why."""

    anew: dict[str, str] = field(default_factory=dict)
    odd: dict[str, None] = field(default_factory=dict)
    known: int = 0
    new: list[str] = field(default_factory=list)
    gone: set[str] = field(default_factory=set)
    away: list[str] = field(default_factory=list)
    idle: list[str] = field(default_factory=list)

    @property
    def is_whole(self) -> bool:
        """Whether all that was there is there and goes on; what was away before is said, and no news."""
        return not (self.anew or self.odd or self.new or self.gone)

    def note_entities(self, head: _Head, now: Mapping[str, Sequence[Entity]], away: Sequence[Lot]) -> None:
        before = {one for ids in head.entities.values() for one in ids}
        old = before.union(*(one.kept_ns for one in head.away))
        ours = {one.id: one.name for every in now.values() for one in every}
        self.known = len(old & ours.keys())
        self.new = [name for entity_id, name in ours.items() if entity_id not in old]
        self.gone = before - ours.keys()
        self.away = sorted({one for lot in away for one in lot.kept_ns} - ours.keys())

    def words(self) -> str:
        said = [f"{self.known} entities go on"]
        for what, names in (("new", self.new), ("away", self.away), ("with impossible values", [*self.odd])):
            if names:
                more = ", ..." if len(names) > _MOST_NAMED else ""
                said.append(f"{len(names)} {what} ({', '.join(names[:_MOST_NAMED])}{more})")
        if self.idle:
            said.append(f"without a table: {', '.join(self.idle)}")
        if self.anew:
            said.append("anew: " + ", ".join(f"{name} ({why})" for name, why in self.anew.items()))
        return "; ".join(said)


def _read(blob: bytes) -> _Kept:
    told, arrays = opened(blob)
    if told.get("version") != LEARNT_VERSION:
        raise ValueError(f"version {told.get('version')!r}, expected {LEARNT_VERSION}")
    try:
        return _Kept(head=_Head.model_validate(told), arrays=arrays)
    except ValidationError as err:
        first = err.errors()[0]
        raise ValueError(f"head: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None


def _taken_up(
    detector: Any, start: Any, kept: _Kept, entities: Sequence[Entity], *, signals: Sequence[str], tally: _Tally
) -> tuple[Any, list[Lot]]:
    """Return a detector's state with what is known of its entities, and what is kept of those that are away."""
    shape = PARTS[detector.name].shape(getattr(detector, "limits", None), signals)
    newest, lots = kept.newest(detector.name, str(detector.kind)), kept.away(detector.name)
    state, left, here = start, [lot for lot in lots if lot.shape != shape], {one.id for one in entities}
    came = False
    for lot in (lot for lot in lots if lot.shape == shape):
        with suppress(ValueError):  # of a version with another layout: of no use any more
            old = _old_leaves(detector, start, lot, None, tally=tally)
            left.append(lot.without(here))
            state = _taken(state, old, [*lot.kept_ns], entities)
            came |= bool(here & lot.kept_ns.keys())
    if newest is None:
        if not came:
            tally.anew[detector.name] = "nothing was kept"
        return state, left
    if newest.shape != shape:
        tally.anew[detector.name] = "other settings or signals"
        return state, left + kept.lasting(newest)
    try:
        old = _old_leaves(detector, start, newest, kept.head.detectors[detector.name].single, tally=tally)
        left += [lot.without(here) for lot in kept.lasting(newest)]
        # What was there last comes last, and is what counts.
        state = _taken(state, old, [*newest.kept_ns], entities)
    except ValueError as err:
        tally.anew[detector.name] = str(err)
    return state, left


def _old_leaves(
    detector: Any, start: Any, lot: Lot, single: Mapping[str, int | None] | None, *, tally: _Tally
) -> dict[str, Leaf]:
    """Return what is kept of one detector, checked; under ``odd`` the entities of which nothing can be taken.

    Without the single values also without what lies beside them.
    """
    keeps, ids = PARTS[detector.name], [*lot.kept_ns]
    found: dict[str, Leaf] = {}
    odd = np.zeros(len(ids), dtype=np.bool_)
    leaves = {place: leaf for place, leaf in leaves_of(start).items() if keeps.keeps(place)}
    leaves = {place: leaf for place, leaf in leaves.items() if not isinstance(leaf, bool)}
    singles = [place for place, leaf in leaves.items() if not isinstance(leaf, np.ndarray)]
    for place, leaf in leaves.items():
        if single is None and beside(place, singles):
            continue
        if not isinstance(leaf, np.ndarray):
            found[place] = _single(place, single or {})
            continue
        array = lot.arrays.get(place)
        if array is None or array.dtype != leaf.dtype or array.shape != (len(ids), *leaf.shape[1:]):
            raise ValueError(f"another layout of {place}")
        odd |= _odd(array, leaf)
        found[place] = array
    odd |= keeps.odd(detector, found)
    tally.odd.update(dict.fromkeys(one for one, is_odd in zip(ids, odd.tolist(), strict=True) if is_odd))
    found["odd"] = odd
    return found


def _single(place: str, told: Mapping[str, int | None]) -> int | None:
    if place not in told:
        raise ValueError(f"without {place}")
    value = told[place]
    if value is not None and not 0 <= value < _MOST_COUNT:
        raise ValueError(f"{place} {value}")
    return value


def _odd(array: npt.NDArray[Any], start: npt.NDArray[Any]) -> MaskArray:
    """Mark the entities with a value that no detector leaves: what starts as a number never becomes none."""
    flat = array.reshape(len(array), -1)
    if array.dtype.kind == "f":
        odd = np.abs(flat) > _MOST
        if np.isinf(start).any():
            odd &= flat > 0.0
        if not np.isnan(start).any():
            odd |= np.isnan(flat)
    elif array.dtype.kind == "i":
        odd = (flat < 0) | (flat > _MOST_COUNT)
    else:
        odd = np.zeros_like(flat, dtype=np.bool_)
    marked: MaskArray = odd.any(axis=1)
    return marked


def _taken(start: Any, old: dict[str, Leaf], ids: Sequence[str], entities: Sequence[Entity]) -> Any:
    """Return a state for these entities, each with what is known of it."""
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
    """Let those findings go on that both hold, and begin anew what belongs to the others."""
    ours = {(one.entity_id, one.since_ns, one.cause): one for one in held if name_of(one) == name}
    conditions = {one.name: getattr(state, one.name) for one in fields(state)}
    conditions = {place: own for place, own in conditions.items() if isinstance(own, Conditions)}
    some, going_on, after = np.zeros(len(entities), dtype=np.bool_), [], {}
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
        after[place] = set_aside(replace(own, running=no, judged=no), ~still)
    leaves, fresh, parts = leaves_of(replace(state, **after)), leaves_of(start), PARTS[name]
    calm = some | ~parts.speaks(state)
    for place, leaf in leaves.items():
        if place.partition(".")[0] in conditions or not isinstance(leaf, np.ndarray):
            continue
        if parts.holds(place) or parts.tells(place):
            stays = some if parts.holds(place) else calm
            none: Any = fresh[place]
            leaves[place] = np.where(stays.reshape(-1, *[1] * (leaf.ndim - 1)), leaf, none)
    return with_leaves(state, leaves), tuple(going_on)


def _entities(panel: Panel, state: PanelState) -> dict[str, tuple[Entity, ...]]:
    """Return the entities of each kind of which something is learnt."""
    kinds = {
        detector.kind
        for detector, own in zip(panel.detectors, state.detectors, strict=True)
        if own is not None and detector.name in PARTS
    }
    return {str(kind): one.spec.entities for kind, one in state.joins if kind in kinds}


def _age(age_ns: int) -> str:
    seconds = abs(age_ns) / NS_PER_S
    amount = f"{seconds / 86_400:.0f} d" if seconds > 2 * 86_400 else f"{seconds / 60:.0f} min"
    if age_ns < -_AHEAD_NS:
        return f"it stands {amount} ahead of this clock, so findings are measured again; "
    again = ", findings are measured again" if age_ns > _GOES_ON_NS else ""
    return f"{amount} old{again}; "
