"""Sensor lost: signals are absent that were present, so the health of their entity is unknown, never healthy.

One finding per entity, however many of its signals are gone. A GPU that vanished alone is reported by `gpu_lost` only.
Where all GPUs of a node fall silent at once and none of them worked, as when an operator changes the driver, no job is
affected: it is information, and becomes a warning if they stay away.
"""

from dataclasses import dataclass, replace

import numpy as np

from analytics.connectivity import Siblings, any_sibling
from analytics.detectors.absence import Presence, structural_loss
from analytics.detectors.columns import optional
from analytics.detectors.condition import NO_CHANGES, Changes, Conditions, Holds, elapsed_ns, judge, report_worse
from analytics.detectors.limits import SensorLostLimits
from analytics.detectors.statements import Statement, evidence, findings_from
from telemetry.clock import NS_PER_S
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.frames import FloatArray, Frame, MaskArray, TableSpec, TimeArray, filled
from telemetry.quantities import duration
from telemetry.records import Cause, Finding, FindingStatus, Severity

# Signals that the other detectors need. The rest depends on the GPU model and the driver. The pins of a connector are
# read together: one of them stands for all.
GPU_SIGNALS = ("power_w", "sm_clock_mhz", "throttle_reasons", "gpu_temp_c", "pin1_current_a")
SUPPLY_SIGNALS = ("voltage_v", "current_a")
# A GPU that gives none of these is silent altogether, see `gpu_lost`.
_GPU_CORE = ("power_w", "sm_clock_mhz", "gpu_temp_c")


# A lone sample goes missing in healthy telemetry, in one signal or in another: only a stretch of one signal counts.
_MIN_ROWS = 3
# Below this utilisation nothing runs on a GPU; heuristic, above what a display or a query of the driver leaves there.
_WORKS_RATIO = 0.1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rest:
    """Time at which each GPU last worked, and whether it rested when it fell silent; shape ``(n_entities,)``."""

    worked_ns: TimeArray
    before_silence: MaskArray

    def after(self, util_ratio: FloatArray, now_ns: int, silent: MaskArray, *, rest_ns: int) -> "Rest":
        """Return the state after a row; what is not read neither works nor rests."""
        measured = ~np.isnan(util_ratio)
        if not measured.any():
            return self
        works = measured & ((util_ratio >= _WORKS_RATIO) | (self.worked_ns == 0))
        rests = measured & ~works & (now_ns - self.worked_ns >= rest_ns)
        return Rest(
            worked_ns=np.where(works, now_ns, self.worked_ns),
            before_silence=np.where(measured & ~silent, rests, self.before_silence),
        )

    def after_present(self, util_ratio: FloatArray, time_ns: TimeArray, *, rest_ns: int) -> "Rest":
        """Return the state after rows of shape ``(n_rows, n_entities)`` in which no entity was silent."""
        if np.isnan(util_ratio).any() or not self.worked_ns.all():
            rest, silent = self, np.zeros(util_ratio.shape[1], dtype=np.bool_)
            for row, now_ns in enumerate(time_ns.tolist()):
                rest = rest.after(util_ratio[row], now_ns, silent, rest_ns=rest_ns)
            return rest
        works = util_ratio >= _WORKS_RATIO
        newest_ns = time_ns[len(works) - 1 - works[::-1].argmax(axis=0)]
        worked_ns = np.where(works.any(axis=0), newest_ns, self.worked_ns)
        return Rest(worked_ns=worked_ns, before_silence=~works[-1] & (time_ns[-1] - worked_ns >= rest_ns))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SignalAbsence:
    """Which watched signals are absent and for how long in one stretch, shape ``(n_entities, n_watched)``.

    `whole` is true if all of them were seen and none is absent; the next quiet row then costs one comparison.
    """

    answered: MaskArray
    rows: TimeArray
    lasted_ns: TimeArray
    whole: bool

    def after(self, missing: MaskArray, passed_ns: int) -> "SignalAbsence":
        """Return the state after a row in which these were missing."""
        none_missing = not missing.any()
        if self.whole and none_missing:
            return self
        answered = self.answered | ~missing
        gone = answered & missing
        return SignalAbsence(
            answered=answered,
            rows=np.where(gone, self.rows + 1, 0),
            lasted_ns=np.where(gone & (self.rows > 0), self.lasted_ns + passed_ns, 0),
            whole=none_missing,
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SensorLostState:
    """State between rows; `noted` marks silence that is no more than noted, shape ``(n_entities,)``."""

    last_ns: int | None
    conditions: Conditions
    absence: SignalAbsence
    presence: Presence
    rest: Rest
    noted: MaskArray
    siblings: Siblings


@dataclass(frozen=True, slots=True, kw_only=True)
class SensorLost:
    """Raises `Cause.SENSOR_LOST` on one kind of entity; watches those of `watched` that the table has.

    A warning, or info for as long as all GPUs of a node are away together and none of them worked.
    """

    limits: SensorLostLimits
    name: str
    kind: EntityKind
    watched: tuple[str, ...]
    signals: tuple[str, ...] = ()

    def start(self, spec: TableSpec) -> SensorLostState:
        """Return the state before the first row."""
        size = len(spec.entities)
        watched = sum(name in spec.signals for name in self.watched)
        return filled(SensorLostState, size, absence=filled(SignalAbsence, (size, watched)))

    def step(
        self, state: SensorLostState, frame: Frame, topology: Topology
    ) -> tuple[SensorLostState, tuple[Finding, ...]]:
        """Judge the rows of a frame; a signal that was never there is not lost."""
        names = tuple(name for name in self.watched if name in frame.spec.signals)
        if not (names and len(frame)):
            return state, ()
        missing = np.isnan(frame.values[:, :, [frame.spec.signals.index(name) for name in names]])
        core = [names.index(name) for name in _GPU_CORE if self.kind is EntityKind.GPU and name in names]
        pci, util = optional(frame, "pci_present"), optional(frame, "gpu_util_ratio")
        rest_ns = round(self.limits.rest_s * NS_PER_S)
        state = replace(state, siblings=state.siblings.under(topology, frame.spec.entities))
        if state.absence.whole and not state.conditions.busy and not missing.any():
            state = replace(state, last_ns=int(frame.time_ns[-1]))
            if not core:
                return state, ()
            rest = state.rest.after_present(util, frame.time_ns, rest_ns=rest_ns)
            return replace(state, presence=state.presence.after(missing[-1, :, 0]), rest=rest), ()
        findings: list[Finding] = []
        for row, now_ns in enumerate(frame.time_ns.tolist()):
            lost = np.zeros(len(frame.spec.entities), dtype=np.bool_)
            if core:
                presence = state.presence.after(np.all(missing[row][:, core], axis=1))
                rest = state.rest.after(util[row], now_ns, presence.silent, rest_ns=rest_ns)
                lost = structural_loss(presence, state.siblings.groups, pci[row]).lost
                state = replace(state, presence=presence, rest=rest)
            state, changes = self._judge(state, now_ns, missing[row], lost)
            if changes.some:
                findings.extend(self._findings(state, changes, now_ns, frame.spec.entities, names=names))
        return state, tuple(findings)

    def _judge(
        self, state: SensorLostState, now_ns: int, missing: MaskArray, lost: MaskArray
    ) -> tuple[SensorLostState, Changes]:
        passed_ns = elapsed_ns(state.last_ns, now_ns)
        absence = state.absence.after(missing, passed_ns)
        if absence is state.absence and not state.conditions.busy:
            return replace(state, last_ns=now_ns), NO_CHANGES
        hold_ns = round(self.limits.hold_s * NS_PER_S)
        late = (absence.rows >= _MIN_ROWS) & (absence.lasted_ns >= hold_ns)
        over = np.any(late, axis=1) & ~lost
        known = np.any(absence.answered, axis=1)
        conditions, changes = judge(
            state.conditions,
            now_ns=now_ns,
            elapsed_ns=passed_ns,
            over=over,
            under=~np.any(absence.rows > 0, axis=1) & known,
            seen=known & ~lost,
            # The hold has run in `late` already, signal by signal.
            holds=Holds.of_seconds(set_s=0.0, clear_s=self.limits.clear_after_s),
        )
        if changes.raised.size:
            since_ns = conditions.since_ns.copy()
            since_ns[changes.raised] = now_ns - absence.lasted_ns[changes.raised].max(axis=1)
            conditions = replace(conditions, since_ns=since_ns)
        noted = state.noted & (absence.lasted_ns.max(axis=1, initial=0) < self.limits.away_s * NS_PER_S)
        noted[changes.raised] = self._rested_together(state)[changes.raised]
        # A warning is one step worse than information, so that lasting silence is reported again.
        badness: FloatArray = late.sum(axis=1) + 1.0 - noted
        conditions, changes = report_worse(conditions, changes, now_ns=now_ns, over=over, badness=badness)
        return replace(state, last_ns=now_ns, conditions=conditions, absence=absence, noted=noted), changes

    def _rested_together(self, state: SensorLostState) -> MaskArray:
        """Return which GPUs are silent with all their siblings, and none of them had work to lose."""
        answered = state.presence.answered
        rested = answered & state.presence.silent & state.rest.before_silence
        together: MaskArray = rested & ~any_sibling(answered & ~rested, state.siblings.groups)
        return together

    def _findings(
        self,
        state: SensorLostState,
        changes: Changes,
        now_ns: int,
        entities: tuple[Entity, ...],
        *,
        names: tuple[str, ...],
    ) -> tuple[Finding, ...]:
        def describe(index: int, status: FindingStatus) -> Statement:
            rows = state.absence.rows[index].tolist()
            missing = [name for name, absent in zip(names, rows, strict=True) if absent]
            seconds = state.conditions.lasted_s(index, now_ns)
            name = entities[index].label
            why = " (no job running)" if state.noted[index] else ""
            summary = (
                f"{name} health is unknown: no {', '.join(missing)} for {duration(seconds)}{why}"
                if status is not FindingStatus.CLEARED
                else f"{name} readings are back for {duration(self.limits.clear_after_s)}"
            )
            return Statement(
                severity=Severity.INFO if state.noted[index] else Severity.WARNING,
                score=len(missing) / len(names),
                summary=summary,
                evidence=evidence(
                    ("signals_lost", len(missing), ""),
                    ("signals_watched", len(names), ""),
                    ("silent_s", seconds if missing else 0.0, "s"),
                ),
            )

        return findings_from(
            self.name, Cause.SENSOR_LOST, entities, state.conditions, changes, now_ns=now_ns, describe=describe
        )
