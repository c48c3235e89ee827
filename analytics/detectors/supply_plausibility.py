"""Supply plausibility: readings of one supply that contradict each other, so that a sound supply is not replaced.

- A value repeats exactly while the other one changes as before, unless the supply is off or asleep.
- Voltage and current no longer belong together: the pair fitted better, now it fits better one sample away, and that of
  a sibling is as it was. A source resistance from such a pair may even have the wrong sign.
- The current no longer follows those of its bus, more than a job makes of all of them, and no voltage acquits it.
- The voltage fell alone, by more than a path drops, while the current stayed.
- The supply's own power and voltage times current differ by more than two meters may, on rails of direct current.

Disproved if the siblings' voltage repeats too, or their resistance changes at the same time.
"""

import math
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from analytics.connectivity import Siblings, sibling_median
from analytics.connectivity.buses import Buses
from analytics.detectors.columns import optional, renewed
from analytics.detectors.condition import Changes, Conditions, Holds, judge
from analytics.detectors.seconds import running_sum
from analytics.detectors.statements import Statement, findings_from
from analytics.detectors.supply_limits import SupplyPlausibilityLimits
from analytics.detectors.supply_plausibility_summary import ReadingFault, SupplyReadings, reading_statement
from analytics.supply.branches import DEAD_RATIO, USUAL_SHARE, group_sum, others_sum, share_moved, took_over
from analytics.supply.input_fall import MAINS_V
from analytics.supply.pair_rows import PAIR, PairRows
from analytics.supply.plausibility import (
    MIN_AGREED_W,
    MIN_POWER_W,
    Stillness,
    is_stuck,
    power_mismatch,
    rounding_ratio,
)
from analytics.supply.sampling import declared_means
from analytics.supply.sibling_fit import SiblingFit
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
from analytics.supply.usual_fit import UsualFit
from analytics.supply.voltage_alone import UsualLevels
from analytics.supply.window_fit import ResistanceWindows
from telemetry.clock import NS_PER_S
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.frames import FloatArray, Frame, FromZero, MaskArray, TableSpec, filled
from telemetry.records import Cause, Finding, FindingStatus

# heuristic: memory of the mismatch of power, some steps of a job.
_MISMATCH_S = 10.0
# heuristic: meters that agreed within 2 % over so many blocks are believed at small powers too.
_AGREED_RATIO = 0.02
_AGREED_BLOCKS = 8.0
# heuristic: what current meters of outputs are off by at any load, until both agreed at a small one; supplies state 1
# to 2 % of a current for loads of a fifth and more, and amperes below.
_OFFSET_A = 0.5
# heuristic: of a power that is renewed in fewer than half of the rows, most rows have one of another moment.
_RARE_PART = 0.5
# heuristic: fewer samples of one value in a block are no repetition.
_MIN_SAMPLES = 8
# heuristic: a spread of three steps of the converter takes levels six steps apart, and half of that still moves it.
_COUNTS = 3.0
# heuristic: what the siblings show to spread by less may hide within a step: two levels spread by half a step at most.
_HIDDEN_STEPS = 0.6
# heuristic: supplies without share signal differ by some per cent over the load; a share that fell further is news.
_SAME_SHARE_RATIO = 0.8
# heuristic: three times what the path explains; a joint that ages that far is reported by itself.
_FAR_MORE = 3.0
# heuristic: two others that both move share the load of this one, or the wiring is unlike any that is known.
_MIN_OTHERS = 2
# heuristic: what a job moved is forgotten by half in ten minutes of blocks.
_FADES = 0.9977

_FAULTS = tuple(ReadingFault)
_FELL, _POWER = _FAULTS.index(ReadingFault.VOLTAGE_FELL), _FAULTS.index(ReadingFault.POWER)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SupplyPlausibilityState:
    """State between rows.

    `streaks` counts blocks in a row, shape ``(n_supplies, 5)`` in the order of `ReadingFault`. `usual_v` and `usual_a`
    are the spreads of the block in which both moved most, fading; `usual_mean_a` is the mean current of some blocks,
    `levels` are usual voltage and current towards the bus. `fit` is how well the pair usually fits, `currents` how well
    the current follows its bus; `mismatch` is NaN before the first, `agreed` counts the blocks in which the two powers
    were nearly one, `agreed_w` is the smallest at which they were. `by_bus` marks supplies whose current left its bus
    in the newest block that was skewed, while their pair fitted as usual.
    """

    last_ns: int | None
    judged_ns: int | None
    siblings: Siblings
    buses: Buses
    blocks: Blocks
    means: BlockMeans
    usual_v: FromZero
    usual_a: FromZero
    usual_mean_a: FloatArray
    levels: UsualLevels
    fit: UsualFit
    currents: SiblingFit
    correlation: FloatArray
    power_sum_w: FromZero
    product_sum_w: FromZero
    power_rows: FromZero
    power_reads: FromZero
    mismatch: FloatArray
    mismatch_s: FromZero
    agreed: FromZero
    agreed_w: Annotated[FloatArray, np.inf]
    stillness: Stillness
    streaks: Annotated[FloatArray, 0.0, len(_FAULTS)]
    by_bus: MaskArray
    conditions: Conditions


@dataclass(frozen=True, slots=True, kw_only=True)
class SupplyPlausibility:
    """Raises `Cause.SENSOR_FAULT` on supplies; see `SupplyPlausibilityLimits`."""

    limits: SupplyPlausibilityLimits
    name: str = "supply_plausibility"
    kind: EntityKind = EntityKind.SUPPLY
    signals: tuple[str, ...] = PAIR

    def start(self, spec: TableSpec) -> SupplyPlausibilityState:
        """Return the state before the first row."""
        return filled(SupplyPlausibilityState, len(spec.entities))

    def step(
        self, state: SupplyPlausibilityState, frame: Frame, topology: Topology
    ) -> tuple[SupplyPlausibilityState, tuple[Finding, ...]]:
        """Judge the rows of a frame, once a block."""
        state = replace(
            state,
            siblings=state.siblings.under(topology, frame.spec.entities),
            buses=state.buses.under(topology, frame.spec.entities),
        )
        rows, start = PairRows.of(frame), 0
        power_w, power_new = optional(frame, "power_w"), renewed(frame, "power_w")
        findings: list[Finding] = []
        while start < len(rows):
            stop = stretch_end(state.blocks, state.last_ns, rows.time_ns, start)
            state = _added(state, rows.part(start, stop), power_w, power_new)
            start = stop
            now_ns = rows.time_ns[stop - 1]
            if not is_full(state.blocks, now_ns):
                continue
            state, changes = self._block(state, now_ns, declared_means(frame.spec.entities))
            if changes.some:
                findings.extend(self._findings(state, changes, now_ns, frame.spec.entities))
        return state, tuple(findings)

    def _block(
        self, state: SupplyPlausibilityState, now_ns: int, means_declared: MaskArray
    ) -> tuple[SupplyPlausibilityState, Changes]:
        limits = self.limits
        blocks, means, windows = close(state.blocks, now_ns, declared_means=means_declared)
        passed_ns = _passed_ns(state, now_ns)
        power = _compared(state, means, passed_ns, power_ratio=limits.power_ratio)
        currents = state.currents.after_block(
            windows, state.stillness.step[:, 1], state.usual_mean_a, state.buses.groups
        )
        moved = share_moved(means.mean_a, state.usual_mean_a, state.buses.groups)
        skew = _skew(state, windows, currents, moved=moved)
        streaks, bad, good = _counted(state, means, skew, limits.blocks)
        fell = state.levels.fell_alone(means, state.buses.groups)
        streaks[:, _FELL] = np.where(fell, streaks[:, _FELL] + 1.0, 0.0)
        streaks[:, _POWER] = _power_streaks(power, streaks[:, _POWER], limits)
        usual_v, usual_a = _usual_spreads(state, means)
        state = replace(
            state,
            judged_ns=now_ns,
            blocks=blocks,
            means=means,
            usual_v=usual_v,
            usual_a=usual_a,
            usual_mean_a=_usual_mean(state, means.mean_a, still=streaks[:, 1] > 0),
            levels=state.levels.learn(means, fell, state.buses.groups),
            fit=state.fit.after(windows),
            currents=currents,
            correlation=np.where(windows.complete & windows.moved, windows.correlation, state.correlation),
            power_sum_w=np.zeros(len(streaks)),
            product_sum_w=np.zeros(len(streaks)),
            power_rows=np.zeros(len(streaks)),
            power_reads=np.zeros(len(streaks)),
            mismatch=power.mismatch,
            mismatch_s=power.lasted_s,
            agreed=power.agreed,
            agreed_w=power.agreed_w,
            stillness=_stood(state, means),
            streaks=streaks,
            by_bus=np.where(skew.pair | skew.bus, skew.bus & ~skew.pair, state.by_bus),
        )
        over: MaskArray = np.any(streaks >= limits.blocks, axis=1)
        under = ~bad & (good | (power.known & ~power.differs)) & (streaks == 0).all(axis=1)
        conditions, changes = judge(
            state.conditions,
            now_ns=now_ns,
            elapsed_ns=passed_ns,
            over=over,
            under=under,
            seen=over | under,
            holds=Holds.of_seconds(set_s=0.0, clear_s=limits.clear_after_s),
        )
        return replace(state, conditions=conditions), changes

    def _findings(
        self, state: SupplyPlausibilityState, changes: Changes, now_ns: int, entities: tuple[Entity, ...]
    ) -> tuple[Finding, ...]:
        def describe(index: int, status: FindingStatus) -> Statement:
            return self._describe(state, index, status, now_ns, entities[index])

        return findings_from(
            self.name, Cause.SENSOR_FAULT, entities, state.conditions, changes, now_ns=now_ns, describe=describe
        )

    def _describe(
        self, state: SupplyPlausibilityState, index: int, status: FindingStatus, now_ns: int, entity: Entity
    ) -> Statement:
        holds = np.flatnonzero(state.streaks[index] >= self.limits.blocks)
        fault = _FAULTS[int(holds[0])] if holds.size else None
        means, currents = state.means, state.currents
        readings = SupplyReadings(
            name=entity.label,
            mean_v=float(means.mean_v[index]),
            mean_a=float(means.mean_a[index]),
            spread_v=float(means.spread_v[index]),
            spread_a=float(means.spread_a[index]),
            usual_v=float(state.usual_v[index]),
            level_v=float(state.levels.voltage_v[index]),
            correlation=float(state.correlation[index]),
            by_bus=bool(state.by_bus[index]),
            bus_blur=float(currents.blur[index]),
            usual_bus_blur=float(currents.usual[index]) if currents.windows[index] else math.nan,
            mismatch=float(state.mismatch[index]),
            seconds=state.conditions.lasted_s(index, now_ns),
        )
        return reading_statement(readings, fault, status, power_ratio=self.limits.power_ratio)


def _passed_ns(state: SupplyPlausibilityState, now_ns: int) -> int:
    return min(max(0 if state.judged_ns is None else now_ns - state.judged_ns, 0), LONGEST_STEP_NS)


def _added(
    state: SupplyPlausibilityState, rows: PairRows, power_w: FloatArray, power_new: MaskArray
) -> SupplyPlausibilityState:
    """Add the rows of one stretch; `power_w` has those of the whole frame, `power_new` marks the renewed ones."""
    back = state.last_ns is not None and rows.time_ns[0] < state.last_ns
    own_w = power_w[rows.places]
    measured = rows.used & np.isfinite(own_w)
    none_w = np.zeros_like(state.power_sum_w)
    before_w, before_va = (none_w, none_w) if back else (state.power_sum_w, state.product_sum_w)
    # Over an outage the mean of the power is not the product of the means: 685 against 407 W on a recorded feed.
    product_w = rows.voltage_v * rows.current_a
    return replace(
        state,
        last_ns=rows.time_ns[-1],
        blocks=add_rows(restart(state.blocks) if back else state.blocks, rows),
        currents=state.currents.after_rows(rows, state.buses.groups),
        stillness=state.stillness.after_rows(
            np.stack((rows.voltage_v, rows.current_a), axis=2), rows.used[:, :, np.newaxis]
        ),
        power_sum_w=running_sum(before_w, np.where(measured, own_w, 0.0)),
        product_sum_w=running_sum(before_va, np.where(measured, product_w, 0.0)),
        power_rows=(0.0 if back else state.power_rows) + measured.sum(axis=0),
        power_reads=(0.0 if back else state.power_reads) + (measured & power_new[rows.places]).sum(axis=0),
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PowerComparison:
    """Reported power against voltage times current, shape ``(n_supplies,)``.

    `known` marks supplies of which a block shows both, `differs` those whose mismatch is beyond limit and rounding,
    `lasted_s` is for how long; the others are those of the state.
    """

    known: MaskArray
    differs: MaskArray
    mismatch: FloatArray
    lasted_s: FloatArray
    agreed: FloatArray
    agreed_w: FloatArray


def _compared(
    state: SupplyPlausibilityState, means: BlockMeans, passed_ns: int, *, power_ratio: float
) -> PowerComparison:
    # Over the same rows as voltage and current: on a load that steps, one row of power does not show a mean.
    compared_rows = np.where(state.power_rows > 0, state.power_rows, np.nan)
    power_w, product_w = state.power_sum_w / compared_rows, state.product_sum_w / compared_rows
    off = power_mismatch(power_w, product_w, least_w=MIN_AGREED_W)
    # Of alternating current the product is volt-amperes, and watts are less by the power factor: `feed_factor`.
    off = np.where(means.mean_v > MAINS_V, np.nan, off)
    large = np.fmax(power_w, product_w) > MIN_POWER_W
    # What a supply that went off still shows are the offsets of its meters.
    carries = ~(means.mean_a < DEAD_RATIO * state.usual_mean_a)
    known = np.isfinite(off) & (large | ((state.agreed >= _AGREED_BLOCKS) & carries))
    before = np.where(np.isnan(state.mismatch), off, state.mismatch)
    share = -math.expm1(-means.seconds / _MISMATCH_S)
    mismatch = np.where(known, before + share * (off - before), state.mismatch)
    rounded = rounding_ratio(means.mean_v, means.mean_a, state.stillness.step)
    # Meters that agreed within some per cent are off by no more watts at any load.
    offset_w = np.fmin(_OFFSET_A * np.abs(means.mean_v), _AGREED_RATIO * state.agreed_w)
    by_offset = np.where(large, offset_w, 0.0) / np.where(large, np.fmax(power_w, product_w), 1.0)
    # A power that is read more rarely than the load moves beats with it for minutes, by as much as the load spreads.
    rare = state.power_reads < _RARE_PART * state.power_rows
    beats = np.divide(means.spread_a, means.mean_a, out=np.zeros_like(rounded), where=rare & (means.mean_a > 0.0))
    differs = known & (np.abs(mismatch) > power_ratio + rounded + by_offset + beats)
    lasted_s = np.where(differs, state.mismatch_s + passed_ns / NS_PER_S, 0.0)
    agrees = np.abs(off) < _AGREED_RATIO
    return PowerComparison(
        known=known,
        differs=differs,
        mismatch=mismatch,
        lasted_s=np.where(known, lasted_s, state.mismatch_s),
        agreed=state.agreed + agrees,
        agreed_w=np.where(agrees, np.fmin(state.agreed_w, product_w), state.agreed_w),
    )


def _power_streaks(power: PowerComparison, streaks: FloatArray, limits: SupplyPlausibilityLimits) -> FloatArray:
    lasts = np.where(power.lasted_s >= limits.power_hold_s, limits.blocks, 0)
    return np.where(power.known, lasts, streaks)


def _usual_spreads(state: SupplyPlausibilityState, means: BlockMeans) -> tuple[FloatArray, FloatArray]:
    """Return the spreads of the block in which both moved most, fading."""
    both = (means.samples > 0) & (means.spread_v > 0.0) & (means.spread_a > 0.0)
    both &= (means.spread_a >= _FADES * state.usual_a) & ~_by_other_than_load(state, means)
    usual_v = np.where(both, means.spread_v, state.usual_v)
    return usual_v, np.where(both, means.spread_a, _FADES * state.usual_a)


def _spreads(means: BlockMeans) -> FloatArray:
    """Return the spreads of voltage and current as one table, NaN where a block has none."""
    return np.stack((means.spread_v, means.spread_a), axis=1)


def _bus_a(state: SupplyPlausibilityState, means: BlockMeans) -> FloatArray:
    """Return the least by which the currents of the others on its bus spread in a block.

    NaN with fewer than two others: where the wiring is not described, one may be on another bus, with a job of its own.
    NaN too where its own is less than a step: a supply that is asleep takes no part in the load.
    """
    groups, spreads = state.buses.groups, np.nan_to_num(means.spread_a)
    members = np.bincount(groups, minlength=1)
    least, second = (np.full(len(members), np.inf) for _ in range(2))
    np.minimum.at(least, groups, spreads)
    is_least = spreads == least[groups]
    np.minimum.at(second, groups[~is_least], spreads[~is_least])
    lone = np.bincount(groups, weights=is_least, minlength=1) == 1.0
    others = np.where(is_least & lone[groups], second[groups], least[groups])
    judged = (members[groups] > _MIN_OTHERS) & (means.mean_a >= state.stillness.step[:, 1])
    return np.where(judged, others, np.nan)


def _stood(state: SupplyPlausibilityState, means: BlockMeans) -> Stillness:
    seen = (means.samples >= _MIN_SAMPLES)[:, np.newaxis]
    return state.stillness.after_block(_spreads(means), _bus_a(state, means), seen)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Skew:
    """Supplies whose pair, or whose current towards its bus, shows a delay in a block, and those that `fit`."""

    pair: MaskArray
    bus: MaskArray
    fit: MaskArray


def _skew(
    state: SupplyPlausibilityState, windows: ResistanceWindows, currents: SiblingFit, *, moved: MaskArray
) -> Skew:
    pair = windows.skewed & state.fit.worse(windows, state.siblings.groups, step_v=state.stillness.step[:, 0])
    # A late current is as large as before; one whose share moves in fits and starts has a loose joint.
    late = currents.late(state.fit.unexplained, state.buses.groups) & ~moved
    return Skew(pair=pair, bus=late, fit=np.isfinite(windows.resistance_ohm) | (currents.complete & ~late))


def _counted(
    state: SupplyPlausibilityState, means: BlockMeans, skew: Skew, limit: int
) -> tuple[FloatArray, MaskArray, MaskArray]:
    """Return the streaks after a block, where it is evidence for a fault, and where against one."""
    seen = means.samples >= _MIN_SAMPLES
    volts = seen & is_stuck(means.spread_v, means.spread_a, state.usual_v, means.samples)
    amps = seen & is_stuck(means.spread_a, means.spread_v, state.usual_a, means.samples)
    # heuristic: the partner must move half as much as when both moved, and by more than between two counts of its
    # converter. A value that moved by a few counts then may be flat now.
    step_v, step_a = state.stillness.step.T
    volts &= (means.spread_a > np.fmax(0.5 * state.usual_a, _HIDDEN_STEPS * step_a)) & (
        state.usual_v >= _COUNTS * step_v
    )
    amps &= (means.spread_v > np.fmax(0.5 * state.usual_v, _HIDDEN_STEPS * step_v)) & (
        state.usual_a >= _COUNTS * step_a
    )
    broken = seen[:, np.newaxis] & state.stillness.broken(_spreads(means), _bus_a(state, means))
    flat = np.stack((volts, amps), axis=1) | broken
    if flat.any():
        flat &= ~_flat_by_load(state, means)
        flat[:, 0] &= ~(means.mean_v < DEAD_RATIO * state.levels.voltage_v)  # its output is off
        flat[:, 1] &= ~_carries_nothing(state, means)
        broken &= flat
    bad = np.concatenate((flat, (skew.pair | skew.bus)[:, np.newaxis]), axis=1)
    # A block that noise alone should have moved is nearly proof; two, as the first may be a gap in the log.
    counts = np.stack((*np.where(broken, max(limit / 2.0, 1.0), 1.0).T, np.ones(len(seen))), axis=1)
    good = np.stack((seen & (means.spread_v > 0.0), seen & (means.spread_a > 0.0), skew.fit), axis=1)
    streaks = state.streaks.copy()
    streaks[:, :3] = np.where(bad, streaks[:, :3] + counts, np.where(good, 0.0, streaks[:, :3]))
    return streaks, np.asarray(bad.any(axis=1), dtype=np.bool_), np.asarray(good.all(axis=1), dtype=np.bool_)


def _flat_by_load(state: SupplyPlausibilityState, means: BlockMeans) -> MaskArray:
    """Return a mask of voltages and currents, ``(n_supplies, 2)``, that siblings show to move too little to be seen.

    Noise of the partner alone is no sign of a load that moves. Asked are the siblings on its bus, as another bus may
    have a job of its own, and those of the node where it has none. Without siblings nothing is known.
    """
    spreads, usual = _spreads(means), np.stack((state.usual_v, state.usual_a), axis=1)
    moves = spreads / np.where(usual > 0.0, usual, np.nan)
    shown, of_node = (
        np.stack([sibling_median(one, groups, min_siblings=1) for one in moves.T], axis=1)
        for groups in (state.buses.groups, state.siblings.groups)
    )
    shown = np.where(np.isnan(shown), of_node, shown)
    return np.asarray(shown * usual < _HIDDEN_STEPS * state.stillness.step, dtype=np.bool_)


def _by_other_than_load(state: SupplyPlausibilityState, means: BlockMeans) -> MaskArray:
    """Return a mask of blocks whose voltage moved far more than such a current usually moves it, as a sag does."""
    usual_ohm = state.usual_v / np.where(state.usual_a > 0.0, state.usual_a, np.nan)
    return np.asarray(means.spread_v > _FAR_MORE * usual_ohm * means.spread_a, dtype=np.bool_)


def _usual_mean(state: SupplyPlausibilityState, mean_a: FloatArray, *, still: MaskArray) -> FloatArray:
    """Return the usual currents after a block; nodes on which one may be stuck, or lost its share, teach nothing."""
    usual_a, groups = state.usual_mean_a, state.siblings.groups
    known_a = np.where(np.isnan(usual_a), mean_a, usual_a)
    fell = mean_a * others_sum(known_a, groups) < _SAME_SHARE_RATIO * known_a * others_sum(mean_a, groups)
    hurt = group_sum((still | fell).astype(np.float64), groups) > 0
    return np.where(np.isnan(mean_a) | hurt, usual_a, known_a + USUAL_SHARE * (mean_a - known_a))


def _carries_nothing(state: SupplyPlausibilityState, means: BlockMeans) -> MaskArray:
    """Return a mask of supplies that are off or asleep, and measured right.

    Their current is nothing, and what the others carry shows it, or their own power: a meter that sticks repeats what
    it showed last.
    """
    groups, usual_a = state.buses.groups, state.usual_mean_a
    nothing = means.mean_a < DEAD_RATIO * usual_a
    taken = took_over(others_sum(means.mean_a, groups), others_sum(usual_a, groups), usual_a)
    own_w = state.power_sum_w / np.where(state.power_rows > 0, state.power_rows, np.nan)
    return nothing & (taken | (own_w < DEAD_RATIO * usual_a * means.mean_v))
