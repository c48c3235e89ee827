"""Voltage lost between the outputs of the supplies and the board that they feed, against its own past.

A supply that reports its output does not show the joints behind it, and where all of them age alike no share of the
bus moves. The board's controller measures the rail at the other end: ``V_out - V_board = offset + R I``. Offset and
gain of the meters are constants, so the line over the load is learnt per node and frozen; the level of the drop is
trusted to some steps of the meters, and what rises above that is resistance between the supplies and the board.

All voltages are shares of the nominal one, so that a bus of 48 V is judged as one of 54 V. A controller goes round its
sensors every one to ten seconds and shows a reading until the next: evidence must outlast two such rounds.
"""

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from analytics.supply.usual_share import CAUTION_SD, HEAVY_RATIO, LEARN_BLOCKS, LIGHT_RATIO, LoadLine
from physics.constants import MAD_TO_SD
from telemetry.frames import FloatArray, FromZero, MaskArray, filled, reset_where

# heuristic: three readings a second apart. The eight blocks of a baseline, or of a judgement, hold three readings of a
# controller that takes ten seconds for a round, and five of them more than one.
BLOCK_S = 3
RECENT_BLOCKS = 8
LEAST_BLOCKS = 5
# heuristic: a byte of an IPMI sensor over 63.75 V has steps of 0.25 V, 0.13 V on average from the reading at most; the
# mean of a block of held readings comes no nearer.
DROP_FLOOR = 0.0015
# heuristic: bus bars, blades and joints of simulated sound nodes drop 0.3 to 0.7 per cent at their usual load, so its
# double takes half a per cent more.
DROP_SLOPE_SD = 0.005
# heuristic: three standard deviations of a block, as for the share of a bus.
_SURE_SD = 3.0
# heuristic: blocks nearer to the line than half of what counts as a rise may teach it.
_CALM_RATIO = 0.5
# heuristic: a block scatters by at most a step of the coarsest meter; more is a drop that rose while it was learnt.
_MOST_NOISE = 0.005
# No meter of a rail is coarser than a byte over some 1.2 times its nominal voltage (IPMI 2.0, 35.14).
_COARSEST_STEP = 0.005


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BoardBlock:
    """Means of a block, shape ``(n_nodes,)``; NaN where nothing was read.

    `drop` is the voltage lost on the way to the board over the nominal one, `load_a` the mean current of a supply,
    `total_a` that of all.
    """

    drop: FloatArray
    load_a: FloatArray
    total_a: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OpenBoardBlock:
    """Sums of the block that is open, shape ``(n_nodes,)``."""

    readings: FromZero
    drop: FromZero
    load_a: FromZero
    total_a: FromZero

    def add(self, drop: FloatArray, load_a: FloatArray, total_a: FloatArray) -> "OpenBoardBlock":
        """Add a reading; one without drop or load does not count."""
        known = np.isfinite(drop) & np.isfinite(load_a) & np.isfinite(total_a)
        return OpenBoardBlock(
            readings=self.readings + known,
            drop=self.drop + np.where(known, drop, 0.0),
            load_a=self.load_a + np.where(known, load_a, 0.0),
            total_a=self.total_a + np.where(known, total_a, 0.0),
        )

    def means(self) -> BoardBlock:
        """Return the means."""
        count = np.where(self.readings > 0, self.readings, np.nan)
        return BoardBlock(drop=self.drop / count, load_a=self.load_a / count, total_a=self.total_a / count)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class UsualDrop:
    """Baseline of each node, shape ``(n_nodes,)``: the drop as a line over the load, and the load of its level.

    `first_a` are the loads of the first blocks.
    """

    line: LoadLine
    first_a: Annotated[FloatArray, np.nan, LEARN_BLOCKS]
    load_a: FloatArray

    @property
    def known(self) -> MaskArray:
        """Return a mask of nodes with a complete baseline."""
        return np.isfinite(self.load_a)

    @property
    def learnt_blocks(self) -> FloatArray:
        """Return the number of first blocks that are known."""
        return np.asarray(np.isfinite(self.first_a).sum(axis=1), dtype=np.float64)

    def forget(self, where: MaskArray) -> "UsualDrop":
        """Reset the baseline of some nodes."""
        return reset_where(self, filled(UsualDrop, len(where)), where) if where.any() else self

    def learn(self, where: MaskArray, block: BoardBlock) -> "UsualDrop":
        """Add a block to the baselines that are not complete; another load begins them again."""
        where = where & ~self.known
        if not where.any():
            return self
        place, ratio = self.learnt_blocks, block.load_a / self.first_a[:, 0]
        place = np.where((place > 0) & ~((ratio > LIGHT_RATIO) & (ratio < HEAVY_RATIO)), 0.0, place)
        rows = np.flatnonzero(where)
        at = place[rows].astype(np.intp)
        first_a, usual_a = self.first_a.copy(), self.load_a.copy()
        first_a[rows[at == 0]] = np.nan
        first_a[rows, at] = block.load_a[rows]
        done = rows[at == LEARN_BLOCKS - 1]
        usual_a[done] = np.median(first_a[done], axis=1)
        line = self.line.begun(where, place, block.drop, np.full(len(where), DROP_SLOPE_SD))
        variance = line.variance.copy()
        variance[done] = _scatter(line.first[done]) ** 2
        return UsualDrop(line=replace(line, variance=variance), first_a=first_a, load_a=usual_a)


def _scatter(values: FloatArray) -> FloatArray:
    """Return the standard deviation of values of shape ``(n, n_blocks)`` from one block to the next.

    A drop that rises while it is learnt is a fault that begins, and widens nothing.
    """
    return np.asarray(MAD_TO_SD * np.median(np.abs(np.diff(values, axis=1)), axis=1) / np.sqrt(2.0), dtype=np.float64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DropTest:
    """Test of each node, shape ``(n_nodes,)``.

    `recent` holds how far the newest judged blocks lie over the line, `least` is what counts as a rise. `over` and
    `under` mark the newest block as one that rose, and as usual again at the load it has; both are False where it was
    not judged. The others are of the newest judged block, `usual` is the drop that the line expects there.
    """

    recent: Annotated[FloatArray, np.nan, RECENT_BLOCKS]
    least: FloatArray
    over: MaskArray
    under: MaskArray
    drop: FloatArray
    usual: FloatArray
    total_a: FloatArray

    @property
    def risen(self) -> MaskArray:
        """Return a mask of nodes most of whose recent blocks rose, the newest too."""
        blocks = np.where(self.recent > self.least[:, np.newaxis], 1, 0).sum(axis=1)
        return np.asarray(self.over & (blocks >= LEAST_BLOCKS), dtype=np.bool_)

    def rise(self) -> FloatArray:
        """Return the median of the recent blocks that rose, NaN where none did."""
        rose = np.where(self.recent > self.least[:, np.newaxis], self.recent, np.nan)
        known = np.isfinite(rose).any(axis=1)
        rose[~known] = 0.0
        return np.where(known, np.nanmedian(rose, axis=1), np.nan)

    def forget(self, where: MaskArray) -> "DropTest":
        """Reset the test of some nodes."""
        return reset_where(self, filled(DropTest, len(where)), where) if where.any() else self


def meter_step(smallest_move: FloatArray) -> FloatArray:
    """Return the step of a meter over the nominal voltage, from its smallest move; NaN before it moved."""
    return np.asarray(np.fmin(smallest_move, _COARSEST_STEP), dtype=np.float64)


@dataclass(frozen=True, slots=True, kw_only=True)
class RiseGate:
    """What counts as a rise of the drop: steps of the board's meter, and a share of the nominal voltage."""

    steps: float
    ratio: float
    clear_ratio: float

    def least(self, step: FloatArray, usual: UsualDrop) -> FloatArray:
        """Return the least rise; `step` is that of the meter over the nominal voltage, NaN before it moved."""
        noise = np.fmin(usual.line.noise(DROP_FLOOR), _MOST_NOISE)
        least = np.maximum(np.maximum(self.steps * meter_step(step), self.ratio), _SURE_SD * noise)
        return np.asarray(least, dtype=np.float64)


def take_block(
    usual: UsualDrop, test: DropTest, block: BoardBlock, *, step: FloatArray, active: MaskArray, gate: RiseGate
) -> tuple[UsualDrop, DropTest]:
    """Judge one block and learn from it; nothing is learnt or forgotten on a node with an `active` finding."""
    seen = np.isfinite(block.drop)
    judged = usual.known & seen & (block.load_a >= LIGHT_RATIO * usual.load_a)
    load_ratio = np.where(judged, block.load_a / usual.load_a, 1.0)
    by_load = load_ratio - 1.0
    off, doubt = usual.line.off(block.drop, by_load), usual.line.doubt(by_load)
    least = gate.least(step, usual)
    sure = np.where(judged, np.where(off > 0.0, np.maximum(off - CAUTION_SD * doubt, 0.0), off), np.nan)
    shifted = np.concatenate((test.recent[:, 1:], sure[:, np.newaxis]), axis=1)
    # A resistance that rose shows less at less current.
    at_usual = off / np.minimum(load_ratio, 1.0)
    test = DropTest(
        recent=np.where(judged[:, np.newaxis], shifted, test.recent),
        least=least,
        over=judged & (sure > least),
        under=judged & (at_usual < gate.clear_ratio * least),
        drop=np.where(judged, block.drop, test.drop),
        usual=np.where(judged, block.drop - off, test.usual),
        total_a=np.where(judged, block.total_a, test.total_a),
    )
    calm = judged & ~active & (sure < _CALM_RATIO * least)
    usual = replace(usual, line=usual.line.taught_by_levels(calm, block.drop, by_load, DROP_FLOOR))
    usual = usual.learn(seen, block)
    outgrown = calm & (block.load_a > HEAVY_RATIO * usual.load_a)
    return usual.forget(outgrown), test.forget(outgrown)
