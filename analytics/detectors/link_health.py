"""Link health: errors, width and speed of a GPU's PCIe link and NVLinks against its siblings and its own best.

Errors that are corrected cost next to nothing; they count because a loose module makes them for as long as its contacts
move (field report of a four-V100 node: tightened screws cured its hangs, blbadger.github.io/gpu-server). As a precursor
of a bus drop they are weak: most drops come without (GWDG study, arXiv 2603.28781), so no finding here forecasts
one. Errors that siblings make as well are not this module's: a rail that sags makes all links replay.
"""

from dataclasses import dataclass, replace

import numpy as np

from analytics.connectivity import Siblings
from analytics.detectors.bus_limits import LinkHealthLimits
from analytics.detectors.condition import Changes, Conditions, Holds, judge, report_worse
from analytics.detectors.joined_columns import JoinedColumn, Relation
from analytics.detectors.link_evidence import LINK_ERROR_KINDS, ErrorCounts, LinkShape
from analytics.detectors.seconds import newest, passed_s, stretches
from analytics.detectors.statements import Statement, evidence, findings_from
from telemetry.clock import NS_PER_S
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.frames import FloatArray, Frame, MaskArray, TableSpec, filled
from telemetry.quantities import duration
from telemetry.records import Cause, Finding, FindingStatus, Severity

_SHAPE = ("pcie_width", "pcie_generation", "nvlink_up", "max_pcie_width", "max_pcie_generation", "gpu_util_ratio")
_COUNTED = tuple(name for kind in LINK_ERROR_KINDS for name in kind.signals)
_COLUMNS = (*_COUNTED, *_SHAPE, "worst_crc_errors")
_LINK_COLUMNS = tuple(
    JoinedColumn(kind=EntityKind.LINK, signal=name, how=Relation.SUM_BELOW)
    for kind in LINK_ERROR_KINDS
    for name in kind.signals
    if name.startswith("nvlink")
)
# Errors are counted over minutes and come from counters that miss nothing: judging more often adds nothing.
_JUDGE_EVERY_S = 10
# heuristic: a GPU whose errors come from one of several links to so large a part has a bad link, not a loose module.
_ONE_LINK_RATIO = 0.9


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LinkHealthState:
    """State between rows; `columns` are the newest values of the open stretch, one array a signal."""

    second: int | None
    judged: int | None
    conditions: Conditions
    columns: tuple[FloatArray, ...]
    counts: ErrorCounts
    worst: ErrorCounts
    shape: LinkShape
    siblings: Siblings


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkHealth:
    """Raises `Cause.LOOSE_MODULE` as a warning: the links still work."""

    limits: LinkHealthLimits
    name: str = "link_health"
    kind: EntityKind = EntityKind.GPU
    signals: tuple[str, ...] = ("pcie_width",)
    joined_columns: tuple[JoinedColumn, ...] = (
        *_LINK_COLUMNS,
        JoinedColumn(kind=EntityKind.LINK, signal="nvlink_up", how=Relation.MEAN_BELOW),
        JoinedColumn(
            kind=EntityKind.LINK, signal="nvlink_crc_errors", how=Relation.MAX_BELOW, column="worst_crc_errors"
        ),
    )

    def start(self, spec: TableSpec) -> LinkHealthState:
        """Return the state before the first row."""
        size = len(spec.entities)
        return filled(
            LinkHealthState,
            size,
            columns=(np.full(size, np.nan),) * len(_COLUMNS),
            counts=ErrorCounts.none(size, len(_COUNTED)),
            worst=ErrorCounts.none(size, 1),
        )

    def step(
        self, state: LinkHealthState, frame: Frame, topology: Topology
    ) -> tuple[LinkHealthState, tuple[Finding, ...]]:
        """Judge each stretch of ten seconds when the next one begins."""
        there = [(place, frame.signal(name)) for place, name in enumerate(_COLUMNS) if name in frame.spec.signals]
        state = replace(state, siblings=state.siblings.under(topology, frame.spec.entities))
        findings: list[Finding] = []
        for second, rows, ended_ns in stretches(frame.time_ns, state.second, every_s=_JUDGE_EVERY_S):
            if ended_ns is not None:
                state, changes = self._close(state, ended_ns)
                if changes.some:
                    findings.extend(self._findings(state, changes, ended_ns, frame.spec.entities))
            columns = list(state.columns)
            for place, column in there:
                columns[place] = newest(columns[place], column[rows])
            state = replace(state, second=second, columns=tuple(columns))
        return state, tuple(findings)

    def _close(self, state: LinkHealthState, now_ns: int) -> tuple[LinkHealthState, Changes]:
        """Judge the stretch that ended."""
        second, columns = state.second or 0, np.stack(state.columns, axis=1)
        passed = 0 if state.judged is None else passed_s(state.judged, second, every_s=_JUDGE_EVERY_S)
        fade = float(np.exp(-passed / self.limits.memory_s))
        n_counted, n_shape = len(_COUNTED), len(_SHAPE)
        state = replace(
            state,
            judged=second,
            columns=(np.full(len(columns), np.nan),) * len(_COLUMNS),
            counts=state.counts.after(columns[:, :n_counted], fade=fade),
            worst=state.worst.after(columns[:, -1:], fade=fade),
            shape=state.shape.after(columns[:, n_counted : n_counted + n_shape], passed_s=passed, limits=self.limits),
        )
        excess = state.counts.excess(state.siblings.groups, self.limits)
        over: MaskArray = np.any(excess >= 1.0, axis=1) | state.shape.lacking
        conditions, changes = judge(
            state.conditions,
            now_ns=now_ns,
            elapsed_ns=passed * NS_PER_S,
            over=over,
            under=~over & ~state.counts.grew,
            seen=np.any(~np.isnan(columns), axis=1, keepdims=True)[:, 0],
            holds=Holds.of_seconds(set_s=0.0, clear_s=self.limits.clear_after_s),
        )
        if conditions.busy:
            badness = excess.max(axis=1) + state.shape.lacking
            conditions, changes = report_worse(
                conditions, changes, now_ns=now_ns, over=over, badness=np.log2(1.0 + badness)
            )
        return replace(state, conditions=conditions), changes

    def _findings(
        self, state: LinkHealthState, changes: Changes, now_ns: int, entities: tuple[Entity, ...]
    ) -> tuple[Finding, ...]:
        excess = state.counts.excess(state.siblings.groups, self.limits)

        def describe(index: int, status: FindingStatus) -> Statement:
            return self._describe(state, excess, index, status, entities[index])

        return findings_from(
            self.name, Cause.LOOSE_MODULE, entities, state.conditions, changes, now_ns=now_ns, describe=describe
        )

    def _describe(
        self, state: LinkHealthState, excess: FloatArray, index: int, status: FindingStatus, entity: Entity
    ) -> Statement:
        span = duration(self.limits.memory_s)
        recent = state.counts.by_kind()[index]
        theirs = state.counts.of_siblings(state.siblings.groups)[index]
        high = [place for place in range(len(LINK_ERROR_KINDS)) if excess[index, place] >= 1.0]
        if status is FindingStatus.CLEARED:
            summary = f"{entity.label} links: no more errors than its siblings for {span}"
        else:
            parts = [
                f"{recent[place]:.0f} {LINK_ERROR_KINDS[place].label} in {span} (siblings {_counted(theirs[place])})"
                for place in high
            ]
            if any(LINK_ERROR_KINDS[place].name == "nvlink_errors" for place in high) and self._on_one_link(
                state, index
            ):
                parts.insert(1, "nearly all on one link")
            summary = f"{entity.label} links: {', '.join([*parts, *state.shape.missing_texts(index)])}"
        numbers = [(kind.name, float(recent[place]), "") for place, kind in enumerate(LINK_ERROR_KINDS)]
        siblings = [(f"sibling_{kind.name}", float(theirs[place]), "") for place, kind in enumerate(LINK_ERROR_KINDS)]
        return Statement(
            severity=Severity.WARNING,
            # A weak sign stays below one half, however loud.
            score=0.5 if state.shape.lacking[index] else 0.5 * (1.0 - 1.0 / (1.0 + float(excess[index].max()))),
            summary=summary,
            evidence=evidence(*numbers, *siblings, *state.shape.evidence_rows(index)),
        )

    def _on_one_link(self, state: LinkHealthState, index: int) -> bool:
        crc = float(state.counts.recent[index, _COUNTED.index("nvlink_crc_errors")])
        return crc > 0 and float(state.worst.recent[index, 0]) >= _ONE_LINK_RATIO * crc


def _counted(errors: float) -> str:
    return "not counted" if np.isnan(errors) else f"{errors:.0f}"
