"""The runs of a rehearsal: each seed with railwatch, without it, and on a node that cannot fail."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from types import TracebackType

from agent.guard.pipeline import PipelineSettings
from evaluation.judgement.table import JUDGEMENT, JudgementTable
from evaluation.rehearsal.actions import ActionSummary, summarise_actions
from evaluation.rehearsal.loop import moved, watch
from evaluation.rehearsal.outcome import RunOutcome, TruthRecorder
from evaluation.rehearsal.plan import Rehearsal
from evaluation.workers import each
from simulator.files.scenario import ScenarioFile
from simulator.plant.events import PlantEvent
from simulator.plant.plant import Plant
from simulator.plant.state import Stretch
from simulator.runs.order import RunOrder
from telemetry.documents import load_document

_MARK = b"."
MS_PER_S = 1000


class ProgressMarks:
    """The marks of one run, in a file of its own; where there is no folder none are left."""

    def __init__(self, folder: Path | None, name: str) -> None:
        self._file = None if folder is None else (folder / name).open("wb", buffering=0)
        self._made_s = 0

    def __enter__(self) -> Callable[[int], None]:
        """Return the callback that records how much time has passed in the simulation, in milliseconds."""
        return self._reached

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()

    def _reached(self, now_ms: int) -> None:
        now_s = now_ms // MS_PER_S
        if self._file is not None and now_s > self._made_s:
            self._file.write(_MARK * (now_s - self._made_s))
            self._made_s = now_s


def simulated_s(folder: Path) -> int:
    """Return the seconds simulated so far by all runs that leave their marks in a folder."""
    return sum(file.stat().st_size for file in folder.iterdir())


class Variant(StrEnum):
    """Under what a seed is run."""

    WATCHED = "watched"
    BARE = "bare"
    HEALTHY = "healthy"


@dataclass(frozen=True, slots=True, kw_only=True)
class RehearsalRun:
    """Planned run; `marks` is the folder where it reports progress."""

    rehearsal: Rehearsal
    seed: int
    arm: Variant
    marks: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedResult:
    """Runs of one seed: with railwatch and without, and the steps of the job where nothing fails."""

    seed: int
    duration_s: float
    watched: RunOutcome
    bare: RunOutcome
    healthy_steps: int
    actions: ActionSummary

    def goodput(self, outcome: RunOutcome) -> float | None:
        """Return the steps of a run against those of the healthy node; None for a job that has no steps."""
        return outcome.steps / self.healthy_steps if self.healthy_steps else None


def rehearse(rehearsal: Rehearsal, seeds: Sequence[int], *, marks: Path | None = None) -> Iterator[SeedResult]:
    """Yield the result of each seed in order, spread over the processors; `marks` is where runs show their progress."""
    rehearsal.order(seeds[0])
    rehearsal.settings()
    pieces = [RehearsalRun(rehearsal=rehearsal, seed=seed, arm=arm, marks=marks) for seed in seeds for arm in Variant]
    made: list[tuple[RunOutcome, ActionSummary | None]] = []
    for result in each(run_rehearsal, pieces, done=lambda: None):
        made.append(result)
        if len(made) == len(Variant):
            seed = seeds[0]
            seeds = seeds[1:]
            yield _joined(rehearsal.order(seed), made)
            made = []


def run_rehearsal(piece: RehearsalRun) -> tuple[RunOutcome, ActionSummary | None]:
    """Simulate one arm of one seed; what railwatch did is None where it was not there."""
    order, settings = piece.rehearsal.order(piece.seed), piece.rehearsal.settings()
    with ProgressMarks(piece.marks, f"{piece.seed}-{piece.arm}") as reached:
        return _run(piece.arm, order, settings, reached)


def _run(
    arm: Variant, order: RunOrder, settings: PipelineSettings, reached: Callable[[int], None]
) -> tuple[RunOutcome, ActionSummary | None]:
    witness = TruthRecorder(settings.limits.rail_sag.minimum_v)

    def see(plant: Plant, stretch: Stretch, events: tuple[PlantEvent, ...]) -> None:
        witness.take(stretch, plant.state, events)
        reached(int(stretch.time_ms[-1]) + 1)

    if arm is not Variant.WATCHED:
        plant = (order if arm is Variant.BARE else without_failing(order)).plant()
        for stretch, events in moved(plant, order.duration_ms):
            see(plant, stretch, events)
        return witness.outcome(), None
    watched = watch(order, settings, see)
    actions = summarise_actions(
        watched.records,
        watched.actions,
        scenario=order.scenario,
        witness=witness,
        table=load_document(JudgementTable, JUDGEMENT),
        duration_s=order.duration_s,
    )
    return witness.outcome(), replace(actions, failed=actions.failed + watched.failures)


def without_failing(order: RunOrder) -> RunOrder:
    """Return the same work on a node that nothing happens to: no scenario but its jobs, no drop and no brake."""
    hazard = order.node.gpu.hazard.model_copy(update={"rate_per_s": 0.0, "brake_below_v": 0.0})
    node = order.node.model_copy(update={"gpu": order.node.gpu.model_copy(update={"hazard": hazard})})
    jobs = ScenarioFile(name="healthy", description="Nothing happens.", kind="quiet", jobs=order.scenario.jobs)
    return replace(order, node=node, scenario=jobs)


def _joined(order: RunOrder, made: Sequence[tuple[RunOutcome, ActionSummary | None]]) -> SeedResult:
    (watched, actions), (bare, _), (healthy, _) = made
    if actions is None:
        raise ValueError("the run with railwatch has no record of what was done")
    return SeedResult(
        seed=order.seed,
        duration_s=order.duration_s,
        watched=watched,
        bare=bare,
        healthy_steps=healthy.steps,
        actions=actions,
    )
