"""Source resistance: ageing joint, lost supply or input sag, distinguished by E and R of each path.

- Ageing: R up. In minutes against the path's own reference (a screw that works loose), over weeks by CUSUM and effect
  on hourly medians against a frozen first week (corrosion). R is taken at 25 °C where the inlet temperature is known.
- Supply lost: a branch carries nothing while its siblings carry more; with one sensor for the whole rail, R jumps by
  N/(N-1) from one window to the next and stays there.
- Input sag: E down on all supplies of a node, R as it was.

Ageing is disproved if R returns to its reference at the same load swing.
"""

from dataclasses import dataclass, replace

import numpy as np

from analytics.connectivity import Siblings
from analytics.connectivity.buses import Buses
from analytics.detectors.columns import optional
from analytics.detectors.condition import NO_CHANGES, Changes, Conditions, Holds, judge, report_worse
from analytics.detectors.joined_columns import JoinedColumn, Relation
from analytics.detectors.source_resistance_summary import describe_ageing, describe_input_sag, describe_lost
from analytics.detectors.statements import Describe, findings_from
from analytics.detectors.streaks import Streaks, begun, settled
from analytics.detectors.supply_limits import SourceResistanceLimits
from analytics.supply import input_fall
from analytics.supply.bands import Bands
from analytics.supply.branches import (
    Branches,
    are_light,
    carries_nothing,
    gone,
    group_sum,
    known_count,
    surely_gone,
    usual_after_block,
    watch_row,
)
from analytics.supply.carried_load import CarriedLoad
from analytics.supply.input_fall import InputFall, after_block, fall_rows, may_fall
from analytics.supply.pair_rows import PAIR, SAME_V, PairRows, quiet_end, values_before
from analytics.supply.plausibility import COARSE_V
from analytics.supply.ratings import ratings_of
from analytics.supply.reference import Reference, forget, look
from analytics.supply.sampling import declared_means
from analytics.supply.shared_rise import BusShares, has_calm_sibling
from analytics.supply.slow_change import OpenHour, SlowChange, accept, add_hour, take
from analytics.supply.stream_estimate import (
    LONGEST_STEP_NS,
    BlockMeans,
    Blocks,
    add_rows,
    close,
    is_full,
    restart,
    stretch_end,
)
from physics.rail_classes import times_measured
from physics.thevenin import at_25_c
from telemetry.clock import NS_PER_S
from telemetry.entities import EntityKind, Topology
from telemetry.frames import FloatArray, Frame, FromZero, MaskArray, TableSpec, filled, reset_where
from telemetry.gpu import REASON_IDLE
from telemetry.records import Cause, Finding

# N/(N-1) for two and three supplies; heuristic: within 6 %, what windows of one path differ by.
_LOST_STEPS = (2.0, 1.5)
_STEP_WITHIN = 0.06
_STEADY_WITHIN = 0.08
# heuristic: the supply that is left may trip within 20 ms to some tenths of a second, and then nothing could be
# reported.
_SURELY_DEAD_NS = NS_PER_S // 10


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SourceResistanceState:
    """State between rows. `air_sum_c` and `air_rows` sum the inlet over the block that is open."""

    last_ns: int | None
    siblings: Siblings
    buses: Buses
    shares: BusShares
    carried: CarriedLoad
    blocks: Blocks
    air_sum_c: FromZero
    air_rows: FromZero
    means: BlockMeans
    bands: Bands
    reference: Reference
    branches: Branches
    fall: InputFall
    hour: OpenHour
    slow: SlowChange
    last_v: FloatArray
    step_v: FloatArray
    rising: Streaks
    sagging: Streaks
    stepped: MaskArray
    ageing: Conditions
    lost: Conditions
    sag: Conditions


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceResistance:
    """Raises `Cause.JOINT_AGEING`, `Cause.SUPPLY_LOST` and `Cause.INPUT_SAG`; see `SourceResistanceLimits`."""

    limits: SourceResistanceLimits
    name: str = "source_resistance"
    kind: EntityKind = EntityKind.SUPPLY
    signals: tuple[str, ...] = PAIR
    joined_columns: tuple[JoinedColumn, ...] = (
        JoinedColumn(kind=EntityKind.NODE, signal="inlet_temp_c"),
        JoinedColumn(kind=EntityKind.GPU, signal="throttle_reasons", how=Relation.MEAN_BELOW, column="gpu_reasons"),
        JoinedColumn(kind=EntityKind.GPU, signal="power_w", how=Relation.SUM_BELOW, column="gpus_w"),
        JoinedColumn(kind=EntityKind.GPU, signal="power_limit_w", how=Relation.SUM_BELOW, column="gpus_limit_w"),
    )

    def start(self, spec: TableSpec) -> SourceResistanceState:
        """Return the state before the first row."""
        return filled(SourceResistanceState, len(spec.entities))

    def accept(self, state: SourceResistanceState, accepted: MaskArray) -> SourceResistanceState:
        """Reset reference and baseline of the accepted paths."""
        return replace(
            state,
            bands=reset_where(state.bands, filled(Bands, len(accepted)), accepted),
            reference=forget(state.reference, accepted),
            slow=accept(state.slow, accepted),
            fall=input_fall.forget(state.fall, accepted),
            shares=reset_where(state.shares, filled(BusShares, len(accepted)), accepted),
            carried=reset_where(state.carried, filled(CarriedLoad, len(accepted)), accepted),
        )

    def step(
        self, state: SourceResistanceState, frame: Frame, topology: Topology
    ) -> tuple[SourceResistanceState, tuple[Finding, ...]]:
        """Judge the rows of a frame: branches row by row, resistances once a block."""
        inlet_c, idle = optional(frame, "inlet_temp_c"), optional(frame, "gpu_reasons") == REASON_IDLE
        light = are_light(optional(frame, "gpus_w"), optional(frame, "gpus_limit_w"), idle)
        entities = frame.spec.entities
        rated_w = ratings_of(entities)
        state = replace(
            state, siblings=state.siblings.under(topology, entities), buses=state.buses.under(topology, entities)
        )
        rows, start = PairRows.of(frame), 0
        findings: list[Finding] = []
        while start < len(rows):
            stop = stretch_end(state.blocks, state.last_ns, rows.time_ns, start)
            part = rows.part(start, quiet_end(_is_loud(state, rows.part(start, stop)), start))
            start, now_ns = start + len(part), part.time_ns[-1]
            state = _with_inlet(state, inlet_c[part.places])
            state, dipped = self._fall(state, part)
            findings.extend(self._findings(state, Cause.INPUT_SAG, state.sag, dipped, now_ns, spec=frame.spec))
            state, lost = self._branches(state, part, light[part.places[-1]], rated_w)
            findings.extend(self._findings(state, Cause.SUPPLY_LOST, state.lost, lost, now_ns, spec=frame.spec))
            if is_full(state.blocks, now_ns):
                state, ageing, lost, sag = self._block(state, now_ns, declared_means(entities))
                findings.extend(
                    self._findings(state, Cause.JOINT_AGEING, state.ageing, ageing, now_ns, spec=frame.spec)
                )
                findings.extend(self._findings(state, Cause.SUPPLY_LOST, state.lost, lost, now_ns, spec=frame.spec))
                findings.extend(self._findings(state, Cause.INPUT_SAG, state.sag, sag, now_ns, spec=frame.spec))
        return state, tuple(findings)

    def _branches(
        self, state: SourceResistanceState, rows: PairRows, gpus_light: MaskArray, rated_w: FloatArray
    ) -> tuple[SourceResistanceState, Changes]:
        """Sum the rows of a stretch, and judge the branches of a loud one, which is a single row."""
        passed_ns, now_ns = _passed_ns(state, rows), rows.time_ns[-1]
        blocks = restart(state.blocks) if passed_ns < 0 else state.blocks
        last_v, step_v = _last_and_step_v(state, rows)
        voltage_v, current_a, used = rows.voltage_v[-1], rows.current_a[-1], rows.used[-1]
        branches = watch_row(
            state.branches, now_ns,
            current_a=current_a, voltage_v=voltage_v, used=used, gpus_light=gpus_light, rated_w=rated_w,
            groups=state.buses.sharing, nodes=state.siblings.groups, buses=state.buses.groups,
        )  # fmt: skip
        blocks = add_rows(blocks, rows)
        state = replace(state, last_ns=now_ns, blocks=blocks, branches=branches, last_v=last_v, step_v=step_v)
        dead = branches.since_ns > 0
        if not state.lost.busy and not dead.any():
            return state, NO_CHANGES
        dead_ns = np.where(surely_gone(branches), _SURELY_DEAD_NS, round(self.limits.dead_s * NS_PER_S))
        held = dead & (now_ns - branches.since_ns >= dead_ns)
        voltage_v = np.where(used, voltage_v, np.nan)
        off = gone(branches, now_ns, voltage_v=voltage_v, open_v=state.reference.open_v, first_v=state.blocks.zero_v)
        over = held & off & used
        lost, changes = judge(
            state.lost,
            now_ns=now_ns,
            elapsed_ns=min(max(passed_ns, 0), LONGEST_STEP_NS),
            over=over,
            under=~dead & ~state.stepped & (current_a > 0.0),
            # Sensors that take turns: time counts for one also in the rows of the others, in which its value is held.
            seen=np.isfinite(current_a),
            holds=Holds.of_seconds(set_s=0.0, clear_s=self.limits.clear_after_s),
        )
        lost = begun(lost, changes, branches.since_ns)
        lost, changes = report_worse(lost, changes, now_ns=now_ns, over=over, badness=np.zeros(len(over)))
        return replace(state, lost=lost), changes

    def _fall(self, state: SourceResistanceState, rows: PairRows) -> tuple[SourceResistanceState, Changes]:
        passed_ns, now_ns, used = _passed_ns(state, rows), rows.time_ns[-1], rows.used[-1]
        fall = fall_rows(state.fall, rows, state.siblings.groups)
        state = replace(state, fall=fall)
        if not state.sag.busy and not fall.fallen.any():
            return state, NO_CHANGES
        sag, changes = judge(
            state.sag,
            now_ns=now_ns,
            elapsed_ns=min(max(passed_ns, 0), LONGEST_STEP_NS),
            over=used & fall.fallen,
            under=fall.back & ~fall.fallen & (state.sagging.count == 0),
            seen=np.isfinite(rows.voltage_v[-1]),
            holds=Holds.of_seconds(set_s=0.0, clear_s=self.limits.clear_after_s),
        )
        sag, changes = report_worse(sag, changes, now_ns=now_ns, over=used & fall.fallen, badness=np.zeros(len(used)))
        return replace(state, sag=sag), changes

    def _block(
        self, state: SourceResistanceState, now_ns: int, means_declared: MaskArray
    ) -> tuple[SourceResistanceState, Changes, Changes, Changes]:
        blocks, means, windows = close(state.blocks, now_ns, declared_means=means_declared)
        # Over the whole block: where one takes hours, its last row is another time of the day.
        normal_ohm = at_25_c(windows.resistance_ohm, state.air_sum_c / np.where(state.air_rows, state.air_rows, np.nan))
        bands, normal_ohm = state.bands.at_home(normal_ohm, windows.load_hz)
        hour, ended = take(state.hour, normal_ohm, windows.sd_ohm, now_ns, block_s=means.seconds)
        state = replace(
            state,
            blocks=blocks,
            air_sum_c=np.zeros_like(normal_ohm),
            air_rows=np.zeros_like(normal_ohm),
            means=means,
            shares=state.shares.after_block(means, state.buses.groups),
            bands=bands,
            reference=look(state.reference, windows, now_ns, normal_ohm=normal_ohm, step_v=state.step_v),
            branches=usual_after_block(
                state.branches, means.mean_a, means.mean_v, state.buses.sharing, buses=state.buses.groups
            ),
            fall=after_block(
                state.fall,
                means.mean_v,
                np.isfinite(windows.resistance_ohm),
                state.siblings.groups,
                sag_v=self.limits.sag_v,
                clear_v=self.limits.clear_sag_v,
            ),
            hour=hour,
            slow=state.slow
            if ended is None
            else add_hour(state.slow, ended.resistance_ohm, sd_ratio=ended.sd_ratio, hours=ended.hours),
        )
        seen = np.isfinite(normal_ohm) & np.isfinite(state.reference.ohm)
        state, ageing, lost = self._judge_rise(state, now_ns, seen)
        state, sag = self._judge_sag(state, now_ns, seen)
        carried = state.carried.after_block(means, np.isfinite(normal_ohm), state.reference.ratio())
        return replace(state, carried=carried), ageing, lost, sag

    def _judge_rise(
        self, state: SourceResistanceState, now_ns: int, seen: MaskArray
    ) -> tuple[SourceResistanceState, Changes, Changes]:
        limits, reference = self.limits, state.reference
        ratio = reference.ratio()
        over = seen & (reference.low_ratio() > limits.quick_ratio)
        over &= ~_of_no_supply(state, seen, over)
        known = np.isfinite(reference.ohm)
        over &= ~state.carried.overdrawn(state.means, over, state.buses.groups, known=known)
        under = seen & (ratio < limits.clear_ratio)
        rising = state.rising.after(over=over, under=under, now_ns=now_ns)
        quick = rising.count >= limits.windows
        alone = known_count(state.branches.usual_a, state.siblings.groups) <= 1
        steps = np.array(_LOST_STEPS)[:, np.newaxis]
        like_lost = (np.abs(ratio / steps - 1.0) < _STEP_WITHIN).any(axis=0)
        sudden = np.abs(reference.before_ohm / reference.ohm - 1.0) < _STEADY_WITHIN
        stepped = np.where(over & (rising.count == 1), alone & like_lost & sudden, state.stepped)
        stepped = stepped & (like_lost | ~seen) & (rising.count > 0)
        slow = state.slow.risen(state.step_v >= COARSE_V * times_measured(state.last_v))
        calm = rising.against >= limits.clear_windows
        state, since_ns = replace(state, rising=rising, stepped=stepped), rising.begun_ns(now_ns)
        ageing, found = settled(
            state.ageing,
            now_ns,
            over=(quick & ~stepped) | slow,
            under=calm & ~slow,
            since_ns=since_ns,
            badness=ratio * 4,
        )
        if not (quick & stepped).any():
            return replace(state, ageing=ageing), found, NO_CHANGES
        lost, gone_now = settled(
            state.lost, now_ns, over=quick & stepped, under=np.zeros_like(calm), since_ns=since_ns, badness=ratio * 0
        )
        return replace(state, ageing=ageing, lost=lost), found, gone_now

    def _judge_sag(
        self, state: SourceResistanceState, now_ns: int, seen: MaskArray
    ) -> tuple[SourceResistanceState, Changes]:
        limits, reference = self.limits, state.reference
        fallen_v = reference.fallen_v()
        flat = np.abs(reference.ratio() - 1.0) < limits.flat_ratio
        sags = seen & flat & (fallen_v > limits.sag_v)
        fine = seen & (fallen_v < limits.clear_sag_v)
        sagging = state.sagging.after(over=sags, under=fine | (seen & ~flat), now_ns=now_ns)
        groups = state.siblings.groups
        # A sibling whose path no load step shows may still show that its own output did not fall.
        steady = ~seen & (state.means.mean_v >= state.fall.usual_v)
        doubt = known_count(np.where(fine | steady | (sagging.count == 0) & seen, 1.0, np.nan), groups) > 0
        sag, found = settled(
            state.sag,
            now_ns,
            over=(sagging.count >= limits.sag_windows) & ~doubt,
            under=(sagging.against >= limits.sag_windows) & ~state.fall.fallen,
            since_ns=sagging.begun_ns(now_ns),
            badness=np.nan_to_num(fallen_v) / limits.sag_v,
        )
        return replace(state, sagging=sagging, sag=sag), found

    def _findings(
        self,
        state: SourceResistanceState,
        cause: Cause,
        conditions: Conditions,
        changes: Changes,
        now_ns: int,
        *,
        spec: TableSpec,
    ) -> tuple[Finding, ...]:
        if not changes.some:
            return ()
        describe: Describe
        match cause:
            case Cause.JOINT_AGEING:
                groups = state.siblings.groups
                describe = describe_ageing(
                    state.reference, state.slow, state.means, spec.entities, self.limits, groups=groups
                )
            case Cause.SUPPLY_LOST:
                describe = describe_lost(state.reference, state.branches, spec.entities, now_ns)
            case _:
                describe = describe_input_sag(state.reference, state.fall, state.means, spec.entities, self.limits)
        # Findings of two causes on one supply may begin at one moment, and must not share an id.
        name = self.name if cause is Cause.JOINT_AGEING else f"{self.name}.{cause.value}"
        return findings_from(name, cause, spec.entities, conditions, changes, now_ns=now_ns, describe=describe)


def _of_no_supply(state: SourceResistanceState, seen: MaskArray, over: MaskArray) -> MaskArray:
    """Return a mask of supplies whose rise may be that of another one.

    No share moved, no sibling is as usual, and some rose by less: a loop that trims the shares does that. Where all of
    a bus rose, all of its paths are worse, or one joint that no share gives away: then each of them is reported.
    """
    groups = state.buses.groups
    calm = has_calm_sibling(state.reference.ratio(), seen, groups, within=_STEADY_WITHIN)
    some = group_sum(np.where(over, 1.0, 0.0), groups) < group_sum(np.ones(len(over)), groups)
    return np.asarray(state.shares.stay(groups) & ~calm & some, dtype=np.bool_)


def _last_and_step_v(state: SourceResistanceState, rows: PairRows) -> tuple[FloatArray, FloatArray]:
    """Return the last voltage of each supply after these rows, and the smallest change that it ever showed."""
    before_v, last_v = values_before(rows.voltage_v, rows.used, state.last_v)
    moved_v = np.abs(rows.voltage_v - before_v)
    step_v = np.fmin.reduce(np.where(rows.used & (moved_v > SAME_V), moved_v, np.nan), axis=0)
    return last_v, np.fmin(state.step_v, step_v)


def _is_loud(state: SourceResistanceState, rows: PairRows) -> MaskArray:
    """Return a mask of rows, shape ``(n_rows,)``, that are judged one by one: something holds, or may begin there."""
    falling = state.fall.fallen.any() or state.fall.rows.any()
    if falling or state.sag.busy or state.lost.busy or (state.branches.since_ns > 0).any():
        return np.ones(len(rows), dtype=np.bool_)
    return may_fall(state.fall, rows) | carries_nothing(state.branches, rows)


def _passed_ns(state: SourceResistanceState, rows: PairRows) -> int:
    """Return the time from the row before to the first of these; negative where the clock was set back."""
    return 0 if state.last_ns is None else rows.time_ns[0] - state.last_ns


def _with_inlet(state: SourceResistanceState, inlet_c: FloatArray) -> SourceResistanceState:
    """Add the inlet temperatures of rows, shape ``(n_rows, n_supplies)``; NaN where none is known."""
    measured = np.isfinite(inlet_c)
    if not measured.any():
        return state
    sums_c = np.concatenate((state.air_sum_c[np.newaxis], np.where(measured, inlet_c, 0.0)))
    return replace(
        state,
        air_sum_c=np.add.accumulate(sums_c, axis=0)[-1],
        air_rows=state.air_rows + measured.sum(axis=0),
    )
