"""The suite `heat`: findings about cooling that fails, and about cooling that does not, under recorded loads."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from analytics.detectors.build import build_detectors
from analytics.detectors.limits import DetectorLimits
from analytics.detectors.panel import Panel
from evaluation.heat.nodes import FAULTY, HeatNodes
from evaluation.heat.plan import HEAT, HeatPlan, HeatScene, SceneKind
from evaluation.measures import longest, median, rate, share
from evaluation.rows import Effort, Progress, Row, at_least, at_most, measured_row, step_counter
from evaluation.workers import each
from simulator.runs.description import START_NS
from telemetry.clock import NS_PER_S
from telemetry.documents import load_document
from telemetry.records import Cause, Finding, FindingStatus

SUITE = "heat"
_row = partial(measured_row, SUITE)
_DAY_H = 24.0
_BATCHES = 2  # heuristic: the scenes of a batch cost hardly more than one, and two cores are the least there is


@dataclass(frozen=True, slots=True, kw_only=True)
class RaisedFinding:
    """Raised finding: when after the node's onset, of which GPU, None for the node or its fans."""

    since_s: float
    node: int
    gpu: int | None
    cause: Cause


@dataclass(frozen=True, slots=True, kw_only=True)
class SceneResult:
    """Findings of one scene over its nodes."""

    scene: str
    n_nodes: int
    reported: tuple[RaisedFinding, ...]


def heat_rows(effort: Effort, progress: Progress) -> Iterator[Row]:
    """Yield the rows; EnvironmentLacksError where the recordings are not there."""
    plan = load_document(HeatPlan, HEAT)
    n_nodes = effort.seeds or (plan.full_nodes if effort.full else plan.nodes)
    work = [(plan, tuple(list(plan.scenes)[first::_BATCHES]), n_nodes) for first in range(_BATCHES)]
    results = [
        one
        for batch in each(judge_scenes, work, done=step_counter(progress, len(work), "batches of scenes"))
        for one in batch
    ]
    yield from rows_of(sorted(results, key=lambda one: list(plan.scenes).index(one.scene)), plan)


def judge_scenes(work: tuple[HeatPlan, tuple[str, ...], int]) -> tuple[SceneResult, ...]:
    """Simulate and judge the nodes of some scenes, all side by side."""
    plan, names, n_nodes = work
    nodes = HeatNodes(plan, [plan.scenes[name] for name in names], n_nodes=n_nodes)
    detectors = tuple(one for one in build_detectors(DetectorLimits()) if one.name in plan.detectors)
    panel = Panel(detectors=detectors, event_detectors=())
    tables = nodes.tables
    state = panel.start([tables.gpus, tables.nodes, tables.fans])
    reported: list[RaisedFinding] = []
    for frames in nodes.frames():
        state, findings = panel.step(state, frames, tables.topology)
        reported += [_reported(one, nodes) for one in findings if one.status is FindingStatus.RAISED]
    return tuple(
        SceneResult(
            scene=name, n_nodes=n_nodes, reported=tuple(one for one in reported if one.node // n_nodes == place)
        )
        for place, name in enumerate(names)
    )


def rows_of(results: Sequence[SceneResult], plan: HeatPlan) -> Iterator[Row]:
    """Yield the rows of judged scenes."""
    for result in results:
        scene = plan.scenes[result.scene]
        if scene.cause is not None:
            yield from _found(result, scene)
    days = sum(result.n_nodes for result in results) * plan.hours / _DAY_H
    wrong = sum(len(false_interfaces(result, plan.scenes[result.scene])) for result in results)
    yield at_most(_row("false thermal_interface per node-day, all scenes", rate(wrong, days), "1/d"), 0.0)
    quiet = [result for result in results if plan.scenes[result.scene].cause is None]
    days = sum(result.n_nodes for result in quiet) * plan.hours / _DAY_H
    alarms = sum(len(result.reported) for result in quiet)
    yield at_most(_row("alarms per node-day without a fault", rate(alarms, days), "1/d"), 0.0)
    for result in results:
        if plan.scenes[result.scene].kind is not SceneKind.INTERFACE:
            called = {one.node for one in result.reported if one.cause is Cause.THERMAL_INTERFACE}
            called_share = share(len(called), result.n_nodes)
            yield at_most(_row(f"nodes called thermal_interface: {result.scene}", called_share), 0.0)


def _found(result: SceneResult, scene: HeatScene) -> Iterator[Row]:
    delays_s = first_reported(result, scene)
    hits = sum(delay_s <= scene.within for delay_s in delays_s.values())
    found = _row(f"found within {scene.within / 60.0:g} min: {result.scene}", share(hits, result.n_nodes))
    yield found if scene.found is None else at_least(found, scene.found)
    minutes = [delay_s / 60.0 for delay_s in delays_s.values()]
    yield _row(f"delay: {result.scene}", median(minutes), "min")
    yield _row(f"longest delay: {result.scene}", longest(minutes), "min")


def first_reported(result: SceneResult, scene: HeatScene) -> Mapping[int, float]:
    """Return by node how long after the onset its fault was first named."""
    delays_s: dict[int, float] = {}
    for one in result.reported:
        if one.cause is scene.cause and one.since_s >= 0.0 and _about(one, scene):
            delays_s.setdefault(one.node, one.since_s)
    return delays_s


def false_interfaces(result: SceneResult, scene: HeatScene) -> tuple[RaisedFinding, ...]:
    """Return the findings of a bad thermal interface on GPUs whose interface was good."""
    return tuple(
        one
        for one in result.reported
        if one.cause is Cause.THERMAL_INTERFACE
        and not (scene.kind is SceneKind.INTERFACE and one.gpu == FAULTY and one.since_s >= 0.0)
    )


def _about(one: RaisedFinding, scene: HeatScene) -> bool:
    return one.gpu == FAULTY if scene.kind is SceneKind.INTERFACE else one.gpu is None


def _reported(finding: Finding, nodes: HeatNodes) -> RaisedFinding:
    node, gpu = nodes.tables.places[finding.entity_id]
    since_s = (finding.time_ns - START_NS) / NS_PER_S - float(nodes.onset_s[node])
    return RaisedFinding(since_s=since_s, node=node, gpu=gpu, cause=finding.cause)
