"""Real recordings of 12 V feeds: our estimate at full and at low rate, beside least squares over everything."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from analytics.supply.log_estimate import SeriesEstimate, estimate_series
from analytics.supply.sampling import Sampled
from evaluation.source_resistance.coverage import KINDS, Cell, Tally
from evaluation.source_resistance.plan import RecordingsPlan
from telemetry.frames import FloatArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LoggedFeed:
    """Logged pair of voltage and current, all of shape ``(n,)``."""

    name: str
    time_s: FloatArray
    voltage_v: FloatArray
    current_a: FloatArray

    @property
    def rate_hz(self) -> float:
        """Samples a second."""
        return (len(self.time_s) - 1) / float(self.time_s[-1] - self.time_s[0])

    @property
    def least_squares_ohm(self) -> float:
        """The slope of all samples, with no gate at all."""
        return -float(np.polyfit(self.current_a, self.voltage_v, 1)[0])

    def every(self, step: int, phase: int) -> "LoggedFeed":
        """Return each `step`-th sample from `phase` on."""
        rows = slice(phase, None, step)
        return LoggedFeed(
            name=self.name, time_s=self.time_s[rows], voltage_v=self.voltage_v[rows], current_a=self.current_a[rows]
        )

    def means(self, step: int, phase: int) -> "LoggedFeed":
        """Return the means of each `step` samples from `phase` on, as a logger that averages."""
        count = (len(self.time_s) - phase) // step
        time_s, voltage_v, current_a = (
            column[phase : phase + count * step].reshape(count, step).mean(axis=1)
            for column in (self.time_s, self.voltage_v, self.current_a)
        )
        return LoggedFeed(name=self.name, time_s=time_s, voltage_v=voltage_v, current_a=current_a)

    def skewed(self, samples: int) -> "LoggedFeed":
        """Return the voltage with the current of some samples later; earlier where negative."""
        late, early = max(samples, 0), max(-samples, 0)
        stop = len(self.time_s) - abs(samples)
        return LoggedFeed(
            name=self.name,
            time_s=self.time_s[:stop],
            voltage_v=self.voltage_v[early : early + stop],
            current_a=self.current_a[late : late + stop],
        )

    def estimate(self, *, halves: bool = False) -> SeriesEstimate:
        """Return our estimate of it."""
        return estimate_series(self.time_s, self.voltage_v, self.current_a, halves=halves)


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedResult:
    """Error as a share of least squares; None where we gave no estimate.

    `averaged` has the worst phase of each rate, None where one of them had no answer. `tallies` state for each rate and
    kind, with and without skew, how many phases were answered and how many bounds hold least squares over everything.
    """

    name: str
    full_rate: float | None
    averaged: dict[float, float | None]
    halves: float | None
    tallies: dict[Cell, Tally]


def load_feeds(folder: Path) -> Iterator[LoggedFeed]:
    """Yield the loaded feed of every recording in a folder: the one whose current moves most."""
    for path in sorted(folder.glob("*.npz")):
        with np.load(path) as file:
            current_a, voltage_v, time_s = file["current_a"], file["voltage_v"], file["t_s"]
        feed = int(np.nanargmax(np.nanstd(current_a, axis=0)))
        yield LoggedFeed(
            name=path.stem,
            time_s=np.asarray(time_s, dtype=np.float64),
            voltage_v=np.asarray(voltage_v[:, feed], dtype=np.float64),
            current_a=np.asarray(current_a[:, feed], dtype=np.float64),
        )


def judge_feed(feed: LoggedFeed, plan: RecordingsPlan) -> FeedResult:
    """Estimate one feed at all rates, and with voltage and current taken apart; nothing is declared."""
    truth_ohm, whole = feed.least_squares_ohm, feed.estimate(halves=True)
    skew = max(1, round(plan.skew * feed.rate_hz))
    tallies: dict[Cell, Tally] = {}
    for rate_hz in plan.covered_hz:
        for kind in KINDS:
            for lag in (0, -skew, skew):
                moved = feed.skewed(lag) if lag else feed
                cell = Cell(kind=kind, rate_hz=rate_hz, skew_s=plan.skew if lag else 0.0)
                for step, begin in _cuts(moved, rate_hz, plan.phases):
                    found = (moved.every if kind is Sampled.PICKS else moved.means)(step, begin).estimate()
                    tallies.setdefault(cell, Tally()).take(found.source_resistance_bounds_ohm, truth_ohm)
    return FeedResult(
        name=feed.name,
        full_rate=_error(whole, truth_ohm),
        averaged={rate_hz: _worst(feed, rate_hz, plan.phases, truth_ohm) for rate_hz in plan.rates_hz},
        halves=whole.halves_differ_ratio,
        tallies=tallies,
    )


def _cuts(feed: LoggedFeed, rate_hz: float, phases: int) -> tuple[tuple[int, int], ...]:
    """Return the number of samples that make one at a rate, and where each phase begins."""
    step = max(1, round(feed.rate_hz / rate_hz))
    starts = sorted({round(number * step / phases) for number in range(phases)})
    return tuple((step, begin) for begin in starts if begin < step)


def _worst(feed: LoggedFeed, rate_hz: float, phases: int, truth_ohm: float) -> float | None:
    errors = [_error(feed.means(step, begin).estimate(), truth_ohm) for step, begin in _cuts(feed, rate_hz, phases)]
    known = [error for error in errors if error is not None]
    return max(known) if len(known) == len(errors) else None


def _error(found: SeriesEstimate, truth_ohm: float) -> float | None:
    if found.source_resistance_ohm is None:
        return None
    return abs(found.source_resistance_ohm / truth_ohm - 1.0)
