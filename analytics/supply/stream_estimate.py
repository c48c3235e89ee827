"""Source resistance from a stream, window by window, for all supplies at once.

Rows are summed into blocks of some seconds; blocks are pooled, each about its own means, until a window has enough
independent samples. The rows of a stretch are summed at once, the judgement is made once a block. The gates are those
of a logged series: enough samples, a load that moves, a voltage that follows and does not fit better one row earlier or
later, and a scatter that is small against the answer.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Protocol

import numpy as np

from analytics.supply.pair_rows import PairRows, values_before
from analytics.supply.window_fit import (
    AA,
    AV,
    COLUMNS,
    DA,
    DAA,
    DAV,
    DV,
    DVV,
    HELD,
    TURN,
    VV,
    A,
    N,
    ResistanceWindows,
    V,
    fit_windows,
)
from physics.thevenin import INDEPENDENT_AFTER_S, MIN_SAMPLES
from telemetry.clock import NS_PER_S
from telemetry.frames import FloatArray, FromZero, MaskArray

# heuristic: two training steps of about a second, and enough rows to estimate their scatter.
BLOCK_S = 2.0
BLOCK_ROWS = 32
# heuristic: a day is the longest over which the open-circuit voltage counts as the same within 10 mV.
LONGEST_BLOCK_S = 86_400.0
# heuristic: blocks pooled for longer than two days belong to another time.
LONGEST_WINDOW_S = 2 * 86_400.0

# heuristic: of a longer silence it is unknown what happened meanwhile: no more than this counts as time passed.
LONGEST_STEP_NS = 60 * NS_PER_S

# Rows of many supplies are summed in parts of this many cells, some megabytes.
_MOST_CELLS = 32_768

# A double keeps 16 digits; a few are lost over the sums of a block.
_ROUNDING = 1e-11


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Blocks:
    """State between rows; the first axis of each array is the supply.

    `zero_a` and `zero_v` are each supply's first values, from which everything is summed. `sums` are those of the
    block that is open, `pooled` those of the closed blocks of a window about their own means, `pooled_a` and `pooled_v`
    its plain sums. `last_a`, `last_v` are each supply's sample before. `max_a` is the largest current ever.
    """

    start_ns: int | None
    rows: int
    zero_a: FloatArray
    zero_v: FloatArray
    last_a: FloatArray
    last_v: FloatArray
    max_a: FromZero
    sums: Annotated[FloatArray, 0.0, COLUMNS]
    pooled: Annotated[FloatArray, 0.0, COLUMNS]
    pooled_s: FromZero
    independent: FromZero


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BlockMeans:
    """Means of one block, shape ``(n_supplies,)``; NaN for a supply without a sample."""

    seconds: float
    samples: FromZero
    mean_a: FloatArray
    mean_v: FloatArray
    spread_a: FloatArray
    spread_v: FloatArray


class OpenBlock(Protocol):
    """Block of rows that is open: its first time, None before the first row, its rows, and a value per supply."""

    @property
    def start_ns(self) -> int | None: ...  # noqa: D102 -- above
    @property
    def rows(self) -> int: ...  # noqa: D102 -- above
    @property
    def zero_a(self) -> FloatArray: ...  # noqa: D102 -- above


def stretch_end(
    blocks: OpenBlock, last_ns: int | None, time_ns: Sequence[int], start: int, *, least_rows: int = BLOCK_ROWS
) -> int:
    """Return up to where the rows from `start` on belong to one block, which has `least_rows` at least.

    It ends after the row that fills the block, and before one that goes back in time; `last_ns` is the time of the row
    before.
    """
    begun_ns, rows = blocks.start_ns, blocks.rows
    if begun_ns is None or (last_ns is not None and time_ns[start] < last_ns):
        begun_ns, rows = time_ns[start], 0
    longest = max(_MOST_CELLS // max(len(blocks.zero_a), 1), 1)
    before_ns = time_ns[start]
    for at in range(start, min(start + longest, len(time_ns))):
        now_ns = time_ns[at]
        if now_ns < before_ns:
            return at
        if _is_over(rows + at - start + 1, now_ns - begun_ns, least_rows):
            return at + 1
        before_ns = now_ns
    return min(start + longest, len(time_ns))


def add_rows(blocks: Blocks, rows: PairRows) -> Blocks:
    """Add rows of one stretch, at least one. The sums are the same however the rows are cut."""
    used, zero_a, zero_v = rows.used, blocks.zero_a, blocks.zero_v
    if (unknown := np.isnan(zero_a)).any() and (first := unknown & used.any(axis=0)).any():
        at = used.argmax(axis=0), np.arange(len(first))
        zero_a, zero_v = np.where(first, rows.current_a[at], zero_a), np.where(first, rows.voltage_v[at], zero_v)
    x, y, current_a = rows.current_a - zero_a, rows.voltage_v - zero_v, rows.current_a
    if not used.all():
        x, y, current_a = np.where(used, x, 0.0), np.where(used, y, 0.0), np.where(used, current_a, np.nan)
    before_x, last_a = values_before(x, used, blocks.last_a)
    before_y, last_v = values_before(y, used, blocks.last_v)
    alone = ~used | np.isnan(before_x)
    if alone.any():
        before_x, before_y = np.where(alone, x, before_x), np.where(alone, y, before_y)
    step_x, step_y = x - before_x, y - before_y
    # One column at a time, each in one loop over all rows and supplies.
    sums = np.empty((len(rows) + 1, *blocks.sums.shape))
    sums[0], added = blocks.sums, sums[1:]
    added[:, :, N], added[:, :, A], added[:, :, V] = used, x, y
    added[:, :, DA], added[:, :, DV] = step_x, step_y
    np.multiply(x, x, out=added[:, :, AA])
    np.multiply(y, y, out=added[:, :, VV])
    np.multiply(x, y, out=added[:, :, AV])
    np.multiply(step_x, step_x, out=added[:, :, DAA])
    np.multiply(step_y, step_y, out=added[:, :, DVV])
    np.multiply(step_x, step_y, out=added[:, :, DAV])
    np.subtract(before_x * y, before_y * x, out=added[:, :, TURN])
    # As of a meter that reads its supplies in turn and is logged again before it has another value.
    added[:, :, HELD] = ~alone & (step_x == 0.0) & (step_y == 0.0)
    return replace(
        blocks,
        start_ns=rows.time_ns[0] if blocks.start_ns is None else blocks.start_ns,
        rows=blocks.rows + len(rows),
        zero_a=zero_a,
        zero_v=zero_v,
        last_a=last_a,
        last_v=last_v,
        max_a=np.fmax(blocks.max_a, np.fmax.reduce(current_a, axis=0)),
        # Row by row, as a reduction over the first of several axes goes: a sum in another order is rounded otherwise.
        sums=np.add.reduce(sums, axis=0),
    )


def is_full(blocks: OpenBlock, now_ns: int, *, least_rows: int = BLOCK_ROWS) -> bool:
    """Return True if the open block ends at this row."""
    if blocks.start_ns is None:
        return False
    return _is_over(blocks.rows, now_ns - blocks.start_ns, least_rows)


def _is_over(rows: int, passed_ns: int, least_rows: int) -> bool:
    passed_s = passed_ns / NS_PER_S
    return passed_s >= LONGEST_BLOCK_S or (rows >= least_rows and passed_s >= BLOCK_S)


def restart(blocks: Blocks) -> Blocks:
    """Drop the open block, as when the clock was set back; pooled sums stay."""
    unknown = np.full(len(blocks.zero_a), np.nan)
    return replace(blocks, start_ns=None, rows=0, last_a=unknown, last_v=unknown, sums=np.zeros_like(blocks.sums))


def close(
    blocks: Blocks, now_ns: int, *, declared_means: MaskArray | None = None
) -> tuple[Blocks, BlockMeans, ResistanceWindows]:
    """Close the open block; return its means and the windows that it completes.

    `declared_means` marks supplies whose source declares its readings to be means.
    """
    start_ns = now_ns if blocks.start_ns is None else blocks.start_ns
    seconds = max((now_ns - start_ns) / NS_PER_S, 0.0)
    about = _about_means(blocks.sums)
    samples = blocks.sums[:, N]
    divisor = np.where(samples > 0, samples, np.nan)
    means = BlockMeans(
        seconds=seconds,
        samples=samples,
        mean_a=blocks.zero_a + blocks.sums[:, A] / divisor,
        mean_v=blocks.zero_v + blocks.sums[:, V] / divisor,
        spread_a=np.sqrt(about[:, AA] / divisor),
        spread_v=np.sqrt(about[:, VV] / divisor),
    )
    steps = np.maximum(samples, 1.0)
    alone = np.minimum(seconds / steps / INDEPENDENT_AFTER_S, 1.0)
    pooled = blocks.pooled + about
    pooled_s = np.where(samples > 0, blocks.pooled_s + seconds, blocks.pooled_s)
    independent = blocks.independent + samples * alone
    complete = (samples > 0) & (independent >= MIN_SAMPLES)
    rows = np.where(complete, pooled[:, N], np.nan)
    windows = fit_windows(
        pooled,
        complete,
        mean_a=blocks.zero_a + pooled[:, A] / rows,
        mean_v=blocks.zero_v + pooled[:, V] / rows,
        max_a=blocks.max_a,
        period_s=pooled_s / rows,
        means=np.zeros(len(complete), dtype=np.bool_) if declared_means is None else declared_means,
    )
    # Over a gap of hours, rows do not show how often the load moved.
    gap = pooled_s * NS_PER_S > LONGEST_STEP_NS * np.maximum(pooled[:, N], 1.0)
    windows = replace(windows, load_hz=np.where(gap, np.nan, windows.load_hz))
    done = complete | (pooled_s > LONGEST_WINDOW_S)
    after = replace(
        restart(blocks),
        pooled=np.where(done[:, np.newaxis], 0.0, pooled),
        pooled_s=np.where(done, 0.0, pooled_s),
        independent=np.where(done, 0.0, independent),
    )
    return after, means, windows


def _about_means(sums: FloatArray) -> FloatArray:
    """Return the sums of a block about its means; counts and plain sums stay."""
    count = np.maximum(sums[:, N], 1.0)
    x, y = sums[:, A] / count, sums[:, V] / count
    about = sums.copy()
    about[:, AA] = unless_rounding(sums[:, AA] - count * x * x, sums[:, AA])
    about[:, AV] = sums[:, AV] - count * x * y
    about[:, VV] = unless_rounding(sums[:, VV] - count * y * y, sums[:, VV])
    about[:, TURN] = sums[:, TURN] + y * sums[:, DA] - x * sums[:, DV]
    return about


def unless_rounding(spread: FloatArray, squares: FloatArray) -> FloatArray:
    """Return a spread, 0 where it is only the rounding error of a constant value."""
    return np.where(spread > _ROUNDING * squares, spread, 0.0)
