"""Rows of the suite `heat`, from what was called in each scene."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from evaluation.heat.nodes import FAULTY
from evaluation.heat.plan import HeatPlan, HeatScene, SceneKind
from evaluation.measures import Measured, longest, median, rate, share
from evaluation.rows import Row, at_least, at_most, measured_row
from telemetry.records import Cause

SUITE = "heat"
_row = partial(measured_row, SUITE)
_DAY_H = 24.0
# The rules beside ours, and how their rows begin.
RULES = {"fixed": "siblings within 2.5 K", "learnt": "peers with learnt offsets"}
OURS = "railwatch"
# What the goal of no false call has to rest on.
_HEALTHY_GPU_DAYS = 200.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A finding raised or cleared, or the call of another rule: when after the node's onset, and of which GPU.

    `gpu` is None for the node or its fans.
    """

    by: str
    since_s: float
    node: int
    gpu: int | None
    cause: Cause
    cleared: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SceneResult:
    """Calls in one scene over its nodes, all of one kind; the last half of the nodes have chassis held back."""

    scene: str
    kind: str
    n_nodes: int
    gpus_per_node: int
    hours: float
    calls: tuple[Call, ...]

    @property
    def gpu_days(self) -> float:
        """Return how long its GPUs were watched, together."""
        return self.n_nodes * self.gpus_per_node * self.hours / _DAY_H

    def is_held_back(self, call: Call) -> bool:
        """Return True for a call on a node whose chassis was held back."""
        return 2 * (call.node % self.n_nodes) >= self.n_nodes


def rows_of(results: Sequence[SceneResult], plan: HeatPlan) -> Iterator[Row]:
    """Yield the rows of judged scenes: each scene over all kinds of nodes, then each kind of node over all scenes."""
    for name, scene in plan.scenes.items():
        own = [one for one in results if one.scene == name]
        if own and scene.cause is not None:
            yield from _found(name, own, scene)
        if own and scene.mended is not None:
            yield from _cleared(name, own, scene.mended)
    yield from _false(results, plan)
    for name, scene in plan.scenes.items():
        own = [one for one in results if one.scene == name]
        if own and scene.kind is not SceneKind.INTERFACE:
            called = sum(len({call.node for call in false_interfaces(one, scene, OURS)}) for one in own)
            called_share = share(called, sum(one.n_nodes for one in own))
            yield at_most(_row(f"nodes called thermal_interface: {name}", called_share), 0.0)
    yield from _held_back(results, plan)
    kinds = [*dict.fromkeys(one.kind for one in results)]
    for kind in kinds if len(kinds) > 1 else ():
        yield from _of_kind(kind, [one for one in results if one.kind == kind], plan)


def _found(name: str, results: Sequence[SceneResult], scene: HeatScene) -> Iterator[Row]:
    """Yield the share found in time, ours and, of an interface, that of the other rules; and the delays."""
    nodes = sum(one.n_nodes for one in results)
    within = f"found within {scene.within / 60.0:g} min: {name}"
    delays_s = [delay_s for one in results for delay_s in first_called(one, scene, OURS).values()]
    found = _row(within, share(sum(delay_s <= scene.within for delay_s in delays_s), nodes))
    yield found if scene.found is None else at_least(found, scene.found)
    if scene.cause is Cause.THERMAL_INTERFACE:
        for rule, title in RULES.items():
            theirs = [delay_s for one in results for delay_s in first_called(one, scene, rule).values()]
            hits = sum(delay_s <= scene.within for delay_s in theirs)
            yield _row(f"{title}: {within}", share(hits, nodes))
    minutes = [delay_s / 60.0 for delay_s in delays_s]
    yield _row(f"delay: {name}", median(minutes), "min")
    yield _row(f"longest delay: {name}", longest(minutes), "min")


def _cleared(name: str, results: Sequence[SceneResult], mended_s: float) -> Iterator[Row]:
    """Yield the share of findings of a GPU that was mended that are no longer open at the end."""
    raised = cleared = 0
    minutes: list[float] = []
    for one in results:
        ours = [call for call in one.calls if call.by == OURS and call.gpu == FAULTY and call.since_s >= 0.0]
        for node in {call.node for call in ours}:
            calls = [call for call in ours if call.node == node]
            opened = sum(not call.cleared for call in calls)
            raised += opened > 0
            cleared += 0 < opened == sum(call.cleared for call in calls)
            minutes += [max(call.since_s - mended_s, 0.0) / 60.0 for call in calls if call.cleared][-1:]
    yield at_least(_row(f"cleared once mended: {name}", share(cleared, raised)), 1.0)
    yield _row(f"delay until cleared: {name}", median(minutes), "min")


def _false(results: Sequence[SceneResult], plan: HeatPlan) -> Iterator[Row]:
    """Yield false calls of an interface, over all scenes and over healthy ones, and alarms without a fault."""
    healthy = [one for one in results if _is_healthy(plan.scenes[one.scene])]
    gpu_days = sum(one.gpu_days for one in healthy)
    yield at_least(_row("healthy GPU-days", Measured(value=gpu_days if healthy else None), "d"), _HEALTHY_GPU_DAYS)
    for by, title in ((OURS, "false thermal_interface"), *RULES.items()):
        false = [call for one in healthy for call in false_interfaces(one, plan.scenes[one.scene], by)]
        row = _row(f"{title}: calls per healthy GPU-day", rate(len(false), gpu_days), "1/d")
        yield at_most(row, 0.0) if by == OURS else row
    wrong = sum(len(false_interfaces(one, plan.scenes[one.scene], OURS)) for one in results)
    all_days = sum(one.gpu_days for one in results)
    yield at_most(_row("false thermal_interface per GPU-day, all scenes", rate(wrong, all_days), "1/d"), 0.0)
    yield at_most(_row("alarms per node-day without a fault", _quiet_alarms(results, plan), "1/d"), 0.0)


def _held_back(results: Sequence[SceneResult], plan: HeatPlan) -> Iterator[Row]:
    """Yield found in time and false, on chassis that were not looked at while limits were set."""
    faults = [(one, plan.scenes[one.scene]) for one in results if plan.scenes[one.scene].found is not None]
    if not faults:
        return
    nodes = {(one.scene, one.kind): one.n_nodes - one.n_nodes // 2 for one, _ in faults}
    hits = sum(
        delay_s <= scene.within
        for one, scene in faults
        for node, delay_s in first_called(one, scene, OURS).items()
        if 2 * (node % one.n_nodes) >= one.n_nodes
    )
    found = share(hits, sum(nodes.values()))
    yield at_least(_row("found in time on chassis held back, faults with a goal", found), plan.found_on_each)
    wrong = sum(
        one.is_held_back(call) for one in results for call in false_interfaces(one, plan.scenes[one.scene], OURS)
    )
    days = 0.5 * sum(one.gpu_days for one in results)
    yield at_most(_row("false thermal_interface per GPU-day on chassis held back", rate(wrong, days), "1/d"), 0.0)


def _of_kind(kind: str, results: Sequence[SceneResult], plan: HeatPlan) -> Iterator[Row]:
    """Yield the figures of one kind of node, so that a kind that is judged worse shows."""
    faults = [(one, plan.scenes[one.scene]) for one in results if plan.scenes[one.scene].found is not None]
    hits = sum(delay_s <= scene.within for one, scene in faults for delay_s in first_called(one, scene, OURS).values())
    found = share(hits, sum(one.n_nodes for one, _ in faults))
    yield at_least(_row(f"found in time on {kind}, faults with a goal", found), plan.found_on_each)
    yield at_most(_row(f"alarms per node-day without a fault on {kind}", _quiet_alarms(results, plan), "1/d"), 0.0)


def _quiet_alarms(results: Sequence[SceneResult], plan: HeatPlan) -> Measured:
    """Return findings of any kind and any severity per node-day, in scenes in which nothing fails."""
    quiet = [one for one in results if _is_healthy(plan.scenes[one.scene])]
    alarms = sum(call.by == OURS and not call.cleared for one in quiet for call in one.calls)
    return rate(alarms, sum(one.n_nodes * one.hours / _DAY_H for one in quiet))


def _is_healthy(scene: HeatScene) -> bool:
    return scene.cause is None and scene.mended is None


def first_called(result: SceneResult, scene: HeatScene, by: str) -> Mapping[int, float]:
    """Return by node how long after the onset its fault was first called."""
    delays_s: dict[int, float] = {}
    for call in result.calls:
        counts = call.by == by and not call.cleared and call.since_s >= 0.0
        if counts and call.cause is scene.cause and _about(call, scene):
            delays_s.setdefault(call.node, call.since_s)
    return delays_s


def false_interfaces(result: SceneResult, scene: HeatScene, by: str) -> tuple[Call, ...]:
    """Return the calls of a bad thermal interface on GPUs whose interface was good."""
    return tuple(
        call
        for call in result.calls
        if call.by == by
        and not call.cleared
        and call.cause is Cause.THERMAL_INTERFACE
        and not (scene.kind is SceneKind.INTERFACE and call.gpu == FAULTY and call.since_s >= 0.0)
    )


def _about(call: Call, scene: HeatScene) -> bool:
    return call.gpu == FAULTY if scene.kind is SceneKind.INTERFACE else call.gpu is None
