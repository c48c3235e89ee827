"""Airflow lost: all GPUs of a node warm further above the inlet within minutes at the same load.

Fans that stop or a duct that comes off. The hottest GPU is left out of it: a bad interface makes one GPU hot, and the
fans faster, so that the others cool. Where the fan duty is known, resistances are brought to one duty by the fan law.
"""

from dataclasses import dataclass, replace

import numpy as np

from analytics.detectors.condition import Changes, Conditions, Holds, elapsed_ns, judge, report_worse
from analytics.detectors.heat_limits import AirflowLostLimits
from analytics.detectors.node_air import JOINED_COLUMNS, GpuCounts, node_air
from analytics.detectors.statements import Statement, evidence, findings_from
from analytics.heat.sudden import SuddenState, add_row
from physics.fan_law import resistance_factor
from telemetry.clock import NS_PER_S
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.frames import FloatArray, Frame, TableSpec
from telemetry.records import Cause, Finding, FindingStatus, Severity

# heuristic: an update is reported when it gets worse by this share.
_WORSE_BY = 0.1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AirflowLostState:
    """State between rows; arrays of shape ``(n_nodes,)``; `factor` is the fan law's, 1 where unknown."""

    last_ns: int | None
    counts: GpuCounts
    sudden: SuddenState
    factor: FloatArray
    conditions: Conditions


@dataclass(frozen=True, slots=True, kw_only=True)
class AirflowLost:
    """Raises `Cause.AIRFLOW` on nodes; see `AirflowLostLimits`."""

    limits: AirflowLostLimits
    name: str = "airflow_lost"
    kind: EntityKind = EntityKind.NODE
    signals: tuple[str, ...] = ("inlet_temp_c",)
    joined_columns = JOINED_COLUMNS

    def start(self, spec: TableSpec) -> AirflowLostState:
        """Return the state before the first row."""
        size = len(spec.entities)
        return AirflowLostState(
            last_ns=None,
            counts=GpuCounts.unknown(),
            sudden=SuddenState.nothing(size),
            factor=np.full(size, np.nan),
            conditions=Conditions.idle(size),
        )

    def step(
        self, state: AirflowLostState, frame: Frame, topology: Topology
    ) -> tuple[AirflowLostState, tuple[Finding, ...]]:
        """Judge the rows of a frame."""
        state = replace(state, counts=state.counts.under(topology, frame.spec.entities))
        air = node_air(frame, state.counts)
        factors, rises_c = resistance_factor(air.fan_ratio), air.gpu_c - air.inlet_c
        findings: list[Finding] = []
        for row, now_ns in enumerate(frame.time_ns.tolist()):
            # A duty that was known and is missing leaves a gap: without it the resistance would jump.
            factor = np.where(np.isnan(state.factor) & np.isnan(factors[row]), 1.0, factors[row])
            state, changes = self._judge(
                state, now_ns, rise_c=rises_c[row] / factor, power_w=air.power_w[row], temp_c=air.gpu_c[row]
            )
            state = replace(state, factor=np.where(np.isnan(factors[row]), state.factor, factors[row]))
            if changes.some:
                findings.extend(self._findings(state, changes, now_ns, frame.spec.entities))
        return state, tuple(findings)

    def _judge(
        self, state: AirflowLostState, now_ns: int, *, rise_c: FloatArray, power_w: FloatArray, temp_c: FloatArray
    ) -> tuple[AirflowLostState, Changes]:
        limits, passed_ns = self.limits, elapsed_ns(state.last_ns, now_ns)
        sudden = add_row(
            state.sudden,
            passed_s=passed_ns / NS_PER_S,
            rise_c=rise_c,
            power_w=power_w,
            temp_c=temp_c,
            min_rise_c=limits.min_rise_c,
            frozen=state.conditions.engaged,
        )
        excess = sudden.excess()
        excess_c = (sudden.now - sudden.so_far) * sudden.power_w
        over = (excess > limits.ratio) & (excess_c > limits.floor_c)
        blind = np.isnan(state.factor)
        higher = sudden.temp_c > sudden.peak_c + limits.blind_floor_c
        over &= ~blind | (higher & (sudden.watched_s >= limits.blind_s))
        seen = ~np.isnan(rise_c + power_w)
        conditions, changes = judge(
            state.conditions,
            now_ns=now_ns,
            elapsed_ns=passed_ns,
            over=over & seen,
            # Under another load there is nothing to compare with, so the finding clears.
            under=seen & ~(excess >= limits.clear_ratio),
            seen=seen,
            holds=Holds.of_seconds(set_s=limits.hold_s, clear_s=limits.clear_after_s),
        )
        badness = np.where(np.isnan(excess), 0.0, excess) / _WORSE_BY
        conditions, changes = report_worse(conditions, changes, now_ns=now_ns, over=over & seen, badness=badness)
        return replace(state, last_ns=now_ns, sudden=sudden, conditions=conditions), changes

    def _findings(
        self, state: AirflowLostState, changes: Changes, now_ns: int, entities: tuple[Entity, ...]
    ) -> tuple[Finding, ...]:
        def describe(index: int, status: FindingStatus) -> Statement:
            name, power_w = entities[index].label, float(state.sudden.power_w[index])
            now, so_far = float(state.sudden.now[index]), float(state.sudden.so_far[index])
            excess_c = (now - so_far) * power_w
            seconds = state.conditions.lasted_s(index, now_ns)
            summary = (
                f"{name} airflow: GPU temperatures back to normal, or the load changed"
                if status is FindingStatus.CLEARED
                else f"{name} airflow lost: GPUs {excess_c:.0f} K hotter within minutes at the same {power_w:.0f} W; "
                "check fans, ducts"
            )
            return Statement(
                severity=Severity.WARNING,
                score=(now / so_far - 1.0) / (2.0 * self.limits.ratio),
                summary=summary,
                evidence=evidence(
                    ("excess_c", excess_c, "K"),
                    ("theta_ratio", now / so_far, "ratio"),
                    ("limit_ratio", 1.0 + self.limits.ratio, "ratio"),
                    ("power_w", power_w, "W"),
                    ("duration_s", seconds, "s"),
                ),
            )

        return findings_from(
            self.name, Cause.AIRFLOW, entities, state.conditions, changes, now_ns=now_ns, describe=describe
        )
