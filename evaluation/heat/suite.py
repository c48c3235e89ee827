"""The suite `heat`: findings about cooling that fails, and about cooling that does not, under recorded loads."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from analytics.detectors.build import build_detectors
from analytics.detectors.limits import DetectorLimits
from analytics.detectors.panel import Panel
from evaluation.heat.nodes import FAULTY, HeatNodes
from evaluation.heat.plan import HEAT, HeatPlan, HeatScene, SceneKind
from evaluation.measures import Measured, longest, median, rate, share
from evaluation.rows import Effort, Progress, Row, at_least, at_most, measured_row, step_counter
from evaluation.workers import each
from simulator.runs.description import START_NS
from telemetry.clock import NS_PER_S
from telemetry.documents import load_document
from telemetry.records import Cause, Finding, FindingStatus

SUITE = "heat"
_row = partial(measured_row, SUITE)
_DAY_H = 24.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RaisedFinding:
    """Raised finding: when after the node's onset, of which GPU, None for the node or its fans."""

    since_s: float
    node: int
    gpu: int | None
    cause: Cause


@dataclass(frozen=True, slots=True, kw_only=True)
class SceneResult:
    """Findings of one scene over its nodes, all of one kind."""

    scene: str
    kind: str
    n_nodes: int
    reported: tuple[RaisedFinding, ...]


def heat_rows(effort: Effort, progress: Progress) -> Iterator[Row]:
    """Yield the rows; EnvironmentLacksError where the recordings are not there."""
    plan = load_document(HeatPlan, HEAT)
    n_nodes = effort.seeds or (plan.full_seeds if effort.full else plan.seeds)
    work = [(plan, kind, tuple(plan.scenes), n_nodes) for kind in plan.nodes]
    done = step_counter(progress, len(work), "kinds of nodes")
    yield from rows_of([one for batch in each(judge_scenes, work, done=done) for one in batch], plan)


def judge_scenes(work: tuple[HeatPlan, str, tuple[str, ...], int]) -> tuple[SceneResult, ...]:
    """Simulate and judge the nodes of one kind in some scenes, all side by side: many cost hardly more than one."""
    plan, kind, names, n_nodes = work
    nodes = HeatNodes(plan, kind, [plan.scenes[name] for name in names], n_nodes=n_nodes)
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
            scene=name,
            kind=kind,
            n_nodes=n_nodes,
            reported=tuple(one for one in reported if one.node // n_nodes == place),
        )
        for place, name in enumerate(names)
    )


def rows_of(results: Sequence[SceneResult], plan: HeatPlan) -> Iterator[Row]:
    """Yield the rows of judged scenes: each scene over all kinds of nodes, then each kind of node over all scenes."""
    scenes = {name: [one for one in results if one.scene == name] for name in plan.scenes}
    for name, own in scenes.items():
        if own and plan.scenes[name].cause is not None:
            yield from _found(name, own, plan.scenes[name])
    wrong = sum(len(false_interfaces(one, plan.scenes[one.scene])) for one in results)
    yield at_most(
        _row("false thermal_interface per node-day, all scenes", rate(wrong, _days(results, plan)), "1/d"), 0.0
    )
    yield at_most(_row("alarms per node-day without a fault", _quiet_alarms(results, plan), "1/d"), 0.0)
    for name, own in scenes.items():
        if own and plan.scenes[name].kind is not SceneKind.INTERFACE:
            called = [{f.node for f in one.reported if f.cause is Cause.THERMAL_INTERFACE} for one in own]
            called_share = share(sum(map(len, called)), sum(one.n_nodes for one in own))
            yield at_most(_row(f"nodes called thermal_interface: {name}", called_share), 0.0)
    kinds = [*dict.fromkeys(one.kind for one in results)]
    for kind in kinds if len(kinds) > 1 else ():
        yield from _of_kind(kind, [one for one in results if one.kind == kind], plan)


def _found(name: str, results: Sequence[SceneResult], scene: HeatScene) -> Iterator[Row]:
    delays_s = [delay_s for one in results for delay_s in first_reported(one, scene).values()]
    hits = sum(delay_s <= scene.within for delay_s in delays_s)
    nodes = sum(one.n_nodes for one in results)
    found = _row(f"found within {scene.within / 60.0:g} min: {name}", share(hits, nodes))
    yield found if scene.found is None else at_least(found, scene.found)
    minutes = [delay_s / 60.0 for delay_s in delays_s]
    yield _row(f"delay: {name}", median(minutes), "min")
    yield _row(f"longest delay: {name}", longest(minutes), "min")


def _of_kind(kind: str, results: Sequence[SceneResult], plan: HeatPlan) -> Iterator[Row]:
    """Yield the figures of one kind of node, so that a kind that is judged worse shows."""
    faults = [(one, plan.scenes[one.scene]) for one in results if plan.scenes[one.scene].found is not None]
    hits = sum(delay_s <= scene.within for one, scene in faults for delay_s in first_reported(one, scene).values())
    found = share(hits, sum(one.n_nodes for one, _ in faults))
    yield at_least(_row(f"found in time on {kind}, faults with a goal", found), plan.found_on_each)
    yield at_most(_row(f"alarms per node-day without a fault on {kind}", _quiet_alarms(results, plan), "1/d"), 0.0)


def _quiet_alarms(results: Sequence[SceneResult], plan: HeatPlan) -> Measured:
    quiet = [one for one in results if plan.scenes[one.scene].cause is None]
    return rate(sum(len(one.reported) for one in quiet), _days(quiet, plan))


def _days(results: Sequence[SceneResult], plan: HeatPlan) -> float:
    return sum(one.n_nodes for one in results) * plan.hours / _DAY_H


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
