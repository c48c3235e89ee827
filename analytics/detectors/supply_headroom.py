"""Supply headroom: sound supplies that carry more than their rating.

The path is as it was (R and E at their reference), so it is the load: steps that all GPUs take together, or a plateau
that one supply was left with. Two kinds of evidence: the rail falls below its limit, or a supply's power passes its
rating. The finding predicts the worst dip, at the cautious ends of the estimates.

A rating is configured, or reported by the supply (`telemetry.ratings`); where it is unknown, watts are evidence of
nothing, and what the rail shows still counts.

It is disproved by a source resistance above its reference: then it is the path.
"""

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from analytics.connectivity.buses import Buses
from analytics.detectors.columns import optional
from analytics.detectors.condition import NO_CHANGES, Changes, Conditions, Holds, judge
from analytics.detectors.statements import Statement, evidence, findings_from
from analytics.detectors.supply_limits import SupplyHeadroomLimits
from analytics.supply.carried_load import CarriedLoad
from analytics.supply.input_fall import MAINS_V
from analytics.supply.pair_rows import PAIR, PairRows, quiet_end
from analytics.supply.rail_levels import RailLevels
from analytics.supply.ratings import ratings_of
from analytics.supply.reference import DipImpedance, Reference, look
from analytics.supply.sampling import declared_means
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
from physics.rail_classes import LEAST_PLAUSIBLE_RATIO, times_measured
from physics.supply_path import TRANSIENT_OHM, PathBounds, predict_dip
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.frames import FloatArray, Frame, FromZero, MaskArray, TableSpec, filled
from telemetry.quantities import multiple, volts
from telemetry.records import Cause, Finding, FindingStatus, Severity

# heuristic: two rows in a row over the trip level, as a trip takes some milliseconds and one row may be a glitch.
_TRIP_ROWS = 2
# heuristic: a mean this far over the rating is no effect of steps any more.
_FAR_OVER = 1.15
# heuristic: constant power alone makes the current grow by a twentieth when the rail is a twentieth low.
_MORE_THAN_EVER = 1.1
# heuristic: as far as rails may fall over their whole load by the ATX12V and Open Rack specifications, 5 %, less what a
# reference of some windows may be off.
_BELOW_LINE = 0.03


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LoadExtremes:
    """The extremes of the block that runs and of the one before, shape ``(n_supplies,)``; infinite before a sample.

    `steps` and `plateaus` count blocks in a row in which the load stepped over the rating, or stayed over it. `trips`
    counts rows in a row over the level at which supplies trip. `rated_w` is the rating of a supply, NaN where it is
    unknown, `well_a` the largest current under which the rail never fell.
    """

    high_a: Annotated[FloatArray, -np.inf]
    low_a: Annotated[FloatArray, np.inf]
    peak_w: Annotated[FloatArray, -np.inf]
    lowest_v: Annotated[FloatArray, np.inf]
    block_high_a: FloatArray
    block_low_a: FloatArray
    block_peak_w: FloatArray
    block_lowest_v: FloatArray
    steps: FromZero
    plateaus: FromZero
    trips: FromZero
    rated_w: FloatArray
    well_a: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SupplyHeadroomState:
    """State between rows."""

    last_ns: int | None
    judged_ns: int | None
    rails: RailLevels
    blocks: Blocks
    means: BlockMeans
    reference: Reference
    buses: Buses
    carried: CarriedLoad
    dips: DipImpedance
    load: LoadExtremes
    stepping: Conditions
    overload: Conditions


@dataclass(frozen=True, slots=True, kw_only=True)
class SupplyHeadroom:
    """Raises `Cause.SYNCHRONOUS_OVERLOAD` and `Cause.SUPPLY_OVERLOAD`; see `SupplyHeadroomLimits`."""

    limits: SupplyHeadroomLimits
    name: str = "supply_headroom"
    kind: EntityKind = EntityKind.SUPPLY
    signals: tuple[str, ...] = PAIR

    def start(self, spec: TableSpec) -> SupplyHeadroomState:
        """Return the state before the first row."""
        return filled(SupplyHeadroomState, len(spec.entities))

    def step(
        self, state: SupplyHeadroomState, frame: Frame, topology: Topology
    ) -> tuple[SupplyHeadroomState, tuple[Finding, ...]]:
        """Judge the rows of a frame: trips row by row, the rest once a block."""
        lowest_v = np.fmin(frame.signal("voltage_v"), optional(frame, "voltage_min_v"))
        rated_w = ratings_of(frame.spec.entities, configured_w=self.limits.rated_w)
        # Feeds of mains have watts of their own (`over_power`): volts times amperes are more, by the power factor.
        rated_w = np.where(np.fmax.reduce(lowest_v, axis=0, initial=0.0) > MAINS_V, np.nan, rated_w)
        buses = state.buses.under(topology, frame.spec.entities)
        state = replace(state, buses=buses, load=replace(state.load, rated_w=rated_w))
        rows, start = PairRows.of(frame), 0
        over = rows.used & (rows.voltage_v * rows.current_a > self.limits.overload_ratio * rated_w)
        over_rows: MaskArray = np.any(over, axis=1)
        findings: list[Finding] = []
        while start < len(rows):
            stop = stretch_end(state.blocks, state.last_ns, rows.time_ns, start)
            stop = quiet_end(over_rows[start:stop], start)
            part, now_ns = rows.part(start, stop), rows.time_ns[stop - 1]
            trips = np.where(
                over[stop - 1], state.load.trips + 1, np.where(part.used.any(axis=0), 0.0, state.load.trips)
            )
            back = state.last_ns is not None and part.time_ns[0] < state.last_ns
            state = replace(
                state,
                last_ns=now_ns,
                rails=state.rails.after_rows(frame.spec.entities, part.voltage_v),
                blocks=add_rows(restart(state.blocks) if back else state.blocks, part),
                load=replace(_extremes(state.load, part, lowest_v[part.places]), trips=trips),
            )
            full = is_full(state.blocks, now_ns)
            is_over, start = over_rows[stop - 1], stop
            if not full and not is_over:
                continue
            if full:
                state = self._block(state, now_ns, declared_means(frame.spec.entities))
            state, stepping, overload = self._judge(state, now_ns, full=full)
            findings.extend(self._findings(state, Cause.SYNCHRONOUS_OVERLOAD, stepping, now_ns, frame.spec.entities))
            findings.extend(self._findings(state, Cause.SUPPLY_OVERLOAD, overload, now_ns, frame.spec.entities))
        return state, tuple(findings)

    def _block(self, state: SupplyHeadroomState, now_ns: int, means_declared: MaskArray) -> SupplyHeadroomState:
        limits, load, scale = self.limits, state.load, state.rails.scale
        blocks, means, windows = close(state.blocks, now_ns, declared_means=means_declared)
        reference = look(state.reference, windows, now_ns, normal_ohm=windows.resistance_ohm)
        seen = means.samples > 0
        high_a, low_a = np.where(seen, load.high_a, np.nan), np.where(seen, load.low_a, np.nan)
        swings = (high_a - low_a) > limits.swing_ratio * high_a
        plausible = load.lowest_v > LEAST_PLAUSIBLE_RATIO * state.rails.nominal_v
        lowest_v = np.where(plausible, load.lowest_v, np.nan)
        dips = state.dips.after(reference, stepped=seen & swings, high_a=high_a, low_a=low_a, lowest_v=lowest_v)
        ratio = reference.ratio()
        sound = ~(ratio > limits.flat_ratio)
        below = _below_line_v(reference, means) > _BELOW_LINE * state.rails.nominal_v
        known = np.isfinite(reference.ohm)
        overdrawn = state.carried.overdrawn(means, seen & (below | ~sound), state.buses.groups, known=known)
        low = (load.lowest_v < scale * limits.minimum_v) & plausible
        mean_w = means.mean_a * means.mean_v
        # A joint explains a steep fall of the voltage, no watts.
        far = mean_w > _FAR_OVER * load.rated_w
        heavy = far | (~swings & (mean_w > load.rated_w))
        peaks = load.peak_w > limits.step_ratio * load.rated_w
        # More current than the rail ever bore well: a path that was weak from its first day is not overloaded.
        # A load of constant power draws more from a rail that fell.
        fell = np.fmax(scale * limits.minimum_v / lowest_v, 1.0)
        at_limit = overdrawn & (below | low)
        low &= high_a > _MORE_THAN_EVER * fell * load.well_a
        stepped = seen & sound & swings & ~heavy & (peaks | low)
        stayed = seen & (far | at_limit | (sound & (heavy | (low & ~swings))))
        empty = filled(LoadExtremes, len(seen))
        load = replace(
            load,
            high_a=empty.high_a,
            low_a=empty.low_a,
            peak_w=empty.peak_w,
            lowest_v=empty.lowest_v,
            block_high_a=high_a,
            block_low_a=low_a,
            block_peak_w=np.where(seen, load.peak_w, np.nan),
            block_lowest_v=np.where(seen, load.lowest_v, np.nan),
            well_a=np.fmax(load.well_a, np.where(load.lowest_v > scale * limits.clear_above_v, high_a, np.nan)),
            steps=np.where(seen, np.where(stepped, load.steps + 1, 0.0), load.steps),
            plateaus=np.where(seen, np.where(stayed, load.plateaus + 1, 0.0), load.plateaus),
        )
        carried = state.carried.after_block(means, np.isfinite(windows.resistance_ohm), ratio)
        return replace(state, blocks=blocks, means=means, reference=reference, carried=carried, dips=dips, load=load)

    def _judge(
        self, state: SupplyHeadroomState, now_ns: int, *, full: bool
    ) -> tuple[SupplyHeadroomState, Changes, Changes]:
        limits, load = self.limits, state.load
        passed_ns = 0 if state.judged_ns is None or not full else now_ns - state.judged_ns
        passed_ns = min(max(passed_ns, 0), LONGEST_STEP_NS)
        tripping = load.trips >= _TRIP_ROWS
        over = tripping | (load.plateaus >= limits.windows)
        under = (load.plateaus == 0) & ~tripping if full else np.zeros_like(over)
        overload, changed = self._move(state.overload, now_ns, passed_ns, over=over, under=under)
        state = replace(state, overload=overload)
        if not full:
            return state, NO_CHANGES, changed
        stepping, stepped = self._move(
            state.stepping, now_ns, passed_ns, over=load.steps >= limits.windows, under=load.steps == 0
        )
        return replace(state, judged_ns=now_ns, stepping=stepping), stepped, changed

    def _move(
        self, conditions: Conditions, now_ns: int, passed_ns: int, *, over: MaskArray, under: MaskArray
    ) -> tuple[Conditions, Changes]:
        return judge(
            conditions,
            now_ns=now_ns,
            elapsed_ns=passed_ns,
            over=over,
            under=under,
            seen=over | under,
            holds=Holds.of_seconds(set_s=0.0, clear_s=self.limits.clear_after_s),
        )

    def _findings(
        self,
        state: SupplyHeadroomState,
        cause: Cause,
        changes: Changes,
        now_ns: int,
        entities: tuple[Entity, ...],
    ) -> tuple[Finding, ...]:
        if not changes.some:
            return ()
        stepping = cause is Cause.SYNCHRONOUS_OVERLOAD

        def describe(index: int, status: FindingStatus) -> Statement:
            return _describe(state, self.limits, entities[index].label, index, status, stepping=stepping)

        # Findings of two causes on one supply may begin at one moment, and must not share an id.
        name = self.name if stepping else f"{self.name}.{cause.value}"
        conditions = state.stepping if stepping else state.overload
        return findings_from(name, cause, entities, conditions, changes, now_ns=now_ns, describe=describe)


def _below_line_v(reference: Reference, means: BlockMeans) -> FloatArray:
    """Return by how much the voltage lies below what the reference of the path makes of the current; NaN unknown."""
    return np.asarray(reference.open_v - reference.ohm * means.mean_a - means.mean_v, dtype=np.float64)


def _extremes(load: LoadExtremes, rows: PairRows, lowest_v: FloatArray) -> LoadExtremes:
    amps = np.where(rows.used, rows.current_a, np.nan)
    return replace(
        load,
        high_a=np.fmax(load.high_a, np.fmax.reduce(amps, axis=0)),
        low_a=np.fmin(load.low_a, np.fmin.reduce(amps, axis=0)),
        peak_w=np.fmax(load.peak_w, np.fmax.reduce(amps * rows.voltage_v, axis=0)),
        lowest_v=np.fmin(load.lowest_v, np.fmin.reduce(np.where(rows.used, lowest_v, np.nan), axis=0)),
    )


def _describe(
    state: SupplyHeadroomState,
    limits: SupplyHeadroomLimits,
    name: str,
    index: int,
    status: FindingStatus,
    *,
    stepping: bool,
) -> Statement:
    load, reference = state.load, state.reference
    shown_w = np.fmax(load.block_peak_w, np.where(np.isfinite(load.peak_w), load.peak_w, np.nan))
    shown_v = np.fmin(load.block_lowest_v, np.where(np.isfinite(load.lowest_v), load.lowest_v, np.nan))
    peak_w, rated_w, lowest_v = float(shown_w[index]), float(load.rated_w[index]), float(shown_v[index])
    high_a, low_a = float(load.block_high_a[index]), float(load.block_low_a[index])
    limit_v = float(state.rails.scale[index]) * limits.minimum_v  # NaN for a rail without one
    ratio, worst_v = float(reference.ratio()[index]), _worst(state, index, high_a=high_a, low_a=low_a, limit_v=limit_v)
    below_v = float(_below_line_v(reference, state.means)[index])
    if below_v > _BELOW_LINE * float(state.rails.nominal_v[index]):
        path = f"{volts(below_v)} below usual"
    else:
        path = f"path {multiple(ratio)} baseline" if np.isfinite(ratio) else "path not known yet"
    rating = f"rated {rated_w:.0f} W" if np.isfinite(rated_w) else "rating unknown"
    if status is FindingStatus.CLEARED:
        summary = f"{name} load normal again: peak {peak_w:.0f} W, lowest {volts(lowest_v)}"
    elif stepping:
        summary = (
            f"{name} load steps {low_a:.0f} to {high_a:.0f} A, peak {peak_w:.0f} W ({rating}), "
            f"down to {volts(lowest_v)}; {path}"
        )
    else:
        summary = f"{name} overloaded: {peak_w:.0f} W ({rating}), down to {volts(lowest_v)}; {path}"
    over = peak_w / rated_w - 1.0 if np.isfinite(rated_w) else 0.0
    return Statement(
        severity=Severity.WARNING if stepping else Severity.CRITICAL,
        score=max(over, (limit_v - lowest_v) / limit_v * 20.0, 0.1),
        summary=summary,
        evidence=evidence(
            ("peak_w", peak_w, "W"),
            ("rated_w", rated_w, "W"),
            ("current_high_a", high_a, "A"),
            ("current_low_a", low_a, "A"),
            ("minimum_v", lowest_v, "V"),
            ("limit_v", limit_v, "V"),
            ("predicted_dip_v", worst_v, "V"),
            ("source_resistance_ohm", float(reference.now_ohm[index]), "ohm"),
            ("transient_impedance_ohm", float(state.dips.ohm[index]), "ohm"),
            ("rise_ratio", ratio, "ratio"),
        ),
    )


def _worst(state: SupplyHeadroomState, index: int, *, high_a: float, low_a: float, limit_v: float) -> float:
    """Return the worst dip after a step like those seen, at the cautious ends of the estimates; NaN where not known."""
    reference, measured_ohm = state.reference, float(state.dips.ohm[index])
    ohm, open_v = float(reference.now_ohm[index]), float(reference.now_v[index])
    if not np.isfinite(ohm + open_v + high_a + low_a):
        return float("nan")
    off_ohm = ohm - float(reference.now_low_ohm[index])
    path = PathBounds(
        open_v=open_v,
        open_low_v=open_v - off_ohm * low_a,
        resistance_ohm=ohm,
        resistance_high_ohm=ohm + off_ohm,
        # A sensor too slow for dips shows none, so what supplies do is the least.
        transient_ohm=float(np.fmax(measured_ohm, TRANSIENT_OHM * times_measured(open_v) ** 2)),
    )
    return predict_dip(path, full_a=high_a, low_a=low_a, limit_v=limit_v).step_low_v
