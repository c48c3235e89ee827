"""Airflow lost: all GPUs of a node warm further above the inlet within minutes at the same load.

Fans that stop or a duct that comes off. The hottest GPU is left out of it: a bad interface makes one GPU hot, and the
fans faster, so that the others cool. Where the fan duty is known, resistances are brought to one duty by the fan law.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from analytics.detectors.condition import Changes, Conditions, Holds, elapsed_ns, judge, report_worse
from analytics.detectors.heat_limits import AirflowLostLimits
from analytics.detectors.node_air import JOINED_COLUMNS, GpuCounts, node_air
from analytics.detectors.statements import Statement, evidence, findings_from
from physics.cooling import SINK_S, resistance_factor
from telemetry.clock import NS_PER_S
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.frames import FloatArray, Frame, FromZero, MaskArray, TableSpec, filled
from telemetry.records import Cause, Finding, FindingStatus, Severity

# A load counts as steady where power lies within this of its mean over the minutes before. heuristic: training steps
# average out over a sink's time constant, jobs differ by more.
STEADY_RATIO = 0.1
_LOAD_S = 240.0
# heuristic: "Now", short against the rise of a heat sink and long against a training step.
_NOW_S = 10.0
# heuristic: "So far": follows controllers and rooms, not what happens within minutes.
_SO_FAR_S = 600.0
# Steady time before "so far" means anything. heuristic: two dozen training steps.
SETTLE_S = 25.0
# Sinks that still warm from what ran before the first row, or to another load, teach nothing yet: their resistance
# rises within the time to settle. heuristic: by more than a sensor's steps over all GPUs, and what is left of a slower
# rise stays below the limit. After five time constants of a sink, it is something else.
_STILL_WARMS_RATIO, _WARMS_S = 0.02, 5.0 * SINK_S
# Fans that were slowed down let the sinks warm for minutes, whatever was found of a duty at once: no learning while the
# resistance of the duty is above its mean over two minutes. heuristic: by more than a fan's step of one per cent makes.
_SLOWED_RATIO, _SLOWED_S = 1.02, 120.0
# heuristic: the highest temperature before is that of a mean over so long: it does not follow the change to be found.
_PEAK_S = 300.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SuddenState:
    """Means with exponential memory, each of shape ``(n_entities,)``; NaN before the first value.

    A sudden change needs no learned past, only minutes: resistance now against resistance so far under this load. While
    the load changes, and for some time afterwards, fans still follow it and nothing is reported.

    `load_w` is the mean of the power over the minutes before, a plain one in the first of `known_s`. `steady_s` is the
    time under the present load, `settled_s` that since the sinks stopped warming to it. `peak_c` is the highest that
    the slow mean `mean_c` of the temperature has been in `watched_s` under any load.
    """

    power_w: FloatArray
    load_w: FloatArray
    known_s: FromZero
    now: FloatArray
    so_far: FloatArray
    settled_s: FromZero
    steady_s: FromZero
    temp_c: FloatArray
    mean_c: FloatArray
    peak_c: FloatArray
    watched_s: FromZero

    def excess(self) -> FloatArray:
        """Return resistance now over resistance so far, less 1; NaN until both are known."""
        known = self.settled_s >= SETTLE_S
        return np.where(known, self.now, np.nan) / np.where(known, self.so_far, 1.0) - 1.0


def add_row(
    state: SuddenState,
    *,
    passed_s: float,
    rise_c: FloatArray,
    power_w: FloatArray,
    temp_c: FloatArray,
    min_rise_c: float,
    frozen: MaskArray,
    slowed: MaskArray | None = None,
) -> SuddenState:
    """Add one row of rise above the inlet, brought to one fan duty, and power; a NaN changes nothing.

    Where it is `frozen`, what was so far stays: a reported change is not learned. Where fans were `slowed` lately,
    the sinks still warm to that.

    After a gap in time (`passed_s` 0) the next rows continue from the last ones.
    """
    known = np.isfinite(rise_c) & np.isfinite(power_w) & (power_w > 0)

    def moved(mean: FloatArray, value: FloatArray, constant_s: float) -> FloatArray:
        share = -math.expm1(-passed_s / constant_s)
        after: FloatArray = np.where(np.isnan(mean), value, mean + share * (value - mean))
        return after

    sink_w = np.where(known, moved(state.power_w, power_w, SINK_S), state.power_w)
    known_s = state.known_s + np.where(known, passed_s, 0.0)
    load_share = np.maximum(-math.expm1(-passed_s / _LOAD_S), passed_s / np.where(known_s > 0.0, known_s, 1.0))
    off_w = np.where(known, power_w - state.load_w, 0.0)
    load_w = np.where(np.isnan(state.load_w), power_w, state.load_w + load_share * off_w)
    same: MaskArray = np.abs(sink_w - load_w) <= STEADY_RATIO * load_w
    usable = known & same & (rise_c >= min_rise_c)
    theta = np.where(usable, rise_c, np.nan) / np.where(known, sink_w, 1.0)
    now = np.where(usable, moved(state.now, theta, _NOW_S), state.now)
    learns = usable & ~frozen
    changed = known & ~same
    steady_s = np.where(changed, 0.0, state.steady_s + np.where(usable, passed_s, 0.0))
    settled_s = np.where(changed, 0.0, state.settled_s + np.where(usable, passed_s, 0.0))
    warms = learns & (settled_s < SETTLE_S) & (steady_s < _WARMS_S) & (now > (1.0 + _STILL_WARMS_RATIO) * state.so_far)
    if slowed is not None:
        warms |= learns & slowed
    settled_s = np.where(warms, 0.0, settled_s)
    begun = np.maximum(settled_s, passed_s)
    share = np.maximum(-math.expm1(-passed_s / _SO_FAR_S), passed_s / np.where(begun > 0, begun, 1.0))
    learnt = state.so_far + np.where(learns, share * (now - state.so_far), 0.0)
    so_far = np.where(np.isnan(state.so_far) | warms, now, learnt)
    watched = known & (rise_c >= min_rise_c)
    mean_c = np.where(watched & ~frozen, moved(state.mean_c, temp_c, _PEAK_S), state.mean_c)
    return SuddenState(
        power_w=sink_w,
        load_w=load_w,
        known_s=known_s,
        now=np.where(changed, np.nan, now),
        so_far=np.where(changed, np.nan, so_far),
        settled_s=settled_s,
        steady_s=steady_s,
        temp_c=np.where(known, moved(state.temp_c, temp_c, _NOW_S), state.temp_c),
        mean_c=mean_c,
        peak_c=np.fmax(state.peak_c, mean_c),
        watched_s=state.watched_s + np.where(watched, passed_s, 0.0),
    )


# heuristic: an update is reported when it gets worse by this share.
_WORSE_BY = 0.1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AirflowLostState:
    """State between rows; arrays of shape ``(n_nodes,)``.

    `factor` is the fan law's, 1 where unknown, and `factor_so_far` its mean over minutes.
    """

    last_ns: int | None
    counts: GpuCounts
    sudden: SuddenState
    factor: FloatArray
    factor_so_far: FloatArray
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
        return filled(AirflowLostState, len(spec.entities))

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
        state = _with_factor(state, passed_ns / NS_PER_S)
        sudden = add_row(
            state.sudden,
            passed_s=passed_ns / NS_PER_S,
            rise_c=rise_c,
            power_w=power_w,
            temp_c=temp_c,
            min_rise_c=limits.min_rise_c,
            frozen=state.conditions.engaged,
            slowed=state.factor > _SLOWED_RATIO * state.factor_so_far,
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


def _with_factor(state: AirflowLostState, passed_s: float) -> AirflowLostState:
    """Return the state with the mean of the fan law's factor over minutes; it starts at the first."""
    share = -math.expm1(-passed_s / _SLOWED_S)
    moved = state.factor_so_far + share * (state.factor - state.factor_so_far)
    so_far = np.where(np.isnan(state.factor), state.factor_so_far, moved)
    return replace(state, factor_so_far=np.where(np.isnan(state.factor_so_far), state.factor, so_far))
