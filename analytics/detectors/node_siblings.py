"""Node unlike its siblings: it draws more or less than the other nodes of its job at the same work.

A node that left the distance to the others that it had is a warning: one that draws some per cent more wastes power in
its supplies or fans, one that draws less by about a GPU's share is one short. A node that is unlike them without any
change is information: parts and firmware differ.

Disproved by another job on that node: nodes whose watts do not move with the others are not compared.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from analytics.connectivity.kinship import ByIdentity
from analytics.detectors.condition import Changes, Conditions, Holds, judge
from analytics.detectors.node_siblings_summary import describe_odd, describe_short, describe_waste
from analytics.detectors.statements import findings_from
from analytics.detectors.streaks import begun
from analytics.feeds.gpus_beside import nodes_and_gpus
from analytics.feeds.job_groups import JobGroups
from analytics.feeds.node_watts import SIGNAL, NodeReadings, WattsPeriod
from analytics.feeds.sibling_ratio import PERIOD_S, SiblingRatio
from analytics.feeds.twins import meter_keys
from telemetry.clock import NS_PER_S
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.frames import FloatArray, Frame, MaskArray, TableSpec, filled
from telemetry.records import Cause, Finding

# What is judged has lasted by then.
_AT_ONCE = Holds.of_seconds(set_s=0.0, clear_s=0.0)
# heuristic: a supply that wastes a twentieth more fails within minutes by its heat.
_MOST_WASTE = 0.05
# Of a node of eight GPUs one is 5 to 13 % of what it draws, as it idles at 25 to 60 % of that; where their number is
# known, 0.4 to 1 over that number.
_SHORT_LEAST, _SHORT_MOST = 0.05, 0.14
_OWN_LEAST, _OWN_MOST = 0.4, 1.1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NodeSiblingsState:
    """State between rows."""

    jobs: JobGroups
    meters: NodeReadings
    ratio: SiblingRatio
    odd: Conditions
    waste: Conditions
    short: Conditions


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSiblings:
    """Raises `Cause.ODD_NODE`, `Cause.EFFICIENCY_LOSS` and `Cause.GPU_LOST` on nodes."""

    name: str = "node_siblings"
    kind: EntityKind = EntityKind.NODE
    signals: tuple[str, ...] = (SIGNAL,)

    def start(self, spec: TableSpec) -> NodeSiblingsState:
        """Return the state before the first row."""
        return filled(NodeSiblingsState, len(spec.entities))

    def accept(self, state: NodeSiblingsState, accepted: MaskArray) -> NodeSiblingsState:
        """Reset what was learnt of the accepted nodes."""
        return replace(state, ratio=state.ratio.forget(accepted))

    def step(
        self, state: NodeSiblingsState, frame: Frame, topology: Topology
    ) -> tuple[NodeSiblingsState, tuple[Finding, ...]]:
        """Judge each period of a frame when the next one begins."""
        entities = frame.spec.entities
        state = replace(state, jobs=state.jobs.under(topology, entities))
        _, n_gpus = nodes_and_gpus(ByIdentity(topology), ByIdentity(entities))
        findings: list[Finding] = []
        for meters, _, ended in state.meters.periods(frame, every_s=PERIOD_S):
            if ended is not None and ended.is_new.any():
                state, found = self._judged(state, ended, entities, n_gpus)
                findings.extend(found)
            state = replace(state, meters=meters)
        return state, tuple(findings)

    def _judged(
        self, state: NodeSiblingsState, period: WattsPeriod, entities: tuple[Entity, ...], n_gpus: FloatArray
    ) -> tuple[NodeSiblingsState, tuple[Finding, ...]]:
        ratio = state.ratio.after(period, state.jobs.groups, meter_keys(ByIdentity(entities)))
        changed = ratio.changed
        wastes = (changed > 0.0) & (changed < _MOST_WASTE)
        over = {
            "odd": ((changed != 0.0) & ~wastes) | ((ratio.odd != 0.0) & (changed == 0.0)),
            "waste": wastes,
            "short": _is_short(changed, n_gpus),
        }
        state = replace(state, ratio=ratio)
        if not any(mask.any() for mask in over.values()) and not (
            state.odd.busy or state.waste.busy or state.short.busy
        ):
            return state, ()
        found: list[Finding] = []
        for part, cause, describe in _PARTS:
            after, changes = _advanced(getattr(state, part), period, over[part], ratio)
            if changes.some:
                name = self.name if part == "odd" else f"{self.name}.{cause.value}"
                found += findings_from(
                    name, cause, entities, after, changes, now_ns=period.now_ns,
                    describe=describe(ratio, state.jobs.groups, entities, n_gpus),
                )  # fmt: skip
            changed_part: dict[str, Any] = {part: after}
            state = replace(state, **changed_part)
        return state, tuple(found)


_PARTS = (
    ("odd", Cause.ODD_NODE, describe_odd),
    ("waste", Cause.EFFICIENCY_LOSS, describe_waste),
    ("short", Cause.GPU_LOST, describe_short),
)


def _advanced(
    before: Conditions, period: WattsPeriod, over: MaskArray, ratio: SiblingRatio
) -> tuple[Conditions, Changes]:
    after, changes = judge(
        before, now_ns=period.now_ns, elapsed_ns=round(period.passed_s * NS_PER_S), over=over, under=~over,
        seen=period.is_new, holds=_AT_ONCE,
    )  # fmt: skip
    since_ns = np.where((ratio.changed != 0.0) & (ratio.since_ns > 0), ratio.since_ns, period.now_ns)
    return begun(after, changes, since_ns), changes


def _is_short(changed: FloatArray, n_gpus: FloatArray) -> MaskArray:
    """Return a mask of nodes that draw less by about one GPU's part."""
    known = n_gpus > 0.0
    count = np.where(known, n_gpus, 1.0)
    least = np.where(known, _OWN_LEAST / count, _SHORT_LEAST)
    most = np.where(known, _OWN_MOST / count, _SHORT_MOST)
    less = -np.expm1(changed)
    return np.asarray((changed < 0.0) & (less > least) & (less < most), dtype=np.bool_)
