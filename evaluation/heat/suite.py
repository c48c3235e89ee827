"""The suite `heat`: findings about cooling that fails, and about cooling that does not, under recorded loads."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from analytics.connectivity.siblings import sibling_groups
from analytics.detectors.build import build_detectors
from analytics.detectors.limits import DetectorLimits
from analytics.detectors.panel import Panel
from evaluation.heat.nodes import HeatNodes
from evaluation.heat.peers import PeerRules
from evaluation.heat.plan import HEAT, HeatPlan, HeatRun
from evaluation.heat.table import Call, SceneResult, rows_of
from evaluation.rows import Effort, Progress, Row, step_counter
from evaluation.workers import each
from simulator.runs.description import START_NS
from telemetry.clock import NS_PER_S
from telemetry.documents import load_document
from telemetry.frames import Frame
from telemetry.records import Cause, Finding, FindingStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatWork:
    """Nodes of one kind in the scenes of one run; the last half of `seeds` are chassis held back."""

    plan: HeatPlan
    kind: str
    run: str
    seeds: tuple[int, ...]


def heat_rows(effort: Effort, progress: Progress) -> Iterator[Row]:
    """Yield the rows; EnvironmentLacksError where the recordings are not there."""
    plan = load_document(HeatPlan, HEAT)
    n_nodes = effort.seeds or (plan.full_seeds if effort.full else plan.seeds)
    seeds = tuple(first + number for first in (plan.seed, plan.held_back) for number in range(n_nodes))
    work = [HeatWork(plan=plan, kind=kind, run=run, seeds=seeds) for run in plan.runs for kind in plan.nodes]
    done = step_counter(progress, len(work), "kinds of nodes and lengths")
    yield from rows_of([one for batch in each(judge_scenes, work, done=done) for one in batch], plan)


def judge_scenes(work: HeatWork) -> tuple[SceneResult, ...]:
    """Simulate and judge the nodes of one kind in all scenes of a run, side by side: many cost little more than one."""
    plan, run = work.plan, work.plan.runs[work.run]
    nodes = HeatNodes(plan, work.kind, run, work.seeds)
    detectors = tuple(one for one in build_detectors(DetectorLimits()) if one.name in plan.detectors)
    panel, tables = Panel(detectors=detectors, event_detectors=()), nodes.tables
    state = panel.start([tables.gpus, tables.nodes, tables.fans])
    rules = _rules(nodes, run)
    calls: list[Call] = []
    for frames in nodes.frames():
        state, findings = panel.step(state, frames, tables.topology)
        calls += [_call(one, nodes) for one in findings if one.status is not FindingStatus.UPDATED]
        rules.step(frames[0], _inlet_c(frames[1], nodes))
    for rule in ("fixed", "learnt"):
        calls += [_peer_call(rule, at_ns, place, nodes) for at_ns, place in getattr(rules.calls, rule)]
    n_nodes = len(work.seeds)
    return tuple(
        SceneResult(
            scene=name,
            kind=work.kind,
            n_nodes=n_nodes,
            gpus_per_node=nodes.gpus_per_node,
            hours=run.hours,
            calls=tuple(one for one in calls if one.node // n_nodes == place),
        )
        for place, name in enumerate(run.scenes)
    )


def _rules(nodes: HeatNodes, run: HeatRun) -> PeerRules:
    groups = sibling_groups(nodes.tables.gpus.entities, nodes.tables.topology)
    return PeerRules(groups, window_s=run.peer_window, learn_windows=run.peer_windows)


def _inlet_c(frame: Frame, nodes: HeatNodes) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    return np.repeat(frame.signal("inlet_temp_c"), nodes.gpus_per_node, axis=1)


def _call(finding: Finding, nodes: HeatNodes) -> Call:
    node, gpu = nodes.tables.places[finding.entity_id]
    return Call(
        by="railwatch",
        since_s=_since_s(finding.time_ns, node, nodes),
        node=node,
        gpu=gpu,
        cause=finding.cause,
        cleared=finding.status is FindingStatus.CLEARED,
    )


def _peer_call(rule: str, at_ns: int, place: int, nodes: HeatNodes) -> Call:
    node, gpu = divmod(place, nodes.gpus_per_node)
    since_s = _since_s(at_ns, node, nodes)
    return Call(by=rule, since_s=since_s, node=node, gpu=gpu, cause=Cause.THERMAL_INTERFACE, cleared=False)


def _since_s(at_ns: int, node: int, nodes: HeatNodes) -> float:
    return (at_ns - START_NS) / NS_PER_S - float(nodes.onset_s[node])
