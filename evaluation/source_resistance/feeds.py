"""Real recordings of 12 V feeds: our estimate at full and at low rate, beside least squares over everything."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from analytics.supply.log_estimate import SeriesEstimate, estimate_series
from evaluation.source_resistance.plan import RecordingsPlan
from physics.thevenin import Identifiability
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

    def estimate(self) -> SeriesEstimate:
        """Return our estimate of it."""
        return estimate_series(self.time_s, self.voltage_v, self.current_a)


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedResult:
    """Error as a share of least squares; None where we gave no estimate.

    `averaged` has the worst phase of each rate, None where one of them had no answer. `covered` states for every phase
    of the picked samples, which are as few and far noisier, whether our bounds hold least squares over everything, and
    `skewed_means` the same for means whose voltage and current were taken apart; `skewed_error` is the worst answer
    that was given to these, None where all were refused.
    """

    name: str
    full_rate: float | None
    averaged: dict[float, float | None]
    covered: dict[float, tuple[bool, ...]]
    halves: float | None
    refused: tuple[bool, ...]
    skewed_means: dict[float, tuple[bool, ...]]
    skewed_error: dict[float, float | None]


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
    """Estimate one feed at all rates, and with voltage and current taken apart."""
    truth_ohm, whole = feed.least_squares_ohm, feed.estimate()
    skew = max(1, round(plan.skew * feed.rate_hz))
    apart = [feed.skewed(samples) for samples in (-skew, skew)]
    refused = tuple(one.estimate().identifiability is not Identifiability.IDENTIFIED for one in apart)
    slow = {
        rate_hz: [
            one.means(step, begin).estimate() for one in apart for step, begin in _cuts(one, rate_hz, plan.phases)
        ]
        for rate_hz in plan.rates_hz
    }
    return FeedResult(
        name=feed.name,
        full_rate=_error(whole, truth_ohm),
        averaged={rate_hz: _worst(feed, rate_hz, plan.phases, truth_ohm) for rate_hz in plan.rates_hz},
        covered={
            rate_hz: tuple(
                _holds(feed.every(step, begin).estimate(), truth_ohm)
                for step, begin in _cuts(feed, rate_hz, plan.phases)
            )
            for rate_hz in plan.rates_hz
        },
        halves=whole.halves_differ_ratio,
        refused=refused,
        skewed_means={rate_hz: tuple(_holds(one, truth_ohm) for one in found) for rate_hz, found in slow.items()},
        skewed_error={
            rate_hz: max((error for one in found if (error := _error(one, truth_ohm)) is not None), default=None)
            for rate_hz, found in slow.items()
        },
    )


def _cuts(feed: LoggedFeed, rate_hz: float, phases: int) -> tuple[tuple[int, int], ...]:
    """Return the number of samples that make one at a rate, and where each phase begins."""
    step = max(1, round(feed.rate_hz / rate_hz))
    return tuple((step, begin) for begin in sorted({round(number * step / phases) for number in range(phases)}))


def _worst(feed: LoggedFeed, rate_hz: float, phases: int, truth_ohm: float) -> float | None:
    errors = [_error(feed.means(step, begin).estimate(), truth_ohm) for step, begin in _cuts(feed, rate_hz, phases)]
    known = [error for error in errors if error is not None]
    return max(known) if len(known) == len(errors) else None


def _holds(found: SeriesEstimate, truth_ohm: float) -> bool:
    """Return True if the bounds hold the truth; an answer that was refused claims nothing, and so nothing wrong."""
    bounds = found.source_resistance_bounds_ohm
    return bounds is None or bounds[0] <= truth_ohm <= bounds[1]


def _error(found: SeriesEstimate, truth_ohm: float) -> float | None:
    if found.source_resistance_ohm is None:
        return None
    return abs(found.source_resistance_ohm / truth_ohm - 1.0)
