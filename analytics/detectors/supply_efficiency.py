"""Efficiency of a supply or node that fell: it takes in more for what it gives, by 1 % and more, at a like load.

Judged where both sides are measured: a supply that reports its input and its output, a node whose own input and whose
supplies' outputs are read. Where only inputs are, feeds are compared with each other (`feed_imbalance`), and nodes with
their siblings (`node_siblings`).

Disproved by meters whose gain moved: then accept the supply as it is.
"""

from dataclasses import dataclass, replace

import numpy as np

from analytics.detectors.columns import optional
from analytics.detectors.condition import Changes, Conditions, Holds, judge
from analytics.detectors.joined_columns import JoinedColumn, Relation
from analytics.detectors.seconds import stretches
from analytics.detectors.statements import Statement, evidence, findings_from
from analytics.detectors.streaks import begun
from analytics.feeds.efficiency import LASTS_S, LEAST_RATIO, PERIOD_S, Efficiency
from analytics.feeds.node_watts import SIGNAL
from analytics.supply.input_fall import MAINS_V
from physics.rail_classes import RAIL_CLASSES
from telemetry.clock import NS_PER_S
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.frames import FloatArray, Frame, MaskArray, TableSpec, filled
from telemetry.quantities import percent
from telemetry.records import Cause, Finding, FindingStatus, Severity

# What is judged has lasted by then.
_HOLDS = Holds.of_seconds(set_s=0.0, clear_s=0.0)
# Sum of what the supplies of a node's rails deliver.
_OUTPUTS = "supplies_power_w"
# heuristic: a supply that wastes a twentieth more fails within minutes by its heat; more is a meter, or an output that
# is no longer read.
_MOST_LOSS = 0.05


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SupplyEfficiencyState:
    """State between rows."""

    efficiency: Efficiency
    less: Conditions


@dataclass(frozen=True, slots=True, kw_only=True)
class SupplyEfficiency:
    """Raises `Cause.EFFICIENCY_LOSS` on supplies, and on nodes whose supplies report what they deliver."""

    name: str
    kind: EntityKind

    @property
    def signals(self) -> tuple[str, ...]:
        """Required signals."""
        return (SIGNAL,) if self.kind is EntityKind.NODE else ("input_power_w",)

    @property
    def joined_columns(self) -> tuple[JoinedColumn, ...]:
        """Sum of what the supplies of a node deliver."""
        if self.kind is EntityKind.SUPPLY:
            return ()
        rails_v = frozenset(one.nominal_v for one in RAIL_CLASSES if one.has_limit)
        return (
            JoinedColumn(
                kind=EntityKind.SUPPLY, signal="power_w", how=Relation.SUM_BESIDE, column=_OUTPUTS, rails_v=rails_v
            ),
        )

    def start(self, spec: TableSpec) -> SupplyEfficiencyState:
        """Return the state before the first row."""
        return filled(SupplyEfficiencyState, len(spec.entities))

    def accept(self, state: SupplyEfficiencyState, accepted: MaskArray) -> SupplyEfficiencyState:
        """Reset the learnt efficiency of the accepted entities."""
        return replace(state, efficiency=state.efficiency.forget(accepted))

    def step(
        self, state: SupplyEfficiencyState, frame: Frame, topology: Topology
    ) -> tuple[SupplyEfficiencyState, tuple[Finding, ...]]:
        """Judge each period of a frame when the next one begins."""
        del topology
        column = self.signals[0]
        in_w, new = frame.signal(column), frame.fresh[:, :, frame.spec.signals.index(column)]
        out_w = optional(frame, _OUTPUTS) if self.kind is EntityKind.NODE else _outputs_w(frame)
        findings: list[Finding] = []
        before = state.efficiency.period
        for number, rows, ended_ns in stretches(frame.time_ns, before, every_s=PERIOD_S):
            if ended_ns is not None:
                passed_s = float(PERIOD_S) if number - (before or 0) == 1 else 0.0
                state, changes = _judged(state, ended_ns, passed_s)
                if changes.some:
                    findings += _findings(self.name, state, changes, ended_ns, frame.spec.entities)
            efficiency = state.efficiency.with_rows(number, in_w[rows], out_w[rows], new[rows])
            state, before = replace(state, efficiency=efficiency), number
        return state, tuple(findings)


def _outputs_w(frame: Frame) -> FloatArray:
    """Return what each supply delivers, by its own meter or as volts times amperes; NaN for a feed of mains."""
    volts = np.where(np.isnan(own := optional(frame, "voltage_v")), optional(frame, "output_voltage_v"), own)
    amps = np.where(np.isnan(own := optional(frame, "current_a")), optional(frame, "output_current_a"), own)
    watts = optional(frame, "power_w")
    out_w = np.where(np.isnan(watts), volts * amps, watts)
    return np.where(volts > MAINS_V, np.nan, out_w)


def _judged(state: SupplyEfficiencyState, now_ns: int, passed_s: float) -> tuple[SupplyEfficiencyState, Changes]:
    efficiency = state.efficiency.after_period(passed_s, frozen=state.less.active)
    departure = efficiency.departure
    lasted_s, off = departure.lasted_s, np.where(np.isfinite(departure.off), departure.off, 0.0)
    less, changes = judge(
        state.less,
        now_ns=now_ns,
        elapsed_ns=round(passed_s * NS_PER_S),
        over=(lasted_s >= LASTS_S) & (off < 0.0) & (off > -_MOST_LOSS),
        under=lasted_s == 0.0,
        seen=np.isfinite(efficiency.out_w),
        holds=_HOLDS,
    )
    less = begun(less, changes, now_ns - (lasted_s * NS_PER_S).astype(np.int64))
    return replace(state, efficiency=efficiency, less=less), changes


def _findings(
    name: str, state: SupplyEfficiencyState, changes: Changes, now_ns: int, entities: tuple[Entity, ...]
) -> tuple[Finding, ...]:
    def describe(index: int, status: FindingStatus) -> Statement:
        now, usual = float(state.efficiency.ratio[index]), float(state.efficiency.usual[index])
        out_w, own = float(state.efficiency.out_w[index]), entities[index].label
        if status is FindingStatus.CLEARED:
            summary = f"{own} is as efficient as usual again, {percent(now, digits=1)} at {out_w:.0f} W"
        else:
            was = percent(usual, digits=1)
            summary = f"{own} efficiency is {percent(now, digits=1)} at {out_w:.0f} W, usually {was}"
        return Statement(
            severity=Severity.WARNING,
            score=(1.0 - now / usual) / _MOST_LOSS,
            summary=summary,
            evidence=evidence(
                ("efficiency_ratio", now, "ratio"),
                ("usual_efficiency_ratio", usual, "ratio"),
                ("power_w", out_w, "W"),
                ("limit_ratio", 1.0 - LEAST_RATIO, "ratio"),
                ("duration_s", state.less.lasted_s(index, now_ns), "s"),
            ),
        )

    return findings_from(name, Cause.EFFICIENCY_LOSS, entities, state.less, changes, now_ns=now_ns, describe=describe)
