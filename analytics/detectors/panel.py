"""Panel of all detectors over the tables of a node or a fleet: frames and events in, findings out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from analytics.detectors.baseline_acceptance import reset_baselines
from analytics.detectors.build import AnyDetector, AnyEventDetector, build_detectors, build_event_detectors
from analytics.detectors.joined_columns import ColumnJoin, JoinedColumn, held, widen, widened
from analytics.detectors.judged_spans import ReadingSpans, has_rails, spans_of
from analytics.detectors.limits import DetectorLimits
from analytics.detectors.supply_outputs import outputs_as_rails
from analytics.detectors.table_join import JoinState, join, start_join
from analytics.judged import DIPS, Judged
from physics.wiring import Wiring
from telemetry.entities import EntityKind, Topology
from telemetry.frames import Frame, TableSpec
from telemetry.records import Event, Finding


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PanelState:
    """The joined tables by kind, and the state of each detector, None for one whose signals no table has.

    `column_joins` holds, per detector, the columns joined from tables of other kinds, `readings` per table of rails
    since when each rail was read.
    """

    joins: tuple[tuple[EntityKind, JoinState], ...]
    detectors: tuple[Any, ...]
    column_joins: tuple[tuple[ColumnJoin, ...], ...]
    event_detectors: tuple[Any, ...]
    readings: Mapping[str, ReadingSpans] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """Runs the detectors, each on the joined table of its kind."""

    detectors: tuple[AnyDetector, ...]
    event_detectors: tuple[AnyEventDetector, ...]

    @staticmethod
    def build(limits: DetectorLimits, wiring: Wiring | None = None) -> "Panel":
        """Return a panel of all detectors; `wiring` is the described one of a node."""
        return Panel(detectors=build_detectors(limits, wiring), event_detectors=build_event_detectors(limits))

    def start(self, specs: Sequence[TableSpec]) -> PanelState:
        """Return the state before the first row of these tables."""
        kinds = tuple(dict.fromkeys(spec.kind for spec in specs))
        columns = outputs_as_rails(specs)
        joins = tuple((kind, start_join([spec for spec in columns if spec.kind is kind])) for kind in kinds)
        by_kind = {kind: joined.spec for kind, joined in joins}
        return PanelState(
            joins=joins,
            detectors=tuple(
                detector.start(widened(by_kind[detector.kind], _joined_columns(detector)))
                if _can_judge(detector, by_kind)
                else None
                for detector in self.detectors
            ),
            column_joins=tuple(
                tuple(ColumnJoin.of(terms, by_kind.get(terms.kind)) for terms in _joined_columns(detector))
                for detector in self.detectors
            ),
            event_detectors=tuple(detector.start() for detector in self.event_detectors),
            readings={spec.name: ReadingSpans.start(spec) for spec in specs if self._sees_dips and has_rails(spec)},
        )

    def resumed(self, state: PanelState, before: PanelState) -> tuple[PanelState, frozenset[str]]:
        """Return a state over other tables with what goes on of the one before, and the names of detectors that do.

        A detector goes on where its own table is the same, and the same columns join it.
        """
        was = dict(before.joins)
        same = {kind for kind, joined in state.joins if kind in was and was[kind].spec == joined.spec}
        columns = [[*zip(*pair, strict=True)] for pair in zip(before.column_joins, state.column_joins, strict=True)]
        goes_on = [
            detector.kind in same and all((old.source_spec is None) == (new.source_spec is None) for old, new in pairs)
            for detector, pairs in zip(self.detectors, columns, strict=True)
        ]
        joins = tuple(
            (kind, replace(joined, values=was[kind].values, last_ns=was[kind].last_ns) if kind in same else joined)
            for kind, joined in state.joins
        )
        own = zip(goes_on, before.detectors, state.detectors, strict=True)
        after = replace(
            state,
            joins=joins,
            detectors=tuple(old if goes else new for goes, old, new in own),
            column_joins=tuple(
                tuple(old if old.source_spec == new.source_spec else new for old, new in pairs) for pairs in columns
            ),
            event_detectors=before.event_detectors,
            readings={name: before.readings.get(name, spans) for name, spans in state.readings.items()},
        )
        return after, frozenset(one.name for one, goes in zip(self.detectors, goes_on, strict=True) if goes)

    @property
    def _sees_dips(self) -> bool:
        return any(detector.name == DIPS for detector in self.detectors)

    def judged(self, state: PanelState) -> Judged:
        """Return what the detectors judged up to now."""
        entities = {kind: joined.spec.entities for kind, joined in state.joins}
        return Judged(
            spans=tuple(
                span
                for detector, own in zip(self.detectors, state.detectors, strict=True)
                if own is not None
                for span in spans_of(detector.name, own, entities[detector.kind], state.readings)
            )
        )

    def idle(self, state: PanelState) -> tuple[str, ...]:
        """Return the names of detectors whose signals no table has."""
        return tuple(
            detector.name for detector, own in zip(self.detectors, state.detectors, strict=True) if own is None
        )

    def take_events(self, state: PanelState, events: Sequence[Event]) -> PanelState:
        """Pass events to the detectors that use them, before the rows of the same time are judged."""
        if not events:
            return state
        states = [
            own if own is None or not hasattr(detector, "take_events") else detector.take_events(own, events)
            for detector, own in zip(self.detectors, state.detectors, strict=True)
        ]
        entities = {kind: joined.spec.entities for kind, joined in state.joins}
        states = [
            reset_baselines(detector, own, entities.get(detector.kind, ()), events)
            for detector, own in zip(self.detectors, states, strict=True)
        ]
        return replace(state, detectors=tuple(states))

    @property
    def learning(self) -> tuple[str, ...]:
        """Names of the detectors whose baselines an operator can accept."""
        return tuple(detector.name for detector in self.detectors if hasattr(detector, "accept"))

    def step(
        self, state: PanelState, frames: Sequence[Frame], topology: Topology
    ) -> tuple[PanelState, tuple[Finding, ...]]:
        """Judge the new rows of any of the tables; findings in order of time."""
        joins, joined = [], {}
        kinds = {frame.spec.kind for frame in frames if len(frame)} & _judged_kinds(self.detectors, state)
        for kind, carried in state.joins:
            if kind not in kinds:
                joins.append((kind, carried))
                continue
            after, frame = join(carried, frames)
            joins.append((kind, after))
            if len(frame):
                joined[kind] = frame
        states: list[Any] = []
        joins_after: list[tuple[ColumnJoin, ...]] = []
        findings: list[Finding] = []
        for detector, before, columns in zip(self.detectors, state.detectors, state.column_joins, strict=True):
            own = _with_findings(detector, before, findings)
            if own is None or detector.kind not in joined or _rests(detector, own):
                states.append(own)
                joins_after.append(held(columns, joined))
                continue
            frame = joined[detector.kind]
            own_joins, wide = widen(frame, columns, joined, topology) if columns else (columns, frame)
            joins_after.append(own_joins)
            after_own, found = detector.step(own, wide, topology)
            states.append(after_own)
            findings.extend(found)
        findings.sort(key=lambda finding: finding.time_ns)
        after_state = replace(
            state,
            joins=tuple(joins),
            detectors=tuple(states),
            column_joins=tuple(joins_after),
            readings=_read(state.readings, frames),
        )
        return after_state, tuple(findings)

    def step_events(
        self, state: PanelState, events: Sequence[Event], now_ns: int, topology: Topology
    ) -> tuple[PanelState, tuple[Finding, ...]]:
        """Judge fused events up to `now_ns`; without events only time passes."""
        states: list[Any] = []
        findings: list[Finding] = []
        for detector, own in zip(self.event_detectors, state.event_detectors, strict=True):
            after, found = detector.step(own, events, now_ns, topology)
            states.append(after)
            findings.extend(found)
        listening = tuple(
            _with_findings(detector, own, findings)
            for detector, own in zip(self.detectors, state.detectors, strict=True)
        )
        return replace(state, detectors=listening, event_detectors=tuple(states)), tuple(findings)


def _read(readings: Mapping[str, ReadingSpans], frames: Sequence[Frame]) -> Mapping[str, ReadingSpans]:
    new = [frame for frame in frames if frame.spec.name in readings and len(frame)]
    if not new:
        return readings
    after = dict(readings)
    for frame in new:
        after[frame.spec.name] = after[frame.spec.name].after(frame)
    return after


def _judged_kinds(detectors: Sequence[AnyDetector], state: PanelState) -> set[EntityKind]:
    """Return the kinds whose joined tables a detector judges, or takes columns from."""
    kinds = {detector.kind for detector, own in zip(detectors, state.detectors, strict=True) if own is not None}
    return kinds.union(join.terms.kind for columns in state.column_joins for join in columns)


def _with_findings(detector: AnyDetector, own: Any, findings: Sequence[Finding]) -> Any:
    """Return the state after the findings of other detectors; unchanged where a detector does not use them."""
    if own is None or not findings or not hasattr(detector, "take_findings"):
        return own
    return detector.take_findings(own, findings)


def _rests(detector: AnyDetector, own: Any) -> bool:
    """Return True for a detector to which its table has nothing to show."""
    return hasattr(detector, "rests") and detector.rests(own)


def _joined_columns(detector: AnyDetector) -> tuple[JoinedColumn, ...]:
    return getattr(detector, "joined_columns", ())


def _can_judge(detector: AnyDetector, by_kind: dict[EntityKind, TableSpec]) -> bool:
    spec = by_kind.get(detector.kind)
    return spec is not None and set(detector.signals) <= set(spec.signals)
