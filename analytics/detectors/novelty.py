"""Novelty: a GPU behaves unlike its learnt past, its siblings do not, and no other finding explains it.

A low-priority backstop for unforeseen faults. Every half minute it takes the means of a GPU's signals, less those of
its siblings at a similar load, and compares them with the learnt and frozen distribution for its power
(`analytics.novelty.streams`). The finding is a note that something is new, not what. Any other finding on the GPU, its
node, supplies or links silences it, as do jobs that begin or end, drivers that come or go, and clocks cut for heat. A
GPU that stays unusual for a day is learnt anew: the note would otherwise hide whatever comes next.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from analytics.calibration.achieved import MONTH_S
from analytics.connectivity import GroupArray, Siblings, sibling_median
from analytics.connectivity.siblings import MIN_SIBLINGS
from analytics.detectors.columns import bits_set, optional
from analytics.detectors.condition import Changes, Conditions, Holds, clear_where, judge, report_worse
from analytics.detectors.limits import NoveltyLimits
from analytics.detectors.novelty_summary import LastWindow, SignalDeviation, describe
from analytics.detectors.seconds import running_sum, stretches
from analytics.detectors.statements import Statement, findings_from
from analytics.novelty.explained import Explained
from analytics.novelty.features import FEATURE_SIGNALS, features_of, present
from analytics.novelty.streams import StreamModels, StreamPlan, distances, forget, take_in, unrest
from telemetry.clock import NS_PER_S
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.frames import FloatArray, Frame, FromZero, MaskArray, TableSpec, filled, reset_where
from telemetry.gpu import COOLING_REASONS
from telemetry.records import Cause, Event, Finding, FindingStatus

# heuristic: windows further apart leave a gap; the smoothed distance restarts after it.
_MAX_GAP_WINDOWS = 4
# heuristic: share of the newest window in the unrest of a GPU where it rises, and where it falls: it is up within two
# minutes and down within ten, since a load that jumps by chance is steady by chance for some windows.
_UNREST_RISES, _UNREST_FALLS = 0.3, 0.05
# heuristic: a note raises the logarithm of a GPU's threshold by this, and the time of a budget of one note lowers it as
# much: notes, true ones included, cannot come much more often than the budget for long.
_RAISED_BY_NOTE = 0.5


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NoveltyState:
    """State between rows; arrays whose first axis is the GPU.

    `total` and `count` ``(n_gpus, n_senses)`` are the sums of the window that runs, `cut` marks clocks that were held
    down in it. `far` is the smoothed distance, NaN where there is none; `sensed` what the last judged window showed.
    `last` ``(n_gpus, n_senses + 1)`` are the features of the last window that had them, NaN after a gap; `unrest` is
    the smoothed change from one window to the next; `raised` is by how much earlier notes raise the logarithm of the
    threshold.
    """

    window: int | None
    total: FloatArray
    count: FloatArray
    cut: MaskArray
    siblings: Siblings
    models: StreamModels
    explained: Explained
    conditions: Conditions
    far: FloatArray
    sensed: LastWindow
    last: FloatArray
    unrest: FloatArray
    raised: FromZero


@dataclass(frozen=True, slots=True, kw_only=True)
class Novelty:
    """Raises `Cause.NOVELTY` as information."""

    limits: NoveltyLimits
    name: str = "novelty"
    kind: EntityKind = EntityKind.GPU
    signals: tuple[str, ...] = ("power_w", "gpu_temp_c")

    @property
    def plan(self) -> StreamPlan:
        """Plan of the learning time and of the threshold."""
        limits = self.limits
        blocks_a_month = MONTH_S / (limits.window_s * limits.block_windows)
        return StreamPlan(
            learn_windows=limits.learn_windows,
            blocks=limits.blocks,
            block_windows=limits.block_windows,
            blocks_per_alarm=max(blocks_a_month / limits.notes_per_gpu_month, 2.0),
        )

    def start(self, spec: TableSpec) -> NoveltyState:
        """Return the state before the first row."""
        size, n_senses = len(spec.entities), len(present(spec.signals))
        zero = np.zeros((size, n_senses))
        return filled(
            NoveltyState,
            size,
            total=zero,
            count=zero,
            models=StreamModels.unknown(size, n_senses + 1, self.plan),
            sensed=filled(LastWindow, (size, n_senses)),
            last=np.full((size, n_senses + 1), np.nan),
        )

    def take_events(self, state: NoveltyState, events: Sequence[Event]) -> NoveltyState:
        """Note events that explain a change."""
        return replace(state, explained=state.explained.take_events(events))

    def take_findings(self, state: NoveltyState, findings: Sequence[Finding]) -> NoveltyState:
        """Note the findings of the other detectors."""
        return replace(state, explained=state.explained.take_findings(findings, but=self.name))

    def accept(self, state: NoveltyState, accepted: MaskArray) -> NoveltyState:
        """Reset the models of the accepted GPUs."""
        return replace(
            state,
            models=forget(state.models, accepted, self.plan),
            far=np.where(accepted, np.nan, state.far),
            raised=np.where(accepted, 0.0, state.raised),
        )

    def step(self, state: NoveltyState, frame: Frame, topology: Topology) -> tuple[NoveltyState, tuple[Finding, ...]]:
        """Add up the rows of a frame, and judge each window when the next one begins."""
        places = [frame.spec.signals.index(FEATURE_SIGNALS[sense].signal) for sense in present(frame.spec.signals)]
        flags = optional(frame, "throttle_reasons")
        state = replace(state, siblings=state.siblings.under(topology, frame.spec.entities))
        findings: list[Finding] = []
        for window, rows, ended_ns in stretches(frame.time_ns, state.window, every_s=round(self.limits.window_s)):
            if ended_ns is not None:
                state, found = self._close(state, window, ended_ns, frame.spec, topology)
                findings.extend(found)
            values = frame.values[rows][:, :, places]
            known = np.isfinite(values)
            state = replace(
                state,
                window=window,
                total=running_sum(state.total, np.where(known, values, 0.0)),
                count=state.count + known.sum(axis=0),
                cut=state.cut | bits_set(flags[rows], COOLING_REASONS).any(axis=0),
            )
        return state, tuple(findings)

    def _close(
        self, state: NoveltyState, window: int, now_ns: int, spec: TableSpec, topology: Topology
    ) -> tuple[NoveltyState, tuple[Finding, ...]]:
        """Judge and learn the window that ended; `window` is the number of the one that begins."""
        limits, plan = self.limits, self.plan
        passed = window - (state.window or 0)
        explained = state.explained.up_to(now_ns, spec.entities, topology, settle_s=limits.settle_s)
        masked = explained.mask(now_ns) | state.cut
        means = np.where(state.count > 0, state.total / np.maximum(state.count, 1.0), np.nan)
        # Distance of each GPU from its siblings; a GPU without siblings is not compared.
        senses = present(spec.signals)
        groups = state.siblings.groups
        features, beside = features_of(means, senses, groups)
        reading = distances(state.models, features, plan)
        restless = _smoothed_unrest(state.unrest, unrest(state.models, features, state.last, plan))
        reading = replace(reading, far=reading.far / _unsure(restless, groups))
        in_a_row = 0 < passed <= _MAX_GAP_WINDOWS
        before = state.far if in_a_row else np.full_like(state.far, np.nan)
        moved = np.where(np.isnan(before), reading.far, before + limits.smoothing * (reading.far - before))
        far = np.where(np.isnan(reading.far), before, moved)
        far = np.where(masked, np.nan, far)
        conditions, changes = self._judge(state, far, masked, now_ns=now_ns, passed=passed)
        settled = self._settled(conditions, now_ns)
        conditions, changes = _dropped(conditions, changes, settled)
        fresh = ~masked & np.isfinite(reading.far)
        newest = LastWindow(values=means, usual=beside + state.models.centre[:, 1:], shares=reading.shares[:, 1:])
        models = take_in(state.models, features, far, where=~masked & ~conditions.engaged, plan=plan)
        zero, lowered = np.zeros_like(state.total), limits.notes_per_gpu_month * limits.window_s / MONTH_S
        noted = np.bincount(changes.raised, minlength=len(far))
        state = replace(
            state,
            total=zero,
            count=zero,
            cut=np.zeros_like(state.cut),
            models=models,
            explained=explained,
            conditions=conditions,
            far=far,
            sensed=reset_where(state.sensed, newest, fresh),
            last=np.where(np.isnan(features), state.last, features) if in_a_row else np.full_like(state.last, np.nan),
            unrest=restless,
            raised=np.maximum(state.raised + _RAISED_BY_NOTE * (noted - lowered), 0.0),
        )
        findings = self._findings(state, changes, now_ns, spec.entities, senses=senses, masked=masked)
        return self.accept(state, settled) if settled.any() else state, findings

    def threshold(self, state: NoveltyState) -> FloatArray:
        """Return the threshold distance of each GPU, NaN while it is learnt."""
        return state.models.raised_threshold(self.plan, state.raised, least=self.limits.distance)

    def _settled(self, conditions: Conditions, now_ns: int) -> MaskArray:
        """Return a mask of GPUs that have been unusual for so long that they changed for good."""
        age_ns = now_ns - conditions.since_ns
        settled: MaskArray = conditions.active & (age_ns >= round(self.limits.relearn_after_s * NS_PER_S))
        return settled

    def _judge(
        self, state: NoveltyState, far: FloatArray, masked: MaskArray, *, now_ns: int, passed: int
    ) -> tuple[Conditions, Changes]:
        limits, threshold = self.limits, self.threshold(state)
        over = far > threshold
        under = far < limits.clear_ratio * threshold
        elapsed_s = limits.window_s * passed if 0 < passed <= _MAX_GAP_WINDOWS else 0.0
        conditions, changes = judge(
            state.conditions,
            now_ns=now_ns,
            elapsed_ns=round(elapsed_s * NS_PER_S),
            over=over,
            under=under,
            seen=np.isfinite(far),
            holds=Holds.of_seconds(set_s=limits.hold_s, clear_s=limits.clear_after_s),
        )
        badness = np.where(np.isfinite(far), far / limits.distance, 0.0)
        conditions, changes = report_worse(conditions, changes, now_ns=now_ns, over=over, badness=badness)
        # Another finding explains it now; a hold that only began is dropped silently.
        return _dropped(conditions, changes, masked)

    def _findings(
        self,
        state: NoveltyState,
        changes: Changes,
        now_ns: int,
        entities: tuple[Entity, ...],
        *,
        senses: tuple[str, ...],
        masked: MaskArray,
    ) -> tuple[Finding, ...]:
        if not changes.some:
            return ()
        threshold, groups = self.threshold(state), state.siblings.groups
        sizes = np.bincount(groups, minlength=1)[groups]

        def described(index: int, status: FindingStatus) -> Statement:
            deviation = SignalDeviation(
                entity=entities[index],
                status=status,
                is_explained=bool(masked[index]),
                is_settled=state.conditions.lasted_s(index, now_ns) >= self.limits.relearn_after_s,
                is_alone=bool(sizes[index] <= MIN_SIBLINGS),
                seconds=state.conditions.lasted_s(index, now_ns),
                far=float(state.far[index]),
                threshold=float(threshold[index]),
            )
            return describe(deviation, senses, state.sensed, index, self.limits)

        return findings_from(
            self.name, Cause.NOVELTY, entities, state.conditions, changes, now_ns=now_ns, describe=described
        )


def _dropped(conditions: Conditions, changes: Changes, where: MaskArray) -> tuple[Conditions, Changes]:
    """End the notes of the marked GPUs."""
    if not (where & conditions.engaged).any():
        return conditions, changes
    ended = np.flatnonzero(where & conditions.active)
    return clear_where(conditions, where), replace(changes, cleared=np.union1d(changes.cleared, ended))


def _smoothed_unrest(before: FloatArray, change: FloatArray) -> FloatArray:
    share = np.where(change > before, _UNREST_RISES, _UNREST_FALLS)
    known = np.where(np.isnan(before), change, before + share * (change - before))
    return np.where(np.isnan(change), before, known)


def _unsure(unrest: FloatArray, groups: GroupArray) -> FloatArray:
    """Return by which factor a GPU's means are less sure than those that were learnt from, 1 or more.

    It is taken from the siblings: where all of them jump from window to window, a job began or the rows are rare beside
    the steps of a load. Where one alone does, that is new.
    """
    siblings = sibling_median(unrest, groups, min_siblings=MIN_SIBLINGS)
    factor: FloatArray = np.sqrt(np.fmax(siblings, 1.0))
    return factor
