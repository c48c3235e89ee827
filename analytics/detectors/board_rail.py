"""Rail of the board behind supplies of 48 and 54 V, as the board's controller measures it.

Supplies that report at their own outputs show neither what lies behind their meters nor the voltage of the board.
Where all joints of a bus age alike, the shares of the supplies stay equal too: only the controller's reading falls.
It comes every one to ten seconds in coarse steps. See `analytics.supply.board_drop` for the drop on the way to the
board; a sag is a reading below what boards of the rail's class are specified for.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from analytics.connectivity.board_bus import BoardBuses
from analytics.detectors.board_rail_summary import describe_drop, describe_sag
from analytics.detectors.coarse_rail import CoarseRail, RailLimits
from analytics.detectors.columns import optional
from analytics.detectors.condition import NO_CHANGES, Changes, Conditions
from analytics.detectors.joined_columns import JoinedColumn, Relation
from analytics.detectors.statements import Describe, findings_from
from analytics.detectors.streaks import Streaks, settled
from analytics.detectors.supply_limits import BoardRailLimits
from analytics.supply.board_drop import BLOCK_S, DropTest, OpenBoardBlock, RiseGate, UsualDrop, take_block
from analytics.supply.branches import MIN_USUAL_A
from analytics.supply.rail_levels import RailLevels
from physics.rail_classes import MAIN_BUSES_V, limit_scale, times_measured
from telemetry.clock import NS_PER_S
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.frames import FloatArray, Frame, MaskArray, TableSpec, filled
from telemetry.records import Cause, Finding

_MAIN_V = np.array(sorted(MAIN_BUSES_V))
_MAIN_SCALES = np.array([limit_scale(one) for one in _MAIN_V.tolist()])
# heuristic: outputs of supplies on a bus lie within a tenth of its nominal voltage; others are of another rail.
OUTPUT_RATIO = 0.1
# A rise that grew by half of what counts as one is reported again.
_WORSE_BY = 0.5


def _below(signal: str, column: str, how: Relation = Relation.MEAN_BELOW, *, any_rail: bool = False) -> JoinedColumn:
    rails_v = frozenset[float]() if any_rail else MAIN_BUSES_V
    return JoinedColumn(kind=EntityKind.SUPPLY, signal=signal, how=how, column=column, rails_v=rails_v)


class BoardRow(NamedTuple):
    """Readings of one row, shape ``(n_rails,)``, or of several: the board's rail, and the outputs of its supplies."""

    board_v: FloatArray
    output_v: FloatArray
    mean_a: FloatArray
    total_a: FloatArray

    @staticmethod
    def of_nodes(frame: Frame) -> "BoardRow":
        """Return the rows of a frame; outputs that only the controller measures count where no meter has them."""
        bus_v, output_v, behind_v = (optional(frame, name) for name in ("main_bus_voltage_v", "fast_v", "output_v"))
        fast = np.isfinite(output_v)
        return BoardRow(
            board_v=np.where(np.isfinite(bus_v), bus_v, optional(frame, "rail_voltage_v")),
            output_v=np.where(fast, output_v, behind_v),
            mean_a=np.where(fast, optional(frame, "fast_mean_a"), optional(frame, "mean_a")),
            total_a=np.where(fast, optional(frame, "fast_total_a"), optional(frame, "total_a")),
        )

    def row(self, place: int) -> "BoardRow":
        """Return one of several rows."""
        return BoardRow(*(column[place] for column in self))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BoardRailState:
    """State between rows."""

    last_ns: int | None
    buses: BoardBuses
    rails: RailLevels
    rail: CoarseRail
    block: OpenBoardBlock
    usual: UsualDrop
    test: DropTest
    rising: Streaks
    ageing: Conditions


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardRail:
    """Raises `Cause.JOINT_AGEING` and `Cause.SUPPLY_SAG` on nodes; see `BoardRailLimits`."""

    limits: BoardRailLimits
    name: str = "board_rail"
    kind: EntityKind = EntityKind.NODE
    signals: tuple[str, ...] = ("rail_voltage_v",)
    joined_columns: tuple[JoinedColumn, ...] = (
        _below("voltage_v", "fast_v"),
        _below("current_a", "fast_mean_a"),
        _below("current_a", "fast_total_a", Relation.SUM_BELOW),
        _below("output_voltage_v", "output_v", any_rail=True),
        _below("output_current_a", "mean_a", any_rail=True),
        _below("output_current_a", "total_a", Relation.SUM_BELOW, any_rail=True),
    )

    def start(self, spec: TableSpec) -> BoardRailState:
        """Return the state before the first row."""
        return filled(BoardRailState, len(spec.entities))

    def accept(self, state: BoardRailState, accepted: MaskArray) -> BoardRailState:
        """Reset the baseline of the accepted nodes."""
        return replace(state, usual=state.usual.forget(accepted), test=state.test.forget(accepted))

    def step(
        self, state: BoardRailState, frame: Frame, topology: Topology
    ) -> tuple[BoardRailState, tuple[Finding, ...]]:
        """Judge the first row of each second; the others of a second repeat its reading."""
        state = replace(state, buses=state.buses.under(topology, frame.spec.entities))
        rows, entities = BoardRow.of_nodes(frame), frame.spec.entities
        findings: list[Finding] = []
        for place, now_ns in enumerate(frame.time_ns.tolist()):
            if state.last_ns is not None and now_ns // NS_PER_S == state.last_ns // NS_PER_S:
                continue
            state, found = self._judged(state, rows.row(place), now_ns, entities)
            findings.extend(found)
        return state, tuple(findings)

    def _judged(
        self, state: BoardRailState, row: BoardRow, now_ns: int, entities: tuple[Entity, ...]
    ) -> tuple[BoardRailState, tuple[Finding, ...]]:
        state, changes = self._reading(state, row, now_ns, entities)
        return state, self._findings(state, changes, now_ns, entities)

    def _label(self, entity: Entity) -> str:
        return entity.label

    def _reading(
        self, state: BoardRailState, row: BoardRow, now_ns: int, entities: tuple[Entity, ...]
    ) -> tuple[BoardRailState, Mapping[Cause, Changes]]:
        second, before = now_ns // NS_PER_S, now_ns if state.last_ns is None else state.last_ns
        ageing = NO_CHANGES
        if now_ns < before:
            state = replace(state, block=filled(OpenBoardBlock, len(entities)))
        elif second // BLOCK_S != before // NS_PER_S // BLOCK_S:
            state, ageing = self._block(state, before)
        rails = state.rails.after_row(entities, np.where(np.isnan(state.buses.nominal_v), row.board_v, np.nan))
        state = replace(state, last_ns=now_ns, rails=rails)
        nominal_v = _nominal_v(state)
        if not np.isfinite(nominal_v).any():
            return state, {}
        rail, board_v = state.rail.read(row.board_v, nominal_v)
        rail, sag = rail.judged(board_v, self._levels(nominal_v), self.limits, now_ns)
        state = replace(state, rail=rail)
        near = np.abs(row.output_v / nominal_v - 1.0) < OUTPUT_RATIO
        loaded = near & (row.mean_a > MIN_USUAL_A / times_measured(nominal_v))
        drop = np.where(loaded, (row.output_v - board_v) / nominal_v, np.nan)
        state = replace(state, block=state.block.add(drop, row.mean_a, row.total_a))
        return state, {Cause.JOINT_AGEING: ageing, Cause.SUPPLY_SAG: sag}

    def _levels(self, nominal_v: FloatArray) -> RailLimits:
        return RailLimits.of(nominal_v, _limit_scale(nominal_v), self.limits)

    def _block(self, state: BoardRailState, now_ns: int) -> tuple[BoardRailState, Changes]:
        limits, block = self.limits, state.block.means()
        state = replace(state, block=filled(OpenBoardBlock, len(block.drop)))
        if not np.isfinite(block.drop).any():
            return state, NO_CHANGES
        usual, test = take_block(
            state.usual,
            state.test,
            block,
            step=state.rail.step_v / _nominal_v(state),
            active=state.ageing.active,
            gate=RiseGate(steps=limits.rise_steps, ratio=limits.rise_ratio, clear_ratio=limits.clear_ratio),
        )
        rising = state.rising.after(over=test.over, under=test.under, now_ns=now_ns)
        state = replace(state, usual=usual, test=test, rising=rising)
        if not state.ageing.busy and not test.over.any():
            return state, NO_CHANGES
        ageing, changes = settled(
            state.ageing,
            now_ns,
            over=test.risen,
            under=rising.against >= limits.clear_blocks,
            since_ns=rising.begun_ns(now_ns),
            badness=test.rise() / (_WORSE_BY * test.least),
        )
        return replace(state, ageing=ageing), changes

    def _findings(
        self, state: BoardRailState, found: Mapping[Cause, Changes], now_ns: int, entities: tuple[Entity, ...]
    ) -> tuple[Finding, ...]:
        findings: list[Finding] = []
        for cause, changes in found.items():
            if not changes.some:
                continue
            # Findings of two causes on one node may begin at one moment, and must not share an id.
            joints = cause is Cause.JOINT_AGEING
            findings += findings_from(
                self.name if joints else f"{self.name}.{cause.value}",
                cause,
                entities,
                state.ageing if joints else state.rail.sag,
                changes,
                now_ns=now_ns,
                describe=(self._joints if joints else self._sags)(state, entities, now_ns),
            )
        return tuple(findings)

    def _joints(self, state: BoardRailState, entities: tuple[Entity, ...], now_ns: int) -> Describe:
        del now_ns
        return describe_drop(state.test, _nominal_v(state), [self._label(one) for one in entities])

    def _sags(self, state: BoardRailState, entities: tuple[Entity, ...], now_ns: int) -> Describe:
        labels = [self._label(one) for one in entities]
        return describe_sag(state.rail, self._levels(_nominal_v(state)), self.limits, labels=labels, now_ns=now_ns)


def _nominal_v(state: BoardRailState) -> FloatArray:
    """Return the nominal voltage of each judged rail; NaN for one of another class, or of an unknown bus."""
    named = state.buses.nominal_v
    nominal_v = np.where(np.isnan(named), state.rails.nominal_v, named)
    return np.where(state.buses.single & np.isin(nominal_v, _MAIN_V), nominal_v, np.nan)


def _limit_scale(nominal_v: FloatArray) -> FloatArray:
    """Return the limits of rails over those at 12 V; NaN where the nominal voltage is."""
    place = np.searchsorted(_MAIN_V, nominal_v).clip(max=len(_MAIN_V) - 1)
    return np.where(np.isnan(nominal_v), np.nan, _MAIN_SCALES[place])
