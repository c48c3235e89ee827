"""Thermal resistance: a GPU is hotter than its siblings and the normal offset of its slot explain.

Each window of two minutes gives ``theta = (T - T_inlet) / P`` for every GPU, `P` being the power that its temperature
reflects while the load changes. A rise beyond that of its siblings at the same power, and beyond the learned offset of
its slot, is a bad thermal interface whatever load, room and fans do, since these affect all siblings alike. A slot is
learnt from the first window on, and is as uncertain as slots differ before; an excess that was there on the first day
is one beyond what GPUs in the same air differ by. Where a GPU has not two siblings, it is compared with its own past
at a like power and inlet. Inlet: its sensor, else the coolest idle GPU of the node within an hour, else an assumption,
which moves all siblings alike.
"""

from dataclasses import dataclass, replace

import numpy as np

from analytics.connectivity import Siblings
from analytics.connectivity.siblings import MIN_SIBLINGS
from analytics.detectors.columns import bits_set, optional
from analytics.detectors.condition import Changes, Conditions, Holds, judge, report_worse
from analytics.detectors.heat_limits import ThermalResistanceLimits
from analytics.detectors.joined_columns import JoinedColumn
from analytics.detectors.statements import Statement, findings_from
from analytics.detectors.thermal_resistance_summary import ThermalStatus, WindowReadings, describe
from analytics.heat.airflow_order import OrderCheck, check_order
from analytics.heat.baseline import LikePast, accept_past, expected_from_past, learn_past
from analytics.heat.comparison import SCATTER_C, SLOT_AIR_C, HeatComparison, balanced, beyond, compare
from analytics.heat.excess import ExcessSums, Levels, add_ratio, add_window, doubt, forget, grown_share
from analytics.heat.groups import coolest, group_part, group_size
from analytics.heat.slots import (
    SlotOffsets,
    Surroundings,
    accept_slots,
    flow_change,
    flow_error_c,
    front_variance_c2,
    is_alike,
    learn_slots,
    slot_line,
    surroundings,
)
from analytics.heat.windows import HeatColumns, HeatWindow, HeatWindowSums, add_rows
from physics.cooling import felt_w
from telemetry.clock import NS_PER_S
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.frames import FloatArray, Frame, MaskArray, TableSpec, TimeArray, filled
from telemetry.gpu import COOLING_REASONS
from telemetry.records import Cause, Finding, FindingStatus

# A room changes by a kelvin an hour; an idle GPU shows its temperature for as long. Assumption.
_IDLE_HOLDS_NS = 3600 * NS_PER_S
# How far the inlet may lie off the assumption where nothing shows it: ASHRAE TC 9.9 allows 15 to 32 °C in class A1,
# 10 to 35 °C in A2. At like power it moves all siblings alike; beside siblings at another power its error is no excess.
_ASSUMED_AIR_C = 10.0
# heuristic: an excess of which less than this share grows with power is warm air at the slot, not an interface.
_CONSTANT_BELOW = 0.3
# heuristic: an update is reported when the excess grows by a twentieth of the siblings' rise.
_WORSE_BY = 0.05
# While a slot is learnt, an excess over what was learnt so far is not learnt from here on: two steps of the sensor, and
# three standard deviations. heuristic: a fault that begins is no part of a slot.
_LEARNT_WITHIN_C, _LEARNT_WITHIN_SIGMAS = 2.0, 3.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _NormalHeat:
    """What is normal for each GPU in a window: rise, variance of a rise by chance, and what is not known of normal."""

    normal_c: FloatArray
    variance_c2: FloatArray
    unsure_c: FloatArray
    compared: HeatComparison


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ThermalResistanceState:
    """State between rows, each array of shape ``(n_gpus,)``.

    `judged` is the newest window under load, `limit_w` the newest power limit, `idle_c` the temperature when the GPU
    was last seen idle, at `idle_ns`; `constant` marks findings reported as warm air at the slot. `order` compares with
    the GPUs of the same air, `by_order` marks findings that rest on it, and `accepted` GPUs that are taken as they are.
    """

    sums: HeatWindowSums
    siblings: Siblings
    offsets: SlotOffsets
    past: LikePast
    levels: Levels
    shape: ExcessSums
    conditions: Conditions
    judged: WindowReadings
    limit_w: FloatArray
    idle_c: FloatArray
    idle_ns: TimeArray
    constant: MaskArray
    order: OrderCheck
    by_order: MaskArray
    accepted: MaskArray


@dataclass(frozen=True, slots=True, kw_only=True)
class ThermalResistance:
    """Raises `Cause.THERMAL_INTERFACE`, or `Cause.AIRFLOW` for warm air at one slot; see `ThermalResistanceLimits`."""

    limits: ThermalResistanceLimits
    name: str = "thermal_resistance"
    kind: EntityKind = EntityKind.GPU
    signals: tuple[str, ...] = ("gpu_temp_c", "power_w")
    joined_columns: tuple[JoinedColumn, ...] = (JoinedColumn(kind=EntityKind.NODE, signal="inlet_temp_c"),)

    def start(self, spec: TableSpec) -> ThermalResistanceState:
        """Return the state before the first row."""
        return filled(ThermalResistanceState, len(spec.entities))

    def accept(self, state: ThermalResistanceState, accepted: MaskArray) -> ThermalResistanceState:
        """Reset slot and past of the accepted GPUs."""
        return replace(
            state,
            offsets=accept_slots(state.offsets, accepted),
            past=accept_past(state.past, accepted),
            levels=forget(state.levels, accepted),
            accepted=state.accepted | accepted,
        )

    def step(
        self, state: ThermalResistanceState, frame: Frame, topology: Topology
    ) -> tuple[ThermalResistanceState, tuple[Finding, ...]]:
        """Judge the windows that end within a frame; other rows are only added up."""
        if not len(frame):
            return state, ()
        state = replace(state, siblings=state.siblings.under(topology, frame.spec.entities))
        power_w = frame.signal("power_w")
        columns = HeatColumns(
            temp_c=frame.signal("gpu_temp_c"),
            power_w=power_w,
            air_c=optional(frame, "inlet_temp_c"),
            fan_ratio=np.broadcast_to(np.nan, power_w.shape),
            part=group_part(power_w, state.siblings.groups),
            cut=bits_set(optional(frame, "throttle_reasons"), COOLING_REASONS),
        )
        limits_w = optional(frame, "power_limit_w")
        findings: list[Finding] = []
        window_ns = round(self.limits.window_s * NS_PER_S)
        for row, sums, window in add_rows(state.sums, frame.time_ns, columns, window_ns=window_ns):
            if window is not None:
                # The limit as of the row before: what the window has seen, however the rows were cut into frames.
                known_w = limits_w[row - 1] if row else state.limit_w
                state, found = self._end_window(replace(state, limit_w=known_w), window, frame.spec.entities)
                findings.extend(found)
            state = replace(state, sums=sums)
        return replace(state, limit_w=np.array(limits_w[-1])), tuple(findings)

    def _end_window(
        self, state: ThermalResistanceState, window: HeatWindow, entities: tuple[Entity, ...]
    ) -> tuple[ThermalResistanceState, tuple[Finding, ...]]:
        limits = self.limits
        gate_w = np.where(np.isnan(state.limit_w), limits.min_power_w, limits.min_power_ratio * state.limit_w)
        level, works = balanced(window), window.power_w > gate_w
        idle = level & ~works
        state = replace(
            state,
            idle_c=np.where(idle, window.temp_c, state.idle_c),
            idle_ns=np.where(idle, window.ended_ns, state.idle_ns),
        )
        known_c = self._air_c(state, window)
        air_c = np.where(np.isnan(known_c), limits.inlet_c, known_c)
        groups = state.siblings.groups
        alone = group_size(groups) <= MIN_SIBLINGS
        usable = works & (level | ~alone)
        state, normal = self._normal(state, window, air_c=air_c, known_air_c=known_c, usable=usable)
        compared, normal_c = normal.compared, normal.normal_c
        unlike_c = compared.unlike_c * np.where(np.isnan(known_c), _ASSUMED_AIR_C / SLOT_AIR_C, 1.0)
        ratio = beyond(compared.rise_c - normal_c, np.where(alone, 0.0, unlike_c)) / normal_c
        levels = add_ratio(
            state.levels,
            ratio,
            normal.variance_c2 / normal_c**2,
            quick_share=limits.smoothing,
            slow_share=limits.slow_smoothing,
            unsure=normal.unsure_c / normal_c,
        )
        state = replace(state, levels=levels, judged=state.judged.renewed(compared, normal_c, where=np.isfinite(ratio)))
        state = self._with_shape(state, window, air_c=air_c, level=level)
        state, changes = self._judge(state, window, seen=np.isfinite(ratio), alone=alone)
        return state, self._findings(state, changes, window.ended_ns, entities, alone=alone)

    def _air_c(self, state: ThermalResistanceState, window: HeatWindow) -> FloatArray:
        """Return the inlet temperature: its sensor, else the coolest idle GPU of the node, else NaN."""
        age_ns = window.ended_ns - state.idle_ns
        fresh_c = np.where((age_ns >= 0) & (age_ns <= _IDLE_HOLDS_NS), state.idle_c, np.nan)
        return np.where(np.isnan(window.air_c), coolest(fresh_c, state.siblings.groups), window.air_c)

    def _normal(
        self,
        state: ThermalResistanceState,
        window: HeatWindow,
        *,
        air_c: FloatArray,
        known_air_c: FloatArray,
        usable: MaskArray,
    ) -> tuple[ThermalResistanceState, _NormalHeat]:
        """Return the rise that is normal for each GPU at its power and the variance of a rise, and learn both.

        NaN where there is nothing to compare with.
        """
        groups = state.siblings.groups
        alone = group_size(groups) <= MIN_SIBLINGS
        around = _around(state, window)
        line = slot_line(state.offsets)
        reference_c = line.rise_without_c(window.temp_c - air_c, around.ahead)
        compared = compare(window, groups, air_c=air_c, usable=usable, reference_c=reference_c)
        rise_c = compared.sibling_rise_c
        slot_c = line.offset_c(rise_c, around.ahead)
        shows_flow = ~window.cut & ~state.conditions.active
        flow = flow_change(np.where(shows_flow, compared.excess_c - slot_c, np.nan), slot_c, groups)
        flow_c = flow_error_c(state.offsets, slot_c, flow, rise_c=rise_c, theta_k_per_w=rise_c / compared.felt_w)
        slot_c2 = np.maximum(line.variance_c2(rise_c, around.ahead), 0.0) + flow_c**2
        slot_c = slot_c * (1.0 + flow)
        alike = usable & is_alike(around, groups, level=balanced(window))
        own_theta = np.where(alike, compared.rise_c / compared.felt_w, np.nan)
        state = replace(state, order=check_order(own_theta, groups, reference=alike & ~window.cut))
        state = self._with_slots(state, compared, around, slot_c=slot_c, slot_c2=slot_c2, alone=alone)
        normal_c, unsure_c = rise_c + slot_c, np.sqrt(slot_c2)
        variance_c2 = compared.variance_c2 + front_variance_c2(rise_c, around)
        if alone.any():
            state, past_c = self._with_past(state, compared, alone=alone, known_air_c=known_air_c)
            normal_c = np.where(alone, past_c, normal_c)
            variance_c2, unsure_c = np.where(alone, SCATTER_C**2, variance_c2), np.where(alone, 0.0, unsure_c)
        normal_c = np.where(normal_c > 0, normal_c, np.nan)
        return state, _NormalHeat(normal_c=normal_c, variance_c2=variance_c2, unsure_c=unsure_c, compared=compared)

    def _with_slots(
        self,
        state: ThermalResistanceState,
        compared: HeatComparison,
        around: Surroundings,
        *,
        slot_c: FloatArray,
        slot_c2: FloatArray,
        alone: MaskArray,
    ) -> ThermalResistanceState:
        """Learn slot offsets that are not frozen yet, where there is no sign of a fault."""
        offsets, rise_c, more_c = state.offsets, compared.sibling_rise_c, compared.excess_c - slot_c
        sd_c = np.sqrt(compared.variance_c2 + front_variance_c2(rise_c, around) + slot_c2)
        suspect = more_c > np.maximum(_LEARNT_WITHIN_C, _LEARNT_WITHIN_SIGMAS * sd_c) + compared.unlike_c
        suspect |= self._beyond(state, compared.rise_c) | state.conditions.active
        learned = learn_slots(
            offsets,
            rise_c=rise_c,
            excess_c=compared.excess_c,
            variance_c2=compared.variance_c2,
            around=around,
            groups=state.siblings.groups,
            where=~offsets.learned(self.limits.learn_windows) & ~suspect & ~alone,
            theta_k_per_w=rise_c / compared.felt_w,
        )
        return replace(state, offsets=learned)

    def _beyond(self, state: ThermalResistanceState, rise_c: FloatArray) -> MaskArray:
        """Return where a GPU is hotter than those of the same air by more than slots differ, and is not accepted."""
        more_c = rise_c * -np.expm1(-state.order.more)
        beyond_range: MaskArray = state.order.beyond & (more_c > self.limits.fresh_excess_c) & ~state.accepted
        return beyond_range

    def _with_past(
        self, state: ThermalResistanceState, compared: HeatComparison, *, alone: MaskArray, known_air_c: FloatArray
    ) -> tuple[ThermalResistanceState, FloatArray]:
        """Return the normal rise of a GPU without siblings under similar conditions, and learn from the window."""
        limits, past = self.limits, state.past
        likeness = past.like(compared.felt_w, np.where(np.isnan(known_air_c), np.nan, compared.air_c))
        learns = alone & ~state.conditions.active & ~(state.levels.quick > limits.clear_ratio)
        learned = learn_past(past, likeness, compared.rise_c, where=learns, windows=limits.learn_windows)
        return replace(state, past=learned), expected_from_past(past, likeness, windows=limits.learn_windows)

    def _with_shape(
        self, state: ThermalResistanceState, window: HeatWindow, *, air_c: FloatArray, level: MaskArray
    ) -> ThermalResistanceState:
        """Add the excess over power, idle windows included, while there is an excess."""
        kept = (state.levels.quick > self.limits.clear_ratio) | state.conditions.active
        if not kept.any():
            return state if not state.shape.weight.any() else replace(state, shape=filled(ExcessSums, len(kept)))
        around = _around(state, window)
        line = slot_line(state.offsets)
        reference_c = line.rise_without_c(window.temp_c - air_c, around.ahead)
        groups = state.siblings.groups
        at_any_load = compare(window, groups, air_c=air_c, usable=level, reference_c=reference_c, min_rise_c=0.0)
        excess_c = at_any_load.excess_c - line.offset_c(at_any_load.sibling_rise_c, around.ahead)
        shape = add_window(state.shape, power_w=at_any_load.power_w, excess_c=excess_c, kept=kept)
        return replace(state, shape=shape)

    def _judge(
        self, state: ThermalResistanceState, window: HeatWindow, *, seen: MaskArray, alone: MaskArray
    ) -> tuple[ThermalResistanceState, Changes]:
        limits, quick = self.limits, state.levels.quick
        worse, calm = self._evidence(state, alone=alone)
        share = grown_share(state.shape)
        constant = share < _CONSTANT_BELOW
        other = ~np.isnan(share) & (constant != state.constant) & state.conditions.active
        over = seen & worse & ~other
        conditions, changes = judge(
            state.conditions,
            now_ns=window.ended_ns,
            elapsed_ns=0,
            over=over,
            under=(seen & calm & ~window.cut) | other,  # a GPU whose clocks were cut is no sign of recovery
            seen=seen | other,
            holds=Holds(set_ns=0, clear_ns=0),
        )
        # A finding that becomes a warning or critical is always reported.
        badness = quick / _WORSE_BY + (quick > limits.warn_ratio) + (quick > limits.severe_ratio)
        conditions, changes = report_worse(conditions, changes, now_ns=window.ended_ns, over=over, badness=badness)
        constant_now, gone = state.constant.copy(), np.zeros(len(quick), dtype=np.bool_)
        constant_now[changes.raised] = constant[changes.raised]
        gone[changes.cleared] = ~other[changes.cleared]
        beyond_range = conditions.active & self._beyond(state, state.judged.rise_c)
        by_order = conditions.active & (state.by_order | beyond_range)
        # What was learnt before it turned out to be beyond the range of its slot is no slot.
        after = replace(
            state,
            conditions=conditions,
            constant=constant_now,
            by_order=by_order,
            levels=forget(state.levels, gone),
            offsets=accept_slots(state.offsets, by_order & ~state.by_order),
        )
        return after, changes

    def _evidence(self, state: ThermalResistanceState, *, alone: MaskArray) -> tuple[MaskArray, MaskArray]:
        """Return masks of evidence for a fault and against one."""
        limits, levels, normal_c = self.limits, state.levels, state.judged.normal_c
        learned = state.offsets.learned(limits.learn_windows) & ~alone
        chance = doubt(levels, levels.quick_weight, levels.quick_unsure)
        least = np.where(alone, limits.alone_ratio, limits.ratio)
        # While a slot is learnt, what would be learnt is no evidence.
        least_c = np.where(learned | alone, limits.floor_c, _LEARNT_WITHIN_C)
        quick = (levels.quick > np.maximum(least, chance)) & (levels.quick * normal_c > least_c)
        first_day = self._beyond(state, state.judged.rise_c) & ~alone
        quick |= first_day
        quick &= levels.windows >= limits.windows
        least_slow = np.maximum(limits.slow_ratio, doubt(levels, levels.slow_weight, levels.slow_unsure))
        slow = (levels.slow > least_slow) & (levels.slow * normal_c > limits.slow_floor_c)
        slow &= learned & (levels.windows >= limits.slow_windows)
        # Hours take hours to fade; a repair shows within minutes, as a level that is below them beyond chance.
        repaired = (levels.quick < limits.clear_slow_ratio) & (levels.slow - levels.quick > chance)
        faded = (levels.slow < limits.clear_slow_ratio) | repaired | ~learned
        within = state.order.back | state.accepted | ~state.by_order
        calm: MaskArray = (levels.quick < limits.clear_ratio) & faded & within
        return quick | slow, calm

    def _findings(
        self,
        state: ThermalResistanceState,
        changes: Changes,
        now_ns: int,
        entities: tuple[Entity, ...],
        *,
        alone: MaskArray,
    ) -> tuple[Finding, ...]:
        if not changes.some:
            return ()
        share = grown_share(state.shape)

        def described(index: int, status: FindingStatus) -> Statement:
            subject = ThermalStatus(
                entity=entities[index],
                status=status,
                seconds=state.conditions.lasted_s(index, now_ns),
                alone=bool(alone[index]),
                grown_share=float(share[index]),
                constant=bool(state.constant[index]),
                quick=float(state.levels.quick[index]),
                slow=float(state.levels.slow[index]),
            )
            return describe(subject, state.judged.of(index), self.limits)

        found: list[Finding] = []
        for cause, mask in ((Cause.THERMAL_INTERFACE, ~state.constant), (Cause.AIRFLOW, state.constant)):
            part = Changes(
                raised=changes.raised[mask[changes.raised]],
                updated=changes.updated[mask[changes.updated]],
                cleared=changes.cleared[mask[changes.cleared]],
            )
            found.extend(
                findings_from(self.name, cause, entities, state.conditions, part, now_ns=now_ns, describe=described)
            )
        return tuple(found)


def _around(state: ThermalResistanceState, window: HeatWindow) -> Surroundings:
    """Return what the others do to the air of each GPU."""
    sink_w = np.where(np.isnan(window.sink_w), window.power_w, window.sink_w)
    return surroundings(state.offsets, felt_w(window.power_w, sink_w), state.siblings.groups)
