"""Detectors at two rates: urgent ones judge row by row, all others in blocks of one second.

A detector returns the same findings however its rows are cut, so a block only delays them. The times of the steps alone
define the blocks: a replay of the same steps judges the same blocks. A patient detector that fails loses the findings
of its block, never an urgent one.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from analytics.detectors.baseline_acceptance import accepted_entities, findings_ended_by
from analytics.detectors.build import AnyDetector
from analytics.detectors.limits import DetectorLimits
from analytics.detectors.panel import Panel, PanelState
from analytics.judged import Judged
from analytics.shards.learnt import Resumed, name_of, pack_learnt, with_learnt
from analytics.shards.learnt_batches import LearntBatch, without
from physics.wiring import Wiring
from telemetry.clock import NS_PER_S
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.frames import Frame, TableSpec
from telemetry.records import Event, Finding, FindingStatus

logger = logging.getLogger(__name__)

# heuristic: findings that the guard acts on within milliseconds or promises within two seconds.
URGENT = frozenset({"rail_sag", "power_brake", "hw_slowdown", "thermal_margin", "gpu_lost"})
# heuristic: all others concern conditions of seconds to months, and a step of them all costs five times as much.
BLOCK_NS = NS_PER_S


class Judges:
    """Two panels of detectors over the same tables.

    Attributes
    ----------
    failures
        Blocks in which a patient detector failed; the log has the first traceback.
    """

    def __init__(self, limits: DetectorLimits, specs: Sequence[TableSpec], *, wiring: Wiring | None = None) -> None:
        whole = Panel.build(limits, wiring)
        urgent = tuple(detector for detector in whole.detectors if detector.name in URGENT)
        patient = tuple(detector for detector in whole.detectors if detector.name not in URGENT)
        self._urgent = Panel(detectors=urgent, event_detectors=whole.event_detectors)
        self._patient = Panel(detectors=patient, event_detectors=())
        self._urgent_state = self._urgent.start(specs)
        self._patient_state = self._patient.start(specs)
        self._away: tuple[LearntBatch, ...] = ()
        self._waiting: list[Frame] = []
        self._received: list[Finding] = []
        self._block: int | None = None
        self.failures = 0

    def take_tables(self, specs: Sequence[TableSpec], now_ns: int, holding: Sequence[Finding]) -> tuple[Finding, ...]:
        """Judge these tables from now on; return which of the findings that hold continue.

        A detector whose own table is another one begins as after a restart, with what it learnt.
        """
        learnt, urgent, patient = self.learnt(now_ns, {}), self._urgent_state, self._patient_state
        self._urgent_state, self._patient_state = self._urgent.start(specs), self._patient.start(specs)
        resumed = self.take_learnt(learnt(), now_ns, holding)
        self._urgent_state, still = self._urgent.resumed(self._urgent_state, urgent)
        self._patient_state, waiting = self._patient.resumed(self._patient_state, patient)
        return (*resumed.going_on, *(one for one in holding if name_of(one) in still | waiting))

    @property
    def idle(self) -> tuple[str, ...]:
        """The detectors whose signals no table has."""
        return (*self._urgent.idle(self._urgent_state), *self._patient.idle(self._patient_state))

    @property
    def judged(self) -> Judged:
        """What the detectors judged up to now."""
        urgent, patient = self._urgent.judged(self._urgent_state), self._patient.judged(self._patient_state)
        return Judged(spans=(*urgent.spans, *patient.spans))

    @property
    def entities(self) -> Mapping[EntityKind, tuple[Entity, ...]]:
        """The entities of each kind."""
        return {kind: joined.spec.entities for kind, joined in self._urgent_state.joins}

    def states(self) -> Iterator[tuple[AnyDetector, Any]]:
        """Yield each detector that judges something, with its state."""
        for panel, state in ((self._urgent, self._urgent_state), (self._patient, self._patient_state)):
            for detector, own in zip(panel.detectors, state.detectors, strict=True):
                if own is not None:
                    yield detector, own

    @property
    def learning(self) -> frozenset[str]:
        """The detectors that learn baselines; none of the urgent ones does."""
        return frozenset(self._patient.learning)

    @property
    def away(self) -> frozenset[tuple[str, str]]:
        """Baselines of entities that are absent at this start, by detector and entity."""
        return frozenset((batch.detector, entity_id) for batch in self._away for entity_id in batch.kept_ns)

    def learnt(self, now_ns: int, frozen: Mapping[str, int]) -> Callable[[], bytes]:
        """Return a function that packs the present baselines; any thread may call it, at any time.

        `frozen` has the time since which each baseline is frozen; it is not changed any more. A state is immutable, so
        this only keeps a reference to it.
        """
        return partial(pack_learnt, self._patient, self._patient_state, now_ns, frozen=frozen, away=self._away)

    def take_learnt(self, blob: bytes, now_ns: int, holding: Iterable[Finding]) -> Resumed:
        """Restore baselines from before a restart; ValueError if they are damaged, and nothing is changed.

        `holding` are the findings that the book holds; those that continue are passed to detectors that use them.
        """
        resumed = with_learnt(self._patient, self._patient_state, blob, now_ns=now_ns, holding=holding)
        self._patient_state, self._away = resumed.state, resumed.away
        self._received += resumed.going_on
        return resumed

    def step(
        self,
        frames: Sequence[Frame],
        events: Sequence[Event],
        now_ns: int,
        topology: Topology,
        *,
        holding: Iterable[Finding] = (),
    ) -> tuple[Finding, ...]:
        """Judge new rows and events up to `now_ns`; findings of rows in order of time, then those of events.

        `holding` are the findings that hold so far: those that an event ends are returned as cleared.
        """
        found: list[Finding] = []
        if events:  # earlier rows come before the new events
            found += self._judge_block(topology)
            ended = self._ended_by(events, (*holding, *found), now_ns)
            found += ended
            self._received += ended  # it no longer explains other findings
            if accepted := accepted_entities(events):
                self._away = without(self._away, accepted)
        self._urgent_state = self._urgent.take_events(self._urgent_state, events)
        self._patient_state = self._patient.take_events(self._patient_state, events)
        self._urgent_state, urgent = self._urgent.step(self._urgent_state, frames, topology)
        self._urgent_state, of_events = self._urgent.step_events(self._urgent_state, events, now_ns, topology)
        self._received += (*urgent, *of_events)
        self._waiting += frames
        block = now_ns // BLOCK_NS
        # Urgent findings first: the block waits for a step that raises nothing.
        if block != self._block and not any(finding.status is FindingStatus.RAISED for finding in urgent):
            self._block = block
            found += self._judge_block(topology)
        return (*sorted((*urgent, *found), key=lambda finding: finding.time_ns), *of_events)

    def _ended_by(self, events: Sequence[Event], active: Iterable[Finding], now_ns: int) -> tuple[Finding, ...]:
        """Return the findings that an acceptance ends, the newest of each."""
        newest = {one.id: one for one in active}
        return findings_ended_by(events, newest.values(), (*self._urgent.learning, *self._patient.learning), now_ns)

    def _judge_block(self, topology: Topology) -> tuple[Finding, ...]:
        """Run the patient detectors over the waiting rows."""
        frames, self._waiting = self._waiting, []
        received, self._received = self._received, []
        try:
            state = _with_findings(self._patient, self._patient_state, received)
            self._patient_state, found = self._patient.step(state, frames, topology)
        except Exception:  # supervisor of patient detectors: a defect in one must not block urgent findings
            if not self.failures:
                logger.exception("a detector failed, its findings of this second are lost")
            self.failures += 1
            return ()
        return found


def _with_findings(panel: Panel, state: PanelState, findings: Sequence[Finding]) -> PanelState:
    """Return the state after detectors that use the findings of others have received them."""
    if not findings:
        return state
    states = tuple(
        detector.take_findings(own, findings) if own is not None and hasattr(detector, "take_findings") else own
        for detector, own in zip(panel.detectors, state.detectors, strict=True)
    )
    return replace(state, detectors=states)
