"""Share of current: an ageing joint behind a supply's own meter, which the supply's own voltage and current hide.

Supplies of 48 and 54 V report over PMBus at their own output terminals, so what lies between there and the bus is no
part of their source resistance. See `analytics.supply.current_share` for the evidence, and for what keeps it quiet.
"""

from dataclasses import dataclass, replace

import numpy as np

from analytics.connectivity.buses import Buses
from analytics.detectors.columns import optional
from analytics.detectors.condition import NO_CHANGES, Changes, Conditions
from analytics.detectors.current_share_summary import describe_share
from analytics.detectors.joined_columns import JoinedColumn, Relation
from analytics.detectors.statements import findings_from
from analytics.detectors.streaks import Streaks, settled
from analytics.detectors.supply_limits import CurrentShareLimits
from analytics.supply.current_share import BusBlock, ShareTest, take_block
from analytics.supply.pair_rows import PAIR, PairRows
from analytics.supply.share_block import SHARE_ROWS, ShareBlock
from analytics.supply.stream_estimate import is_full, stretch_end
from analytics.supply.usual_share import UsualShare
from telemetry.entities import EntityKind, Topology
from telemetry.frames import Frame, MaskArray, TableSpec, filled
from telemetry.records import Cause, Finding

# A share that fell by another tenth is reported again.
_WORSE_BY = 0.1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CurrentShareState:
    """State between rows."""

    last_ns: int | None
    buses: Buses
    block: ShareBlock
    usual: UsualShare
    test: ShareTest
    streaks: Streaks
    ageing: Conditions


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentShare:
    """Raises `Cause.JOINT_AGEING` on a supply whose share of its bus fell; see `CurrentShareLimits`."""

    limits: CurrentShareLimits
    name: str = "current_share"
    kind: EntityKind = EntityKind.SUPPLY
    signals: tuple[str, ...] = PAIR
    joined_columns: tuple[JoinedColumn, ...] = (
        JoinedColumn(kind=EntityKind.GPU, signal="power_w", how=Relation.SUM_BELOW, column="gpus_w"),
    )

    def start(self, spec: TableSpec) -> CurrentShareState:
        """Return the state before the first row."""
        return filled(CurrentShareState, len(spec.entities))

    def accept(self, state: CurrentShareState, accepted: MaskArray) -> CurrentShareState:
        """Reset the baseline of the accepted supplies."""
        return replace(state, usual=state.usual.forget(accepted), test=state.test.forget(accepted))

    def step(
        self, state: CurrentShareState, frame: Frame, topology: Topology
    ) -> tuple[CurrentShareState, tuple[Finding, ...]]:
        """Judge the rows of a frame: rows are summed, the judgement is made once a block."""
        state = replace(state, buses=state.buses.under(topology, frame.spec.entities))
        rows, start, gpus_w = PairRows.of(frame), 0, optional(frame, "gpus_w")
        findings: list[Finding] = []
        while start < len(rows):
            stop = stretch_end(state.block, state.last_ns, rows.time_ns, start, least_rows=SHARE_ROWS)
            part, back = rows.part(start, stop), state.last_ns is not None and rows.time_ns[start] < state.last_ns
            start, now_ns = stop, part.time_ns[-1]
            block = (state.block.restart() if back else state.block).add(part, state.buses.groups, gpus_w[part.places])
            state = replace(state, last_ns=now_ns, block=block)
            if is_full(block, now_ns, least_rows=SHARE_ROWS):
                state, changes = self._block(state, now_ns)
                findings.extend(self._findings(state, changes, now_ns, spec=frame.spec))
        return state, tuple(findings)

    def _block(self, state: CurrentShareState, now_ns: int) -> tuple[CurrentShareState, Changes]:
        limits, groups = self.limits, state.buses.groups
        block, hangs = BusBlock.of(state.block.means(groups), groups), state.block.voltage_hangs(groups)
        state = replace(state, block=state.block.restart(state.block.complete(groups)))
        if not block.ready.any():
            return state, NO_CHANGES
        usual, test = take_block(state.usual, state.test, block, now_ns, active=state.ageing.active, groups=groups)
        over = test.fallen(usual, groups, now_ns, step_v=state.block.step_v, hangs=hangs, low_ratio=limits.low_ratio)
        under = test.usual_again(clear_ratio=limits.clear_ratio)
        streaks = state.streaks.after(over=over, under=under & ~over, now_ns=now_ns)
        ageing, changes = settled(
            state.ageing,
            now_ns,
            over=over,
            under=streaks.against >= limits.clear_blocks,
            since_ns=test.since_ns,
            badness=-test.fall / _WORSE_BY,
        )
        cleared = np.zeros(len(over), dtype=np.bool_)
        cleared[changes.cleared] = True
        return replace(state, usual=usual, test=test.cleared(cleared), streaks=streaks, ageing=ageing), changes

    def _findings(
        self, state: CurrentShareState, changes: Changes, now_ns: int, *, spec: TableSpec
    ) -> tuple[Finding, ...]:
        if not changes.some:
            return ()
        describe = describe_share(state.usual, state.test, spec.entities)
        return findings_from(
            self.name, Cause.JOINT_AGEING, spec.entities, state.ageing, changes, now_ns=now_ns, describe=describe
        )
