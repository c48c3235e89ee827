"""Rails of a board with several buses of 48 or 54 V, as its controller measures each of them.

Each is judged as the rail of a board with one bus is by `board_rail`: the drop against the outputs and currents of the
supplies of its bus alone, a sag by its own reading. The finding is on the rail, which feeds the GPUs of its bus. A rail
of which nothing names the bus is judged by its own reading only.
"""

from dataclasses import dataclass, replace

import numpy as np

from analytics.connectivity.bus_rails import BusRails, bus_label
from analytics.detectors.board_rail import OUTPUT_RATIO, BoardRail, BoardRailState, BoardRow
from analytics.detectors.columns import optional
from analytics.detectors.joined_columns import JoinedColumn
from telemetry.clock import NS_PER_S
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.frames import Frame
from telemetry.records import Finding

_METERS = ("voltage_v", "current_a"), ("output_voltage_v", "output_current_a")


@dataclass(frozen=True, slots=True, kw_only=True)
class BusRail(BoardRail):
    """Raises `Cause.JOINT_AGEING` and `Cause.SUPPLY_SAG` on rails of the board; see `BoardRailLimits`."""

    name: str = "bus_rail"
    kind: EntityKind = EntityKind.SUPPLY
    joined_columns: tuple[JoinedColumn, ...] = ()

    def step(
        self, state: BoardRailState, frame: Frame, topology: Topology
    ) -> tuple[BoardRailState, tuple[Finding, ...]]:
        """Judge the first row of each second; the others of a second repeat its reading."""
        entities = frame.spec.entities
        rails = BusRails.of(entities, topology)
        if not rails.places:
            return state, ()
        state = replace(state, buses=rails.buses)
        findings: list[Finding] = []
        before_s = -1 if state.last_ns is None else state.last_ns // NS_PER_S
        for place in np.flatnonzero(np.diff(frame.time_ns // NS_PER_S, prepend=before_s)).tolist():
            state, found = self._judged(state, _row(rails, frame, place), int(frame.time_ns[place]), entities)
            findings.extend(found)
        return state, tuple(findings)

    def _label(self, entity: Entity) -> str:
        return bus_label(entity)


def _row(rails: BusRails, frame: Frame, place: int) -> BoardRow:
    """Return the readings of the rails in a row, and of the supplies of their buses that are on."""
    board_v = optional(frame, "rail_voltage_v")[place]
    output_v, mean_a, total_a = np.full((3, len(rails.places)), np.nan)
    for voltage, current in _METERS:
        outputs_v, outputs_a = (optional(frame, name)[place] for name in (voltage, current))
        is_on = (np.abs(outputs_v / rails.nominal_v - 1.0) < OUTPUT_RATIO) & np.isfinite(outputs_a)
        count = rails.sums(np.ones(len(is_on)), is_on)
        sum_v, sum_a = rails.sums(outputs_v, is_on), rails.sums(outputs_a, is_on)
        counted = np.where(count > 0, count, np.nan)
        missing = np.isnan(output_v)
        output_v = np.where(missing, sum_v / counted, output_v)
        mean_a = np.where(missing, sum_a / counted, mean_a)
        total_a = np.where(missing & (count > 0), sum_a, total_a)
    return BoardRow(
        board_v=np.where(rails.buses.single, board_v, np.nan),
        output_v=rails.spread(output_v),
        mean_a=rails.spread(mean_a),
        total_a=rails.spread(total_a),
    )
