"""All detectors side by side over the tables of a node or a fleet: frames and events in, findings out."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from analytics.detectors.accepting import learnt_anew
from analytics.detectors.borrowing import Borrowed, Loan, held, widen, widened
from analytics.detectors.build import AnyDetector, AnyEventDetector, build_detectors, build_event_detectors
from analytics.detectors.joining import JoinState, join, start_join
from analytics.detectors.limits import DetectorLimits
from telemetry.entities import EntityKind, Topology
from telemetry.frames import Frame, TableSpec
from telemetry.records import Event, Finding


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PanelState:
    """The joined tables by kind, and the state of each detector, None for one whose signals no table has.

    `loans` are, detector by detector, the columns that it borrows from other kinds.
    """

    joins: tuple[tuple[EntityKind, JoinState], ...]
    detectors: tuple[Any, ...]
    loans: tuple[tuple[Loan, ...], ...]
    event_detectors: tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """Runs the detectors, each on the joined table of its kind."""

    detectors: tuple[AnyDetector, ...]
    event_detectors: tuple[AnyEventDetector, ...]

    @staticmethod
    def build(limits: DetectorLimits) -> "Panel":
        """Build a panel of all detectors."""
        return Panel(detectors=build_detectors(limits), event_detectors=build_event_detectors(limits))

    def start(self, specs: Sequence[TableSpec]) -> PanelState:
        """Return the state before the first row of these tables."""
        kinds = tuple(dict.fromkeys(spec.kind for spec in specs))
        joins = tuple((kind, start_join([spec for spec in specs if spec.kind is kind])) for kind in kinds)
        by_kind = {kind: joined.spec for kind, joined in joins}
        return PanelState(
            joins=joins,
            detectors=tuple(
                detector.start(widened(by_kind[detector.kind], _borrowed(detector)))
                if _can_judge(detector, by_kind)
                else None
                for detector in self.detectors
            ),
            loans=tuple(
                tuple(Loan.of(terms, by_kind.get(terms.kind)) for terms in _borrowed(detector))
                for detector in self.detectors
            ),
            event_detectors=tuple(detector.start() for detector in self.event_detectors),
        )

    def idle(self, state: PanelState) -> tuple[str, ...]:
        """Name the detectors that no table gives the signals they need."""
        return tuple(
            detector.name for detector, own in zip(self.detectors, state.detectors, strict=True) if own is None
        )

    def hear(self, state: PanelState, events: Sequence[Event]) -> PanelState:
        """Return the detectors of frames that listen what happened, before the rows that go with it are judged."""
        if not events:
            return state
        told = [
            own if own is None or not hasattr(detector, "hear") else detector.hear(own, events)
            for detector, own in zip(self.detectors, state.detectors, strict=True)
        ]
        entities = {kind: joined.spec.entities for kind, joined in state.joins}
        told = [
            learnt_anew(detector, own, entities.get(detector.kind, ()), events)
            for detector, own in zip(self.detectors, told, strict=True)
        ]
        return replace(state, detectors=tuple(told))

    @property
    def learning(self) -> tuple[str, ...]:
        """Name the detectors whose baselines a person can accept."""
        return tuple(detector.name for detector in self.detectors if hasattr(detector, "accept"))

    def step(
        self, state: PanelState, frames: Sequence[Frame], topology: Topology
    ) -> tuple[PanelState, tuple[Finding, ...]]:
        """Judge the new rows of any of the tables; findings in order of time."""
        joins, joined = [], {}
        for kind, carried in state.joins:
            after, frame = join(carried, frames)
            joins.append((kind, after))
            if len(frame):
                joined[kind] = frame
        states: list[Any] = []
        all_loans: list[tuple[Loan, ...]] = []
        findings: list[Finding] = []
        for detector, before, loans in zip(self.detectors, state.detectors, state.loans, strict=True):
            own = _told(detector, before, findings)
            if own is None or detector.kind not in joined:
                states.append(own)
                all_loans.append(held(loans, joined))
                continue
            frame = joined[detector.kind]
            after_loans, wide = widen(frame, loans, joined, topology) if loans else (loans, frame)
            all_loans.append(after_loans)
            after_own, found = detector.step(own, wide, topology)
            states.append(after_own)
            findings.extend(found)
        findings.sort(key=lambda finding: finding.time_ns)
        after_state = replace(state, joins=tuple(joins), detectors=tuple(states), loans=tuple(all_loans))
        return after_state, tuple(findings)

    def step_events(
        self, state: PanelState, events: Sequence[Event], now_ns: int, topology: Topology
    ) -> tuple[PanelState, tuple[Finding, ...]]:
        """Judge events, fused, and that none came, up to `now_ns`."""
        states: list[Any] = []
        findings: list[Finding] = []
        for detector, own in zip(self.event_detectors, state.event_detectors, strict=True):
            after, found = detector.step(own, events, now_ns, topology)
            states.append(after)
            findings.extend(found)
        told = tuple(
            _told(detector, own, findings) for detector, own in zip(self.detectors, state.detectors, strict=True)
        )
        return replace(state, detectors=told, event_detectors=tuple(states)), tuple(findings)


def _told(detector: AnyDetector, own: Any, findings: Sequence[Finding]) -> Any:
    """Return the state of a detector that listens to what the others say, after it was told; any other as it is."""
    if own is None or not findings or not hasattr(detector, "hear_findings"):
        return own
    return detector.hear_findings(own, findings)


def _borrowed(detector: AnyDetector) -> tuple[Borrowed, ...]:
    return getattr(detector, "borrowed", ())


def _can_judge(detector: AnyDetector, by_kind: dict[EntityKind, TableSpec]) -> bool:
    spec = by_kind.get(detector.kind)
    return spec is not None and set(detector.signals) <= set(spec.signals)
