"""GPU that left a node's watts: the node draws less by one GPU's part of its load, and goes on so.

The node's own watts are enough, or the sum of its feeds; where volts and amperes are read too, these must fall as well.
Where GPUs show their power, one of them must draw less while the busiest draws what it did; a load that fell on all of
them is none. What is found so is a warning: the watts of a
node do not show which GPU it is, nor why it draws less.

Disproved by a job that began another phase, or that ended on one GPU.
"""

from dataclasses import dataclass, replace

from analytics.connectivity import Siblings
from analytics.connectivity.kinship import ByIdentity
from analytics.detectors.condition import Changes, Conditions, Holds, judge
from analytics.detectors.joined_columns import JoinedColumn
from analytics.detectors.statements import Statement, evidence, findings_from
from analytics.detectors.streaks import begun
from analytics.feeds.by_node import judged_by_node
from analytics.feeds.gpus_beside import JOINED, GpusBeside, nodes_and_gpus
from analytics.feeds.levels import PERIOD_S, WINDOW, Levels
from analytics.feeds.node_watts import SIGNAL, NodeReadings, WattsPeriod
from analytics.feeds.readings import FeedPeriod, FeedReadings
from analytics.feeds.step_down import HOLD_PERIODS, StepDown
from analytics.feeds.volt_amps import VoltAmps
from telemetry.clock import NS_PER_S
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.frames import FloatArray, Frame, TableSpec, filled
from telemetry.quantities import percent
from telemetry.records import Cause, Finding, FindingStatus, Severity

# What is judged has lasted by then.
_AT_ONCE = Holds.of_seconds(set_s=0.0, clear_s=0.0)
# A step is found so many periods after it began.
_AGO = WINDOW + int(HOLD_PERIODS)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GpuLeftState:
    """State between rows; `feeds` is used where the entities are feeds, `meters` where they are nodes."""

    siblings: Siblings
    feeds: FeedReadings
    meters: NodeReadings
    gpus: GpusBeside
    volt_amps: VoltAmps
    levels: Levels
    step: StepDown
    left: Conditions


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuLeft:
    """Raises `Cause.GPU_LOST` on nodes, by their own watts or by those of their feeds."""

    name: str
    kind: EntityKind
    joined_columns: tuple[JoinedColumn, ...] = JOINED

    @property
    def signals(self) -> tuple[str, ...]:
        """Required signals."""
        return (SIGNAL,) if self.kind is EntityKind.NODE else ()

    def start(self, spec: TableSpec) -> GpuLeftState:
        """Return the state before the first row."""
        return filled(GpuLeftState, len(spec.entities))

    def rests(self, state: GpuLeftState) -> bool:
        """Return True for a table of supplies without a feed."""
        return self.kind is EntityKind.SUPPLY and state.feeds.idle

    def step(self, state: GpuLeftState, frame: Frame, topology: Topology) -> tuple[GpuLeftState, tuple[Finding, ...]]:
        """Judge each period of a frame when the next one begins."""
        entities = frame.spec.entities
        state = replace(state, siblings=state.siblings.under(topology, entities))
        nodes, n_gpus = nodes_and_gpus(ByIdentity(topology), ByIdentity(entities))

        def judge_period(
            state: GpuLeftState, ended: WattsPeriod, period: FeedPeriod | WattsPeriod
        ) -> tuple[GpuLeftState, tuple[Finding, ...]]:
            state, changes = _judged(state, ended, n_gpus, period)
            if not changes.some:
                return state, ()
            return state, _findings(self.name, state, changes, ended, nodes=nodes, n_gpus=n_gpus)

        return judged_by_node(state, frame, judge_period, every_s=PERIOD_S)


def _judged(
    state: GpuLeftState, period: WattsPeriod, n_gpus: FloatArray, of_feeds: FeedPeriod | WattsPeriod
) -> tuple[GpuLeftState, Changes]:
    volt_amps = state.volt_amps.after(of_feeds) if isinstance(of_feeds, FeedPeriod) else state.volt_amps
    gpus, levels = state.gpus.after_period(period.is_new), state.levels.after(period)
    stayed = state.step.stays
    step, levels = state.step.after(levels, period, n_gpus)
    new = step.stays & ~stayed
    if new.any():
        refused = new & ~gpus.one_left(step.size_w, _AGO)
        if isinstance(of_feeds, FeedPeriod):
            refused |= new & volt_amps.deny(of_feeds, -step.size_w / step.base_w, periods_ago=_AGO + 1)
        step = step.without(refused)
    left, changes = judge(
        state.left,
        now_ns=period.now_ns,
        elapsed_ns=round(period.passed_s * NS_PER_S),
        over=step.stays,
        under=~step.stays,
        seen=period.is_new,
        holds=_AT_ONCE,
    )
    left = begun(left, changes, step.since_ns)
    return replace(state, gpus=gpus, volt_amps=volt_amps, levels=levels, step=step, left=left), changes


def _findings(
    name: str,
    state: GpuLeftState,
    changes: Changes,
    period: WattsPeriod,
    *,
    nodes: tuple[Entity, ...],
    n_gpus: FloatArray,
) -> tuple[Finding, ...]:
    step, before = state.step, state.levels.ring

    def describe(index: int, status: FindingStatus) -> Statement:
        node, count, now_w = nodes[index].label, float(n_gpus[index]), float(before[index, -1])
        level_w, step_w = float(step.level_w[index]), float(step.size_w[index])
        part = float(step.part[index])
        if status is FindingStatus.CLEARED:
            summary = f"{node} draws {now_w:.0f} W: no longer one GPU's share less than before"
        else:
            of = f"1 of {count:.0f} GPUs" if count > 0.0 else f"one GPU of about {min(round(1.0 / part), 16)}"
            summary = (
                f"{node} draws {level_w:.0f} W, {percent(step_w / (level_w + step_w))} less at once: as if {of} left"
            )
        return Statement(
            severity=Severity.WARNING,
            score=0.5,
            summary=summary,
            evidence=evidence(
                ("power_w", now_w, "W"),
                ("usual_power_w", level_w + step_w, "W"),
                ("step_w", step_w, "W"),
                ("part_ratio", part, "ratio"),
                ("gpus", count, ""),
                ("duration_s", state.left.lasted_s(index, period.now_ns), "s"),
            ),
        )

    return findings_from(name, Cause.GPU_LOST, nodes, state.left, changes, now_ns=period.now_ns, describe=describe)
