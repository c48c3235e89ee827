"""Response of each supply to a movement of one GPU's power that was made on purpose.

The load of the other GPUs moves as well, and in a synchronous job a GPU that is slowed down slows all others. What each
series owes to them is fitted on steps and taken out first; what is left is compared between the times at which the GPU
was to draw more and those at which it was to draw less.
"""

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analytics.connectivity.dither import DitherLevel
from telemetry.frames import FloatArray, MaskArray

IndexArray = npt.NDArray[np.intp]

# Readings this near to a change show a mixture: governors take some tens of ms, NVML reports up to 100 ms late where it
# averages over less (Yang et al., SC'24, arXiv 2312.02741).
_SETTLE_S = 0.4
# heuristic: a level is a mean over at least half a second.
_LEAST_LEVEL_S = 0.5
# heuristic: two differences have a spread, and Student's t with one degree of freedom trusts it little enough.
_LEAST_PAIRS = 2
# heuristic: directions in which the other GPUs hardly differ are noise of their sensors, and are left out of the fit.
_LEAST_DIRECTION = 0.1
# heuristic: of Student's t; a movement below it may be chance.
_SEEN = 4.0
# heuristic: the power that a GPU reports errs by up to 5 % (NVML, nvmlDeviceGetPowerUsage), the share that a
# supply takes of a step by as much again, and conversion costs some per cent on the way.
_GAIN_ERROR = 0.15


@dataclass(frozen=True, slots=True, kw_only=True)
class Contrast:
    """Times at which a GPU was to draw more and times at which it was to draw less, as near to each other as possible.

    Start and stop in seconds from the first row.
    """

    high: tuple[tuple[float, float], ...]
    low: tuple[tuple[float, float], ...]

    def later(self, seconds: float) -> "Contrast":
        """Return it so much later."""
        high, low = (
            tuple((start_s + seconds, stop_s + seconds) for start_s, stop_s in one) for one in (self.high, self.low)
        )
        return Contrast(high=high, low=low)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LoadResponse:
    """Change of power that one GPU was made to show, and of each supply with it.

    Parameters
    ----------
    gpu
        Its place.
    gpu_w
        Its change, above 0.
    supply_w, error_w
        Change of each supply and its standard error, shape ``(n_supplies,)``.
    n_pairs
        Contrasts that were compared; the errors have one degree of freedom less.
    """

    gpu: int
    gpu_w: float
    supply_w: FloatArray
    error_w: FloatArray
    n_pairs: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ResponseTable:
    """Responses of all GPUs that were moved, one row each: `gpu_w` ``(R,)``, of the supplies ``(R, S)``."""

    gpus: IndexArray
    gpu_w: FloatArray
    supply_w: FloatArray
    error_w: FloatArray
    freedom: FloatArray

    @classmethod
    def of(cls, responses: Sequence[LoadResponse], n_supplies: int) -> "ResponseTable":
        """Stack responses."""
        return cls(
            gpus=np.array([one.gpu for one in responses], dtype=np.intp),
            gpu_w=np.array([one.gpu_w for one in responses]),
            supply_w=np.array([one.supply_w for one in responses]).reshape(-1, n_supplies),
            error_w=np.array([one.error_w for one in responses]).reshape(-1, n_supplies),
            freedom=np.array([float(one.n_pairs - 1) for one in responses]),
        )

    def surprise(self, gains: FloatArray, linked: MaskArray) -> FloatArray:
        """Return the nats by which each response ``(R, S)`` speaks against a wiring, up to a constant.

        Student's t, since few differences do not show their spread well.

        Parameters
        ----------
        gains
            Share of each supply in the steps of its bus, shape ``(S,)``.
        linked
            True where a supply feeds the GPU of a row, shape ``(R, S)``.
        """
        expected_w = gains * self.gpu_w[:, np.newaxis]
        scale_w = np.hypot(self.error_w, _GAIN_ERROR * expected_w)
        away = (self.supply_w - np.where(linked, expected_w, 0.0)) / scale_w
        freedom = self.freedom[:, np.newaxis]
        found: FloatArray = np.log(scale_w) + 0.5 * (freedom + 1.0) * np.log1p(away**2 / freedom)
        return found


def contrasts_of(levels: Sequence[DitherLevel]) -> tuple[Contrast, ...]:
    """Return the contrast of each pair of levels of a dither."""
    found = []
    for pair in zip(levels[::2], levels[1::2], strict=False):
        high, low = sorted(pair, key=lambda level: not level.is_high)
        found.append(Contrast(high=((high.start_s, high.stop_s),), low=((low.start_s, low.stop_s),)))
    return tuple(found)


def contrasts_around(
    before: tuple[float, float], changed: tuple[float, float], back: tuple[float, float], *, count: int = 4
) -> tuple[Contrast, ...]:
    """Return contrasts of a change by hand: each stretch of `changed` with one before and one after it."""
    parts = zip(*(_parts(stretch, count) for stretch in (before, changed, back)), strict=True)
    return tuple(Contrast(high=(one, other), low=(middle,)) for one, middle, other in parts)


def load_response(
    supply_w: FloatArray, gpu_w: FloatArray, gpu: int, contrasts: Sequence[Contrast], *, step_s: float, window_s: float
) -> LoadResponse | None:
    """Return the response of the supplies; None where the GPU's power did not follow, or too little was read.

    Parameters
    ----------
    supply_w, gpu_w
        Power of supplies and GPUs, aligned, shapes ``(n_times, n_supplies)`` and ``(n_times, n_gpus)``, evenly spaced
        by `step_s`; NaN where nothing was read.
    window_s
        Each row is a mean over so long from its time on.
    """
    series = np.concatenate([gpu_w[:, [gpu]], supply_w], axis=1)
    others = np.delete(gpu_w, gpu, axis=1)
    left = _without_others(series, others, stride=max(1, round(1.0 / step_s)))
    means = [_means_of(one, left, step_s=step_s, window_s=window_s) for one in contrasts]
    differences = np.array([high - low for high, low in means])
    if not len(differences):
        return None
    differences = differences[np.isfinite(differences).all(axis=1)]
    count = len(differences)
    if count < _LEAST_PAIRS:
        return None
    change_w = differences.mean(axis=0)
    error_w = np.maximum(differences.std(axis=0, ddof=1) / math.sqrt(count), 1e-3)
    if abs(change_w[0]) < _SEEN * error_w[0]:
        return None
    sign = math.copysign(1.0, change_w[0])  # a load that was started by hand draws more while it is changed
    return LoadResponse(
        gpu=gpu, gpu_w=sign * float(change_w[0]), supply_w=sign * change_w[1:], error_w=error_w[1:], n_pairs=count
    )


def _without_others(series: FloatArray, others: FloatArray, *, stride: int) -> FloatArray:
    """Return series without what follows the other GPUs, as their steps show it."""
    steps, moves = series[stride:] - series[:-stride], others[stride:] - others[:-stride]
    whole = np.isfinite(steps).all(axis=1) & np.isfinite(moves).all(axis=1)
    if not whole.any() or not moves.shape[1]:
        return series
    share = np.linalg.lstsq(moves[whole], steps[whole], rcond=_LEAST_DIRECTION)[0]
    found: FloatArray = series - others @ share
    return found


def _means_of(contrast: Contrast, values: FloatArray, *, step_s: float, window_s: float) -> tuple[FloatArray, ...]:
    return tuple(
        _mean_over(stretches, values, step_s=step_s, window_s=window_s) for stretches in (contrast.high, contrast.low)
    )


def _mean_over(
    stretches: Iterable[tuple[float, float]], values: FloatArray, *, step_s: float, window_s: float
) -> FloatArray:
    """Return the mean over several stretches, each without its ends, shape ``(n_series,)``; NaN where one is short."""
    means = []
    for start_s, stop_s in stretches:
        rows = values[max(0, round((start_s + _SETTLE_S) / step_s)) : max(0, round((stop_s - window_s) / step_s))]
        known = np.isfinite(rows)
        enough = known.sum(axis=0) * step_s >= _LEAST_LEVEL_S
        total = np.where(known, rows, 0.0).sum(axis=0)
        means.append(np.where(enough, total / np.maximum(known.sum(axis=0), 1), np.nan))
    found: FloatArray = np.mean(means, axis=0)
    return found


def _parts(stretch: tuple[float, float], count: int) -> tuple[tuple[float, float], ...]:
    edges = np.linspace(*stretch, count + 1).tolist()
    return tuple(itertools.pairwise(edges))
