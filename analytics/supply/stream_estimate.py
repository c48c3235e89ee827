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
from analytics.supply.time_skew import CLEARLY_BETTER, HARMLESS_RATIO
from physics.constants import MIN_CORRELATION, MIN_SPREAD_A, MIN_SPREAD_RATIO
from physics.rail_classes import times_measured
from physics.thevenin import INDEPENDENT_AFTER_S, MIN_SAMPLES
from telemetry.clock import NS_PER_S
from telemetry.frames import FloatArray, FromZero, MaskArray

# heuristic: two training steps of about a second, and enough rows to estimate their scatter.
BLOCK_S = 2.0
BLOCK_ROWS = 32
# heuristic: a day is the longest over which the open-circuit voltage counts as the same within 10 mV.
LONGEST_BLOCK_S = 86_400.0
# heuristic: worse than a tenth of the answer (one standard deviation) is no estimate.
MAX_SD_RATIO = 0.10
# heuristic: blocks pooled for longer than two days belong to another time.
LONGEST_WINDOW_S = 2 * 86_400.0

# heuristic: of a longer silence it is unknown what happened meanwhile: no more than this counts as time passed.
LONGEST_STEP_NS = 60 * NS_PER_S

# Rows of many supplies are summed in parts of this many cells, some megabytes.
_MOST_CELLS = 32_768

# A double keeps 16 digits; a few are lost over the sums of a block.
_ROUNDING = 1e-11

# Columns of the sums.
_N, _A, _V, _AA, _AV, _VV, _LATE, _EARLY, _PAIRS, _HELD = range(10)
_COLUMNS = 10


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
    sums: Annotated[FloatArray, 0.0, _COLUMNS]
    pooled: Annotated[FloatArray, 0.0, _COLUMNS]
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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ResistanceWindows:
    """The windows that a block completes, shape ``(n_supplies,)``.

    `complete` marks supplies with a complete window, `moved` those with enough load change, `skewed` those whose
    voltage fits the current one row away better. `spread_a` is the standard deviation of the current, `scatter_v` that
    of the voltage about the line. Resistance and voltage are NaN where not identified.
    """

    complete: MaskArray
    moved: MaskArray
    skewed: MaskArray
    correlation: FloatArray
    spread_a: FloatArray
    scatter_v: FloatArray
    resistance_ohm: FloatArray
    sd_ohm: FloatArray
    open_v: FloatArray


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
    used = rows.used
    zero_a, zero_v = blocks.zero_a, blocks.zero_v
    if (first := np.isnan(zero_a) & used.any(axis=0)).any():
        at = used.argmax(axis=0), np.arange(len(first))
        zero_a, zero_v = np.where(first, rows.current_a[at], zero_a), np.where(first, rows.voltage_v[at], zero_v)
    x, y = np.where(used, rows.current_a - zero_a, 0.0), np.where(used, rows.voltage_v - zero_v, 0.0)
    before_x, last_a = values_before(x, used, blocks.last_a)
    before_y, last_v = values_before(y, used, blocks.last_v)
    pair = used & ~np.isnan(before_x)
    sums = np.empty((len(rows) + 1, *blocks.sums.shape))
    sums[0], added = blocks.sums, sums[1:]
    added[:, :, _N], added[:, :, _A], added[:, :, _V] = used, x, y
    added[:, :, _AA], added[:, :, _AV], added[:, :, _VV] = x * x, x * y, y * y
    added[:, :, _LATE] = np.where(pair, before_x, 0.0) * y
    added[:, :, _EARLY] = np.where(pair, before_y, 0.0) * x
    added[:, :, _PAIRS] = pair
    # As of a meter that reads its supplies in turn and is logged again before it has another value.
    added[:, :, _HELD] = pair & (x == before_x) & (y == before_y)
    return replace(
        blocks,
        start_ns=rows.time_ns[0] if blocks.start_ns is None else blocks.start_ns,
        rows=blocks.rows + len(rows),
        zero_a=zero_a,
        zero_v=zero_v,
        last_a=last_a,
        last_v=last_v,
        max_a=np.fmax(blocks.max_a, np.fmax.reduce(np.where(used, rows.current_a, np.nan), axis=0)),
        # Row by row, as a sum in another order is rounded otherwise.
        sums=np.add.accumulate(sums, axis=0)[-1],
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


def close(blocks: Blocks, now_ns: int) -> tuple[Blocks, BlockMeans, ResistanceWindows]:
    """Close the open block; return its means and the windows that it completes."""
    start_ns = now_ns if blocks.start_ns is None else blocks.start_ns
    seconds = max((now_ns - start_ns) / NS_PER_S, 0.0)
    about = _about_means(blocks.sums)
    samples = blocks.sums[:, _N]
    divisor = np.where(samples > 0, samples, np.nan)
    means = BlockMeans(
        seconds=seconds,
        samples=samples,
        mean_a=blocks.zero_a + blocks.sums[:, _A] / divisor,
        mean_v=blocks.zero_v + blocks.sums[:, _V] / divisor,
        spread_a=np.sqrt(about[:, _AA] / divisor),
        spread_v=np.sqrt(about[:, _VV] / divisor),
    )
    steps = np.maximum(samples, 1.0)
    alone = np.minimum(seconds / steps / INDEPENDENT_AFTER_S, 1.0)
    pooled = blocks.pooled + about
    pooled_s = np.where(samples > 0, blocks.pooled_s + seconds, blocks.pooled_s)
    independent = blocks.independent + samples * alone
    complete = (samples > 0) & (independent >= MIN_SAMPLES)
    windows = _judge(pooled, independent, complete, blocks)
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
    count = np.maximum(sums[:, _N], 1.0)
    x, y = sums[:, _A] / count, sums[:, _V] / count
    about = sums.copy()
    about[:, _AA] = unless_rounding(sums[:, _AA] - count * x * x, sums[:, _AA])
    about[:, _AV] = sums[:, _AV] - count * x * y
    about[:, _VV] = unless_rounding(sums[:, _VV] - count * y * y, sums[:, _VV])
    # The first and last row have one neighbour only, which is little in a block of 32.
    about[:, _LATE] = sums[:, _LATE] - sums[:, _PAIRS] * x * y
    about[:, _EARLY] = sums[:, _EARLY] - sums[:, _PAIRS] * x * y
    return about


def unless_rounding(spread: FloatArray, squares: FloatArray) -> FloatArray:
    """Return a spread, 0 where it is only the rounding error of a constant value."""
    return np.where(spread > _ROUNDING * squares, spread, 0.0)


def _judge(pooled: FloatArray, independent: FloatArray, complete: MaskArray, blocks: Blocks) -> ResistanceWindows:
    count = np.where(complete, pooled[:, _N], np.nan)
    aa = np.where(pooled[:, _AA] > 0.0, pooled[:, _AA], np.nan)
    vv = np.where(pooled[:, _VV] > 0.0, pooled[:, _VV], np.nan)
    av = np.where(pooled[:, _AV] != 0.0, pooled[:, _AV], np.nan)
    spread_a = np.sqrt(aa / count)
    mean_a, mean_v = blocks.zero_a + pooled[:, _A] / count, blocks.zero_v + pooled[:, _V] / count
    least_a = MIN_SPREAD_A / times_measured(mean_v)
    moved = complete & (spread_a > np.fmax(least_a, MIN_SPREAD_RATIO * blocks.max_a))
    correlation = av / np.sqrt(aa * vv)
    pairs = np.maximum(pooled[:, _PAIRS], 1.0)
    near = np.fmin(pooled[:, _LATE], pooled[:, _EARLY]) / pairs * count
    near_correlation = near / np.sqrt(aa * vv)
    resistance_ohm = -av / aa
    better = 1.0 - near_correlation**2 < CLEARLY_BETTER * (1.0 - correlation**2)
    other_slope = np.abs(near / av - 1.0) > HARMLESS_RATIO
    skewed = moved & (near < av) & better & other_slope
    scatter_vv = np.maximum(vv - av * av / aa, 0.0) / count
    # What a reading repeats, its rounding included, it does not know better.
    known = np.maximum(independent * (1.0 - pooled[:, _HELD] / count), 1.0)
    left_vv = scatter_vv * known / np.maximum(known - 2.0, 1.0)
    sd_ohm = np.sqrt(left_vv / known) / spread_a
    good = moved & ~skewed & (correlation < -MIN_CORRELATION) & (sd_ohm < MAX_SD_RATIO * resistance_ohm)
    return ResistanceWindows(
        complete=complete,
        moved=moved,
        skewed=moved & (correlation > -MIN_CORRELATION) & (near < av) & other_slope,
        correlation=np.where(complete, correlation, np.nan),
        spread_a=spread_a,
        scatter_v=np.sqrt(scatter_vv),
        resistance_ohm=np.where(good, resistance_ohm, np.nan),
        sd_ohm=np.where(good, sd_ohm, np.nan),
        open_v=np.where(good, mean_v + resistance_ohm * mean_a, np.nan),
    )
