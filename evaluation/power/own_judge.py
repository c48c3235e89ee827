"""Answers of railwatch: what its detectors and its incident book report of a chain, as it is and with faults.

Up to where a fault begins, a chain with it is the chain as it is. So each chain is judged once, and from the begin of
each fault on a copy of the judge goes on with the faulty rows.
"""

import copy
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from evaluation.detector_pipeline import DetectorPipeline
from evaluation.power.answers import Answers, found_by
from evaluation.power.cases import Case
from evaluation.power.chains import Chain
from evaluation.power.plan import AnswerKind
from evaluation.power.recordings import Trace
from telemetry.frames import Frame
from telemetry.records import Finding, FindingStatus, Incident

NAME = "railwatch"
# Its limits are built in: every answer counts.
FIXED = -math.inf
# A finding has the time of its row, however many rows come at once; so many cost a quarter less than ten.
_STEP_ROWS = 60
# A cause without a word of its own here is some other one.
_KINDS = {
    "joint_ageing": AnswerKind.CONTACT,
    "input_sag": AnswerKind.SAG,
    "supply_sag": AnswerKind.SAG,
    "supply_lost": AnswerKind.LOST,
    "redundancy_lost": AnswerKind.LOST,
    "feed_imbalance": AnswerKind.SHARE,
    "efficiency_loss": AnswerKind.EFFICIENCY,
    "odd_node": AnswerKind.UNLIKE,
    "sensor_fault": AnswerKind.METER,
    "sensor_lost": AnswerKind.METER,
    "gpu_lost": AnswerKind.GPU_LOST,
}
_WHOLE = frozenset({"server", "card"})


@dataclass(slots=True)
class _Reports:
    """Findings in incidents, notes among them, each with the time at which it was raised or first was in one."""

    seen: dict[str, tuple[int, str, AnswerKind, float]] = field(default_factory=dict)

    def add(self, incidents: Iterable[Incident], findings: Iterable[Finding]) -> None:
        """Add the findings in incidents; `findings` are those of the same rows, which some may already have cleared."""
        raised = {one.id: one for one in findings if one.status is FindingStatus.RAISED}
        for incident in incidents:
            for newest in incident.findings:
                finding = raised.get(newest.id, newest)
                if finding.status is FindingStatus.CLEARED:
                    continue
                name = finding.entity_id.partition(":")[2]
                entity = "" if name in _WHOLE else name
                kind = _KINDS.get(finding.cause.value, AnswerKind.OTHER)
                self.seen.setdefault(finding.id, (finding.time_ns, entity, kind, finding.score))

    def answers(self) -> list[Answers]:
        """Return the reports as answers."""
        rows: dict[tuple[str, AnswerKind], list[tuple[int, float]]] = defaultdict(list)
        for time_ns, entity, kind, score in self.seen.values():
            rows[entity, kind].append((time_ns, score))
        return [
            Answers(
                entity=entity,
                kind=kind,
                time_ns=np.array([time_ns for time_ns, _ in sorted(own)], dtype=np.int64),
                score=np.array([score for _, score in sorted(own)], dtype=np.float64),
            )
            for (entity, kind), own in rows.items()
        ]


@dataclass(slots=True)
class _Judge:
    """Judge of one chain, with what it has reported up to now."""

    pipeline: DetectorPipeline
    reports: _Reports = field(default_factory=_Reports)

    def step(self, frame: Frame, start: int, stop: int, *, ended: Callable[[], bool] = lambda: False) -> None:
        """Judge rows, until it has `ended`."""
        for row in range(start, stop, _STEP_ROWS):
            incidents = self.pipeline.step([frame.rows(row, min(row + _STEP_ROWS, stop))])
            self.reports.add(incidents, self.pipeline.findings)
            if ended():
                return


def own_answers(chain: Chain, cases: Sequence[Case], *, join_s: float) -> list[list[Answers]]:
    """Return the answers about each of the cases of one chain, in their order.

    A case ends early once its fault is found and named: what is reported later changes nothing.
    """
    found: dict[int, list[Answers]] = {}
    judge, done = _begun(chain.trace), 0
    frame = chain.trace.frame()
    rows = len(chain.trace.time_ns)
    for place, case in sorted(enumerate(cases), key=lambda pair: _begin(pair[1], rows)):
        begin = _begin(case, rows)
        judge.step(frame, done, begin)
        done = begin
        if case.label is None:
            found[place] = judge.reports.answers()
            continue
        faulty = copy.deepcopy(judge) if begin else _begun(chain.trace)
        trace = case.trace()
        end = int(np.searchsorted(trace.time_ns, case.label.until_ns, side="right"))
        faulty.step(trace.frame(), begin, end, ended=partial(_is_named, faulty.reports, case, join_s))
        found[place] = faulty.reports.answers()
    return [found[place] for place in range(len(cases))]


def _is_named(reports: _Reports, case: Case, join_s: float) -> bool:
    return all(found.named for found in found_by(reports.answers(), case, FIXED, join_s=join_s))


def _begin(case: Case, rows: int) -> int:
    return rows if case.label is None else case.label.rows.start


def _begun(trace: Trace) -> _Judge:
    return _Judge(DetectorPipeline([trace.spec()], trace.topology()))
