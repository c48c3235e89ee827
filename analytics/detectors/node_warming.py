"""Node warming: all GPUs of a node without an inlet sensor get hotter together at the same load.

Hot air at the inlet does that, and air that no longer flows: without a sensor at the inlet these are one finding. A
room that swings moves all GPUs as well, so that only more than a room may change counts. The hottest GPU is left out of
it, since a bad interface makes one hot. Where an inlet temperature was ever read, `warm_inlet`, `airflow_lost` and
`airflow` judge the node, and this does not.
"""

from dataclasses import dataclass, replace

import numpy as np

from analytics.connectivity import Kinship, Siblings
from analytics.connectivity.siblings import MIN_SIBLINGS, GroupArray
from analytics.detectors.airflow_lost import SuddenState, add_row
from analytics.detectors.columns import optional
from analytics.detectors.condition import Changes, Conditions, Holds, elapsed_ns, judge, report_worse
from analytics.detectors.heat_limits import NodeWarmingLimits
from analytics.detectors.joined_columns import JoinedColumn
from analytics.detectors.statements import Statement, evidence, findings_from
from analytics.detectors.warm_means import WarmMeans, add_rows
from analytics.heat.groups import group_most
from telemetry.clock import NS_PER_S
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.frames import FloatArray, Frame, FromZero, MaskArray, TableSpec, filled
from telemetry.records import Cause, Finding, FindingStatus, Severity

# Temperatures come once a second in whole kelvin; judging more often adds nothing.
_JUDGE_EVERY_NS = NS_PER_S
# heuristic: ten readings at 2 s that fail to come, or as many seconds of a pause, show nothing of the others.
_SEEN_WITHIN_S, _SMOOTHING_S = 10.0, 10.0
# An excess of two steps of the sensor is not learnt for the fifteen minutes in which a room may change by 5 K (ASHRAE
# TC 9.9): what takes longer than that is a room's.
_SUSPECT_C, _SUSPECT_S = 2.0, 900.0
# heuristic: an update is reported when the GPUs are hotter by another two steps of the sensor.
_WORSE_BY_C = 2.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NodeWarmingState:
    """State between rows, ``(n_gpus,)``: each GPU has the figures of its node, whose first GPU stands for it.

    `has_inlet` marks GPUs of a node whose inlet temperature was read at some time. `suspect_s` is how long the GPUs
    have been hotter than they were.
    """

    judged_ns: int | None
    siblings: Siblings
    means: WarmMeans
    has_inlet: MaskArray
    sudden: SuddenState
    suspect_s: FromZero
    conditions: Conditions


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeWarming:
    """Raises `Cause.AIRFLOW` on nodes; see `NodeWarmingLimits`."""

    limits: NodeWarmingLimits
    name: str = "node_warming"
    kind: EntityKind = EntityKind.GPU
    signals: tuple[str, ...] = ("gpu_temp_c", "power_w")
    joined_columns: tuple[JoinedColumn, ...] = (JoinedColumn(kind=EntityKind.NODE, signal="inlet_temp_c"),)

    def start(self, spec: TableSpec) -> NodeWarmingState:
        """Return the state before the first row."""
        return filled(NodeWarmingState, len(spec.entities))

    def step(
        self, state: NodeWarmingState, frame: Frame, topology: Topology
    ) -> tuple[NodeWarmingState, tuple[Finding, ...]]:
        """Judge the rows of a frame, once a second of their time."""
        entities, times_ns = frame.spec.entities, frame.time_ns.tolist()
        state = replace(state, siblings=state.siblings.under(topology, entities))
        temps_c, powers_w = frame.signal("gpu_temp_c"), frame.signal("power_w")
        has_inlet = np.isfinite(optional(frame, "inlet_temp_c"))
        nothing_cut = np.zeros(temps_c.shape, dtype=np.bool_)
        findings: list[Finding] = []
        start = 0
        for row, now_ns in enumerate(times_ns):
            due = state.judged_ns is None or not 0 <= now_ns - state.judged_ns < _JUDGE_EVERY_NS
            if not due and row + 1 < len(times_ns):
                continue
            rows, start = slice(start, row + 1), row + 1
            means = add_rows(
                state.means,
                times_ns[rows],
                temps_c[rows],
                powers_w[rows],
                cooled=nothing_cut[rows],
                smoothing_s=_SMOOTHING_S,
            )
            state = replace(state, means=means, has_inlet=state.has_inlet | has_inlet[rows].any(axis=0))
            if due:
                state, changes = self._judge(state, now_ns)
                if changes.some:
                    findings.extend(self._findings(state, changes, now_ns, entities, topology))
        return state, tuple(findings)

    def _judge(self, state: NodeWarmingState, now_ns: int) -> tuple[NodeWarmingState, Changes]:
        limits, groups, means = self.limits, state.siblings.groups, state.means
        passed_ns = elapsed_ns(state.judged_ns, now_ns)
        known = means.seen_within(now_ns, _SEEN_WITHIN_S) & ~state.has_inlet
        temp_c = _without_most(np.where(known, means.temp_c, np.nan), groups)
        power_w = _without_most(np.where(known, means.power_w, np.nan), groups)
        sudden = add_row(
            state.sudden,
            passed_s=passed_ns / NS_PER_S,
            rise_c=temp_c - limits.inlet_c,
            power_w=power_w,
            temp_c=temp_c,
            min_rise_c=limits.min_rise_c,
            frozen=state.conditions.engaged | ((state.suspect_s > 0.0) & (state.suspect_s < _SUSPECT_S)),
        )
        excess_c = sudden.excess() * sudden.so_far * sudden.power_w
        suspect_s = np.where(excess_c > _SUSPECT_C, state.suspect_s + passed_ns / NS_PER_S, 0.0)
        # A controller that slows its fans warms GPUs as well, but not beyond what they ever were.
        higher = (sudden.temp_c > sudden.peak_c + limits.peak_c) & (sudden.watched_s >= limits.watched_s)
        seen, first = np.isfinite(temp_c + power_w), np.zeros(len(groups), dtype=np.bool_)
        first[np.unique(groups, return_index=True)[1]] = True
        over = seen & first & higher & (excess_c > limits.rise_c)
        conditions, changes = judge(
            state.conditions,
            now_ns=now_ns,
            elapsed_ns=passed_ns,
            over=over,
            # Under another load there is nothing to compare with, so the finding clears.
            under=seen & ~(excess_c >= limits.clear_c),
            seen=seen,
            holds=Holds.of_seconds(set_s=limits.hold_s, clear_s=limits.clear_after_s),
        )
        badness = np.where(np.isnan(excess_c), 0.0, excess_c) / _WORSE_BY_C
        conditions, changes = report_worse(conditions, changes, now_ns=now_ns, over=over, badness=badness)
        state = replace(state, judged_ns=now_ns, sudden=sudden, suspect_s=suspect_s, conditions=conditions)
        return state, changes

    def _findings(
        self,
        state: NodeWarmingState,
        changes: Changes,
        now_ns: int,
        entities: tuple[Entity, ...],
        topology: Topology,
    ) -> tuple[Finding, ...]:
        kinship, by_id = Kinship.of(topology), {one.id: one for one in topology.entities}
        nodes = tuple(by_id[kinship.top(one.id)] if kinship.knows(one.id) else one for one in entities)
        sudden = state.sudden

        def describe(index: int, status: FindingStatus) -> Statement:
            name, power_w = nodes[index].label, float(sudden.power_w[index])
            excess_c = float((sudden.now[index] - sudden.so_far[index]) * power_w)
            summary = (
                f"{name}: GPU temperatures back to normal, or the load changed"
                if status is FindingStatus.CLEARED
                else f"{name}: all GPUs {excess_c:.0f} K hotter within minutes at {power_w:.0f} W; "
                "hot inlet or lost air"
            )
            return Statement(
                severity=Severity.WARNING,
                score=excess_c / (2.0 * self.limits.rise_c),
                summary=summary,
                evidence=evidence(
                    ("excess_c", excess_c, "K"),
                    ("limit_c", self.limits.rise_c, "K"),
                    ("gpu_temp_c", float(sudden.temp_c[index]), "°C"),
                    ("power_w", power_w, "W"),
                    ("duration_s", state.conditions.lasted_s(index, now_ns), "s"),
                ),
            )

        return findings_from(
            self.name, Cause.AIRFLOW, nodes, state.conditions, changes, now_ns=now_ns, describe=describe
        )


def _without_most(values: FloatArray, groups: GroupArray) -> FloatArray:
    """Return for each GPU the mean of its node without the highest value; NaN below three that are known."""
    known = np.isfinite(values)
    count = np.bincount(groups, weights=known, minlength=1)[groups]
    total = np.bincount(groups, weights=np.where(known, values, 0.0), minlength=1)[groups]
    mean: FloatArray = (total - group_most(values, groups)) / np.where(count > MIN_SIBLINGS, count - 1.0, np.nan)
    return mean
