"""Rail sag: the voltage at the load's end falls below what the load is specified for.

A training job draws its plateau once per step, so a weak path dips about once a second. The finding stays raised while
dips recur and clears after a quiet time. It also reports whether the load stepped up at the deepest dip, and the
source resistance if voltage and current identify it. Of a rail of 48 or 54 V that was never above its limit it reports
that a label named its voltage: labels of such rails are often wrong. Of a rail that a described converter makes it
reports whether the bus before it is within its limits.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from analytics.detectors.columns import optional
from analytics.detectors.condition import NO_CHANGES, Changes, Conditions, Holds, elapsed_ns, judge, report_worse
from analytics.detectors.statements import Statement, evidence, findings_from
from analytics.detectors.supply_limits import RailSagLimits
from analytics.supply.converter_plan import BusState, ConverterPlan
from analytics.supply.rail_levels import RailLevels
from physics.rail_classes import LEAST_PLAUSIBLE_RATIO, MAIN_BUSES_V
from physics.thevenin import Moments, SupplyEstimate, add_sample, estimate
from telemetry.clock import NS_PER_S
from telemetry.entities import NOMINAL_SOURCE_TAG, Entity, EntityKind, NominalSource, Topology
from telemetry.frames import FloatArray, Frame, FromZero, MaskArray, TableSpec, TimeArray, filled
from telemetry.quantities import duration, ohms, volts
from telemetry.records import Cause, Finding, FindingStatus, Severity

# At 12 V, as all limits here. -10 %, which ATX12V allows its second rail at peak load: the far end of the score.
_WORST_V = 10.80
# A minimum this much deeper is reported as an update; about the noise of one sample (9.7 mV, see RailSagLimits).
_DEEPER_V = 0.01
# heuristic: the first reading of a meter that averages may be the mean of a part of its time. It counts once another
# one came, or after some periods of the slowest meters that are read as rails.
_SECOND_NS = 2 * NS_PER_S
# heuristic: a tenth of the current, and at least 1 A, over the mean of the two seconds before the dip is a load step.
_STEP_RATIO, _STEP_A = 0.1, 1.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Dips:
    """The dips since the condition began, each array of shape ``(n_supplies,)``.

    `recent_v` is the minimum since the last report, `quiet_v` the minimum since the last dip. `before_a` is
    the mean current before the newest dip, `lowest_a` the current at the bottom of the deepest one and `step_a` by how
    much it had risen there; NaN where no current is known.
    """

    below: MaskArray
    start_ns: TimeArray
    count: FromZero
    longest_s: FromZero
    minimum_v: Annotated[FloatArray, np.inf]
    recent_v: Annotated[FloatArray, np.inf]
    quiet_v: Annotated[FloatArray, np.inf]
    before_a: FloatArray
    lowest_a: FloatArray
    step_a: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RailSagState:
    """State between rows; when each rail was first read, and its highest reading, of shape ``(n_supplies,)``."""

    last_ns: int | None
    rails: RailLevels
    first_ns: TimeArray
    highest_v: FloatArray
    conditions: Conditions
    dips: Dips
    moments: Moments


@dataclass(frozen=True, slots=True, kw_only=True)
class RailSag:
    """Raises `Cause.SUPPLY_SAG` on supplies; see `RailSagLimits` for the levels, which each rail has as its own share.

    A rail whose nominal voltage is not known yet, or has no limit, is not judged. Neither is one below half of it: no
    load that computes pulls it down that far, so its supply is off, and a lower load would not lift it.
    """

    limits: RailSagLimits
    name: str = "rail_sag"
    kind: EntityKind = EntityKind.SUPPLY
    signals: tuple[str, ...] = ("voltage_v",)

    def start(self, spec: TableSpec) -> RailSagState:
        """Return the state before the first row."""
        return filled(RailSagState, len(spec.entities))

    def step(self, state: RailSagState, frame: Frame, topology: Topology) -> tuple[RailSagState, tuple[Finding, ...]]:
        """Judge the rows of a frame. A missing current costs the source estimate, not the sag."""
        voltages_v, currents_a = frame.signal("voltage_v"), optional(frame, "current_a")
        # A conversion that repeats one of its two values is still a new pair.
        pair = [place for place, name in enumerate(frame.spec.signals) if name in ("voltage_v", "current_a")]
        fresh: MaskArray = np.any(frame.fresh[:, :, pair], axis=2)
        findings: list[Finding] = []
        for row, now_ns in enumerate(frame.time_ns.tolist()):
            passed_ns = elapsed_ns(state.last_ns, now_ns)
            state, rails = _levelled(state, frame.spec.entities, voltages_v[row], now_ns)
            state = replace(state, highest_v=np.fmax(state.highest_v, voltages_v[row]))
            moments = add_sample(
                state.moments,
                elapsed_ns=passed_ns,
                voltage_v=voltages_v[row],
                current_a=currents_a[row],
                fresh=fresh[row],
                memory_s=self.limits.memory_s,
            )
            conditions, dips, changes = self._judge(
                state,
                rails,
                now_ns,
                passed_ns,
                voltage_v=voltages_v[row],
                current_a=currents_a[row],
                fresh=fresh[row],
            )
            state = replace(state, last_ns=now_ns, rails=rails, conditions=conditions, dips=dips, moments=moments)
            if changes.some:
                buses = ConverterPlan.of(frame.spec.entities, topology).buses_at(voltages_v[row])
                findings.extend(self._findings(state, changes, now_ns, frame.spec.entities, buses))
                state = _with_reported_minimum(state, changes)
        return state, tuple(findings)

    def _judge(
        self,
        state: RailSagState,
        rails: RailLevels,
        now_ns: int,
        passed_ns: int,
        *,
        voltage_v: FloatArray,
        current_a: FloatArray,
        fresh: MaskArray,
    ) -> tuple[Conditions, Dips, Changes]:
        """Judge one row; the state is that after the rows before, but for the levels of the rails."""
        limits, scale = self.limits, rails.scale
        minimum_v = scale * limits.minimum_v
        over: MaskArray = voltage_v < minimum_v
        dips = state.dips
        if not state.conditions.busy and not over.any():
            return state.conditions, dips, NO_CHANGES
        again = (fresh & (now_ns > state.first_ns)) | (now_ns - state.first_ns >= _SECOND_NS)
        over &= again | state.conditions.engaged
        off = voltage_v <= LEAST_PLAUSIBLE_RATIO * rails.nominal_v
        if off.any():
            over, voltage_v = over & ~off, np.where(off, np.nan, voltage_v)
        if not state.conditions.busy and not over.any():
            return state.conditions, dips, NO_CHANGES
        conditions, changes = judge(
            state.conditions,
            now_ns=now_ns,
            elapsed_ns=passed_ns,
            over=over,
            under=voltage_v > scale * limits.clear_above_v,
            seen=~np.isnan(voltage_v),
            holds=Holds.of_seconds(set_s=limits.hold_s, clear_s=limits.clear_after_s),
            at_once=over & (voltage_v < scale * limits.at_once_below_v),
        )
        kept = state.conditions.engaged
        dips = _with_load(_count(dips, now_ns, voltage_v, over, kept=kept), dips, state.moments, current_a, kept)
        badness = dips.count + np.where(dips.count > 0, minimum_v - dips.minimum_v, 0.0) / (scale * _DEEPER_V)
        conditions, changes = report_worse(conditions, changes, now_ns=now_ns, over=over, badness=badness)
        return conditions, dips, changes

    def _findings(
        self,
        state: RailSagState,
        changes: Changes,
        now_ns: int,
        entities: tuple[Entity, ...],
        buses: Mapping[int, BusState],
    ) -> tuple[Finding, ...]:
        def describe(index: int, status: FindingStatus) -> Statement:
            return self._describe(state, index, status, now_ns, rail=entities[index], bus=buses.get(index))

        return findings_from(
            self.name, Cause.SUPPLY_SAG, entities, state.conditions, changes, now_ns=now_ns, describe=describe
        )

    def _describe(
        self, state: RailSagState, index: int, status: FindingStatus, now_ns: int, *, rail: Entity, bus: BusState | None
    ) -> Statement:
        dips, scale, source = state.dips, float(state.rails.scale[index]), estimate(state.moments, index)
        name = rail.label
        limit_v = scale * self.limits.minimum_v
        minimum_v, seconds = float(dips.minimum_v[index]), state.conditions.lasted_s(index, now_ns)
        if status is FindingStatus.CLEARED:
            summary = (
                f"{name} back at {volts(float(dips.quiet_v[index]))} or more for "
                f"{duration(self.limits.clear_after_s)}, lowest was {volts(minimum_v)}"
            )
        else:
            # What matters of a converter's output is whether its bus is low as well.
            why = f": {_dips_text(dips, index, seconds)}, {_path_text(source)}" if bus is None else f"; {bus.text}"
            named_by = rail.tag(NOMINAL_SOURCE_TAG)
            if state.highest_v[index] < limit_v and rail.nominal_v in MAIN_BUSES_V and named_by == NominalSource.LABEL:
                why = f": never above it so far, {rail.nominal_v:g} V by its label"
            summary = f"{name} sags to {volts(minimum_v)}, limit {volts(limit_v)}{why}"
        return Statement(
            severity=Severity.CRITICAL if minimum_v < scale * self.limits.at_once_below_v else Severity.WARNING,
            score=(limit_v - minimum_v) / (limit_v - scale * _WORST_V),
            summary=summary,
            evidence=evidence(
                ("limit_v", limit_v, "V"),
                ("minimum_v", minimum_v, "V"),
                ("recent_minimum_v", float(dips.recent_v[index]), "V"),
                ("recovered_minimum_v", float(dips.quiet_v[index]), "V"),
                ("depth_v", limit_v - minimum_v, "V"),
                ("duration_s", float(dips.longest_s[index]), "s"),
                ("dips", int(dips.count[index]), ""),
                ("window_s", seconds, "s"),
                ("step_a", float(dips.step_a[index]), "A"),
                *(() if bus is None else (("bus_margin_ratio", bus.margin, "ratio"),)),
                *_path_evidence(source, state.moments, index),
            ),
        )


def _levelled(
    state: RailSagState, entities: tuple[Entity, ...], voltage_v: FloatArray, now_ns: int
) -> tuple[RailSagState, RailLevels]:
    """Return the levels after a row, and the state with the time of each rail that it is the first reading of."""
    rails = state.rails.after_row(entities, voltage_v)
    if rails is not state.rails:
        begins = np.isnan(state.rails.nominal_v) & np.isfinite(rails.nominal_v)
        state = replace(state, first_ns=np.where(begins, now_ns, state.first_ns))
    return state, rails


def _dips_text(dips: Dips, index: int, seconds: float) -> str:
    count = int(dips.count[index])
    return f"{count} dip{'s' if count != 1 else ''} in {duration(seconds)}{_load_text(dips, index)}"


def _load_text(dips: Dips, index: int) -> str:
    step_a, lowest_a = float(dips.step_a[index]), float(dips.lowest_a[index])
    if np.isnan(step_a):
        return ""
    step = f" at a load step of {step_a:.0f} A"
    return step if step_a > max(_STEP_RATIO * lowest_a, _STEP_A) else " without load step"


def _path_text(source: SupplyEstimate) -> str:
    if source.source_resistance_ohm is None:
        return "path unknown"
    return f"path {ohms(source.source_resistance_ohm)}"


def _path_evidence(source: SupplyEstimate, moments: Moments, index: int) -> tuple[tuple[str, float, str], ...]:
    rows: list[tuple[str, float, str]] = []
    if source.correlation is not None:
        rows.append(("correlation", source.correlation, ""))
    if source.open_circuit_v is not None and source.open_circuit_bounds_v is not None:
        low_v, high_v = source.open_circuit_bounds_v
        rows += [
            ("open_circuit_v", source.open_circuit_v, "V"),
            ("open_circuit_low_v", low_v, "V"),
            ("open_circuit_high_v", high_v, "V"),
        ]
    if source.source_resistance_ohm is not None and source.source_resistance_bounds_ohm is not None:
        low_ohm, high_ohm = source.source_resistance_bounds_ohm
        rows += [
            ("source_resistance_ohm", source.source_resistance_ohm, "ohm"),
            ("source_resistance_low_ohm", low_ohm, "ohm"),
            ("source_resistance_high_ohm", high_ohm, "ohm"),
            ("current_high_a", float(moments.high_a[index]), "A"),
            ("current_low_a", float(moments.low_a[index]), "A"),
        ]
    return tuple(rows)


def _count(dips: Dips, now_ns: int, voltage_v: FloatArray, over: MaskArray, *, kept: MaskArray) -> Dips:
    """Count on where the condition held or was about to before this row; elsewhere start afresh."""
    seen = ~np.isnan(voltage_v)
    in_dip = dips.below & kept
    begins = over & ~in_dip
    start_ns = np.where(begins, now_ns, dips.start_ns)
    lasted_s = np.where(over | (in_dip & seen), (now_ns - start_ns) / NS_PER_S, 0.0)
    lowest_v = np.where(seen, voltage_v, np.inf)
    return replace(
        dips,
        below=np.where(seen, over, in_dip),
        start_ns=start_ns,
        count=np.where(kept, dips.count, 0.0) + begins,
        longest_s=np.maximum(np.where(kept, dips.longest_s, 0.0), lasted_s),
        minimum_v=np.minimum(np.where(kept, dips.minimum_v, np.inf), np.where(over, voltage_v, np.inf)),
        recent_v=np.minimum(np.where(kept, dips.recent_v, np.inf), lowest_v),
        quiet_v=np.where(over, np.inf, np.minimum(np.where(kept, dips.quiet_v, np.inf), lowest_v)),
    )


def _with_load(dips: Dips, was: Dips, moments: Moments, current_a: FloatArray, kept: MaskArray) -> Dips:
    """Note the current before a dip that begins and at the bottom of the deepest; `was` holds for the row before."""
    begins = dips.below & ~(was.below & kept)
    deeper = dips.minimum_v < np.where(kept, was.minimum_v, np.inf)
    before_a = np.where(begins, np.where(moments.weight > 0, moments.mean_a, np.nan), was.before_a)
    return replace(
        dips,
        before_a=before_a,
        lowest_a=np.where(deeper, current_a, np.where(kept, was.lowest_a, np.nan)),
        step_a=np.where(deeper, current_a - before_a, np.where(kept, was.step_a, np.nan)),
    )


def _with_reported_minimum(state: RailSagState, changes: Changes) -> RailSagState:
    recent_v = state.dips.recent_v.copy()
    recent_v[changes.raised] = np.inf
    recent_v[changes.updated] = np.inf
    return replace(state, dips=replace(state.dips, recent_v=recent_v))
