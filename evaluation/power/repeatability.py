"""Spread of a resistance from run to run: per feed, per pin and on a 12 V feed, by three estimates.

Nothing was changed between the runs, so what an estimate differs by is what it cannot be trusted to.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from analytics.supply.log_estimate import estimate_series
from evaluation.injection.traces import FeedTrace
from evaluation.measures import NOTHING, Measured
from evaluation.power.chains import pieces_of
from evaluation.power.differences import fit_steps, usual_current
from evaluation.power.faults import MAX_ERROR
from evaluation.power.own_judge import NAME
from evaluation.power.pin_trace import PinTrace
from evaluation.power.plan import PowerPlan, PowerSet
from evaluation.power.recordings import Run, servers_of
from telemetry.catalogue.pins import PIN_COUNT
from telemetry.clock import NS_PER_S
from telemetry.frames import FloatArray, TimeArray

# heuristic: of fewer runs than three there is no spread worth a name.
LEAST_RUNS = 3
_DRAWS = 1000
_PIN_PIECE_S = 300.0  # heuristic: a piece of a recording of pins holds some loads of a game


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pair:
    """Volts and amperes of one feed or pin in one run."""

    time_ns: TimeArray
    voltage_v: FloatArray
    current_a: FloatArray


Estimate = Callable[[Pair], float | None]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pairs:
    """Runs of one feed or pin; `group` is the folder of its set."""

    group: str
    name: str
    pairs: tuple[Pair, ...]


def own_ohm(pair: Pair) -> float | None:
    """Return what `railwatch supply estimate` reports, None where it refuses."""
    time_s = (pair.time_ns - pair.time_ns[0]) / NS_PER_S
    return estimate_series(time_s, pair.voltage_v, pair.current_a).source_resistance_ohm


def level_ohm(pair: Pair) -> float | None:
    """Return the slope of volts on amperes, least squares."""
    known = np.isfinite(pair.voltage_v) & np.isfinite(pair.current_a)
    volts, amps = pair.voltage_v[known], pair.current_a[known]
    apart = amps - amps.mean()
    power = float(apart @ apart)
    return -float(apart @ volts) / power if power > 0.0 else None


def step_ohm(pair: Pair) -> float | None:
    """Return the slope of differences, None where its standard error is more than a tenth."""
    fit = fit_steps(pair.time_ns, pair.voltage_v, pair.current_a, usual_a=usual_current(pair.current_a))
    return fit.ohm if fit is not None and 0.0 < fit.error_ohm <= MAX_ERROR * fit.ohm else None


ESTIMATES: dict[str, Estimate] = {
    NAME: own_ohm,
    "regression of levels": level_ohm,
    "regression of differences": step_ohm,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeated:
    """Resistances of one feed or pin over its runs, by estimate; `runs` counts all, refused ones too."""

    group: str
    name: str
    runs: int
    ohm: dict[str, tuple[float, ...]]

    def spread(self, estimate: str) -> Measured:
        """Return the standard deviation over the mean, with the bounds of a bootstrap over runs."""
        return relative_spread(self.ohm[estimate])


def relative_spread(values: Sequence[float]) -> Measured:
    """Return standard deviation over mean; nothing of fewer than `LEAST_RUNS` values or about a mean of 0 or less."""
    known = np.array(values, dtype=np.float64)
    if len(known) < LEAST_RUNS or known.mean() <= 0.0:
        return NOTHING
    drawn = np.random.default_rng(0).choice(known, size=(_DRAWS, len(known)))
    spreads = drawn.std(axis=1, ddof=1) / drawn.mean(axis=1)
    low, high = np.quantile(spreads, [0.025, 0.975])
    return Measured(value=float(known.std(ddof=1) / known.mean()), low=float(low), high=float(high))


def steadier_half(feeds: Sequence[Repeated], estimate: str) -> Measured:
    """Return the largest spread in the steadier half of the feeds."""
    spreads = [one.spread(estimate).value for one in feeds]
    known = sorted(value for value in spreads if value is not None)
    return Measured(value=known[(len(known) - 1) // 2]) if known else NOTHING


def pairs_of(runs: Sequence[Run], of: PowerSet, plan: PowerPlan) -> Iterator[Pairs]:
    """Yield the feeds or pins of a set with at least `LEAST_RUNS` runs or pieces; nodes have no volts."""
    pairs: dict[str, list[Pair]] = defaultdict(list)
    for run in servers_of(runs, plan.least_w):
        if isinstance(run.trace, FeedTrace):
            for feed in range(run.trace.power_w.shape[1]):
                pairs[f"{run.machine} feed{feed}"].append(_pair(run.trace, feed))
        elif isinstance(run.trace, PinTrace):
            traces = [piece.trace for piece in pieces_of(run, _PIN_PIECE_S)]
            for pin in range(PIN_COUNT):
                pairs[f"pin{pin + 1}"] += [_pair(trace, pin) for trace in traces if isinstance(trace, PinTrace)]
    yield from (
        Pairs(group=of.folder, name=name, pairs=tuple(own)) for name, own in pairs.items() if len(own) >= LEAST_RUNS
    )


def direct_current_pairs(root: Path, plan: PowerPlan) -> Iterator[Pairs]:
    """Yield the 12 V feed of a graphics card, in windows of a second, where the recording is there."""
    of = plan.direct_current
    path = root / of.folder / of.file
    if not path.is_file():
        return
    with np.load(path) as held:
        time_ns = np.round(held["t_s"] * NS_PER_S).astype(np.int64)
        volts, amps = (held[name][:, of.feed].astype(np.float64) for name in ("voltage_v", "current_a"))
    rows = np.searchsorted(time_ns, time_ns[0] + np.arange(int(time_ns[-1] // NS_PER_S) + 1) * NS_PER_S)
    pairs = tuple(
        Pair(time_ns=time_ns[start:stop], voltage_v=volts[start:stop], current_a=amps[start:stop])
        for start, stop in pairwise(rows.tolist())
    )
    yield Pairs(group=of.folder, name="12 V feed, windows of 1 s", pairs=pairs)


def repeated(of: Pairs) -> Repeated:
    """Return the resistances of a feed or pin by each estimate."""
    ohm = {
        name: tuple(value for pair in of.pairs if (value := estimate(pair)) is not None and math.isfinite(value))
        for name, estimate in ESTIMATES.items()
    }
    return Repeated(group=of.group, name=of.name, runs=len(of.pairs), ohm=ohm)


def _pair(trace: FeedTrace | PinTrace, column: int) -> Pair:
    return Pair(time_ns=trace.time_ns, voltage_v=trace.voltage_v[:, column], current_a=trace.current_a[:, column])
