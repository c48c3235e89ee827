"""Runs of the suite: machines of one rate side by side, judged by the panel and the incident book of a fleet."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from analytics.detectors.limits import DetectorLimits
from analytics.detectors.panel import Panel
from analytics.incidents.book import IncidentBook
from evaluation.domain.oracle import Oracle, SeenFault
from evaluation.domain.plan import DomainPlan, DomainScene, RatePlan
from evaluation.domain.plant.drawn import drawn_machine
from evaluation.domain.plant.faults import NO_FAULT, Fault, FaultKind
from evaluation.domain.plant.machines import together
from evaluation.domain.plant.meters import KINDS
from evaluation.domain.plant.tables import START_NS
from evaluation.domain.plant.world import Stretch, World, WorldPlan
from evaluation.judgement.scoring import RunReport
from evaluation.judgement.sightings import TrueFault, about_of, sightings_of
from telemetry.clock import NS_PER_S
from telemetry.frames import Frame
from telemetry.records import Finding, FindingStatus, Incident, Severity

# heuristic: rows of a second are judged at once where something happens, of ten where nothing does.
_STEP_S, _QUIET_STEP_S = 1.0, 10.0
_FEEDS = 2
# Faults of GPUs, by the GPU of their place; of supplies, by the supply; the others are of the node.
_OF_GPUS = frozenset({FaultKind.INTERFACE, FaultKind.GPU_LOST, FaultKind.STRAGGLER, FaultKind.LINKS})
_OF_A_SUPPLY = frozenset(
    {
        FaultKind.LOST,
        FaultKind.JOINT,
        FaultKind.LOOSE,
        FaultKind.STUCK_V,
        FaultKind.STUCK_A,
        FaultKind.LATE,
        FaultKind.GAIN_V,
        FaultKind.GAIN_A,
    }
)
_OF_ALL_SUPPLIES = frozenset(
    {FaultKind.FEED, FaultKind.OVERLOAD, FaultKind.ALL_JOINTS, FaultKind.SAG, FaultKind.DEEP_SAG}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainBatch:
    """Machines of one rate; `scenes` has the scene of each and its seed, None for a healthy one."""

    plan: DomainPlan
    rate: RatePlan
    scenes: tuple[tuple[str | None, int], ...]
    seconds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainRun:
    """Machine as it was judged: what was reported, when findings of warning were raised, what the oracle sees.

    `healthy_s` is how long nothing was wrong, `false_s` are the times of findings in it, `false` their summaries.
    """

    report: RunReport
    answer: str
    family: str
    nominal_v: float
    meter: str
    supply_hz: float
    healthy_s: float
    false: tuple[str, ...]
    seen: SeenFault | None
    debounce_s: float


def judge_batch(batch: DomainBatch) -> tuple[DomainRun, ...]:
    """Simulate and judge the machines of a batch, all side by side."""
    world = World(_world_plan(batch))
    tables, panel = world.tables, Panel.build(DetectorLimits())
    state, book = panel.start(tables.specs), IncidentBook()
    faulty = any(fault.kind is not FaultKind.NONE for fault in world.plan.faults)
    oracle = Oracle(world) if faulty else None
    findings: list[Finding] = []
    incidents: list[Incident] = []
    for stretch in world.stretches():
        if oracle is not None:
            oracle.watch(stretch)
        for frames in _windows(stretch, _STEP_S if faulty else _QUIET_STEP_S):
            state, found = panel.step(state, frames, tables.topology)
            now_ns = max(int(frame.time_ns[-1]) for frame in frames)
            incidents += book.step(found, now_ns, tables.topology, read_judged=partial(panel.judged, state))
            findings += found
    return tuple(_runs(batch, world, findings, incidents, oracle))


def _world_plan(batch: DomainBatch) -> WorldPlan:
    scenes = [(None if name is None else batch.plan.scenes[name], seed) for name, seed in batch.scenes]
    machines, faults, works = [], [], []
    for scene, seed in scenes:
        wanted = None if scene is None else scene.machines
        machine = drawn_machine(seed, rate_hz=batch.rate.supply_hz, wanted=wanted)
        machines.append(machine)
        rng = np.random.default_rng([seed, 1403])
        n_supplies, n_gpus = len(machine.supplies.node), len(machine.gpus.node)
        faults.append(NO_FAULT if scene is None else _fault(rng, scene, batch.plan, n_supplies, n_gpus))
        works.append("mixed" if scene is None else str(rng.choice(scene.works)))
    return WorldPlan(
        machines=together(machines),
        faults=tuple(faults),
        works=tuple(works),
        seconds=batch.seconds,
        supply_hz=batch.rate.supply_hz,
        gpu_hz=batch.rate.gpu_hz,
    )


def _fault(rng: np.random.Generator, scene: DomainScene, plan: DomainPlan, n_supplies: int, n_gpus: int) -> Fault:
    of = n_gpus if scene.kind in _OF_GPUS else _FEEDS if scene.kind is FaultKind.FEED else n_supplies
    return Fault(
        kind=scene.kind,
        at_s=float(np.round(rng.uniform(*plan.onset), 2)),
        lasts_s=np.inf if scene.lasts is None else scene.lasts,
        size=float(rng.choice(scene.sizes)),
        ramp_s=scene.ramp,
        place=int(rng.integers(of)),
    )


def _windows(stretch: Stretch, step_s: float) -> Iterator[list[Frame]]:
    """Yield the frames of a stretch cut into steps of time."""
    first_ns = min(int(frame.time_ns[0]) for frame in stretch.frames)
    last_ns = max(int(frame.time_ns[-1]) for frame in stretch.frames)
    step_ns = round(step_s * NS_PER_S)
    starts = [0] * len(stretch.frames)
    for end_ns in range(first_ns - first_ns % step_ns + step_ns, last_ns + step_ns + 1, step_ns):
        stops = [int(np.searchsorted(frame.time_ns, end_ns)) for frame in stretch.frames]
        parts = [frame.rows(*cut) for frame, *cut in zip(stretch.frames, starts, stops, strict=True) if cut[1] > cut[0]]
        starts = stops
        if parts:
            yield parts


def _runs(
    batch: DomainBatch,
    world: World,
    findings: Sequence[Finding],
    incidents: Sequence[Incident],
    oracle: Oracle | None,
) -> Iterator[DomainRun]:
    tables, nodes = world.tables, world.machines.nodes
    raised: list[list[Finding]] = [[] for _ in batch.scenes]
    for finding in findings:
        if finding.status is FindingStatus.RAISED and finding.severity is not Severity.INFO:
            raised[tables.node_of[finding.entity_id]].append(finding)
    of_node: list[list[Incident]] = [[] for _ in batch.scenes]
    for incident in incidents:
        of_node[tables.node_of[incident.entity_id]].append(incident)
    for node, (name, seed) in enumerate(batch.scenes):
        scene = None if name is None else batch.plan.scenes[name]
        fault = world.plan.faults[node]
        onset_ns = START_NS + round(fault.at_s * NS_PER_S)
        false = [one for one in raised[node] if scene is None or one.time_ns < onset_ns]
        yield DomainRun(
            report=RunReport(
                scenario=name or "healthy",
                node=f"{nodes.nominal_v[node]:g} V",
                seed=seed,
                group=f"{batch.rate.supply_hz:g} Hz",
                quiet=scene is None,
                duration_s=batch.seconds,
                faults=() if scene is None else (_truth(scene, fault, node, world),),
                first_drop_ns=onset_ns if fault.kind is FaultKind.GPU_LOST else None,
                sightings=sightings_of(of_node[node]),
            ),
            answer="" if scene is None else scene.answer,
            family="healthy" if scene is None else scene.family,
            nominal_v=float(nodes.nominal_v[node]),
            meter=str(KINDS[int(world.machines.meters.kind[node])]),
            supply_hz=batch.rate.supply_hz,
            healthy_s=batch.seconds if scene is None else fault.at_s,
            false=tuple(f"{one.detector}: {one.summary}" for one in false),
            seen=None if scene is None or oracle is None else oracle.seen(node),
            debounce_s=0.0 if scene is None else scene.debounce,
        )


def _truth(scene: DomainScene, fault: Fault, node: int, world: World) -> TrueFault:
    tables = world.tables
    onset_ns = START_NS + round(fault.at_s * NS_PER_S)
    supplies = [tables.supplies.entities[one].id for one in world.machines.supplies_of(node).tolist()]
    gpus = [tables.gpus.entities[one].id for one in world.machines.gpus_of(node).tolist()]
    if fault.kind in _OF_GPUS:
        named = [gpus[fault.place]]
    elif fault.kind in _OF_A_SUPPLY:
        named = [supplies[fault.place]]
    else:
        named = supplies if fault.kind in _OF_ALL_SUPPLIES else gpus
    return TrueFault(
        causes=(scene.answer,),
        about=about_of(frozenset(named), tables.topology),
        onset_ns=onset_ns,
        end_ns=None if np.isinf(fault.lasts_s) else onset_ns + round(fault.lasts_s * NS_PER_S),
    )
