"""Real recordings of AC feeds: one resistance of each feed in many runs, from differences and from levels."""

import csv
import gzip
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from analytics.supply.log_estimate import SeriesEstimate, estimate_series
from telemetry.frames import FloatArray

_FEEDS = (1, 2, 3)


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedRun:
    """One feed in one run: the estimate from its differences, and the slope of its levels."""

    feed: str
    found: SeriesEstimate
    levels_ohm: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedSpread:
    """One feed over its runs.

    `spread` is the standard deviation over the mean of those runs whose standard error is small enough, None with
    fewer than two of them; `levels` is the same of all runs by levels. `held` counts the runs whose bounds hold the
    mean of the others, of `answered` runs out of `runs`.
    """

    feed: str
    runs: int
    answered: int
    sharp: int
    held: int
    spread: float | None
    levels: float


def feed_spreads(folder: Path, *, error: float) -> list[FeedSpread]:
    """Return the feeds of all recordings in a folder; runs count whose standard error is below a share `error`."""
    runs = [run for path in sorted(folder.glob("*.csv.gz")) for run in _runs_of(path)]
    names = dict.fromkeys(run.feed for run in runs)
    return [_spread([run for run in runs if run.feed == name], error=error) for name in names]


def _runs_of(path: Path) -> Iterator[FeedRun]:
    columns = _columns(path)
    system = path.name.split("__")[1]
    # One log repeats a stamp where the analyser changed its range.
    forward = np.append(True, np.diff(np.maximum.accumulate(columns["time_s"])) > 0.0)
    for number in _FEEDS:
        time_s, volts, amps = (columns[name][forward] for name in ("time_s", f"ch{number}_volts", f"ch{number}_amps"))
        known = volts > 0.0
        yield FeedRun(
            feed=f"{system} feed {number}",
            found=estimate_series(time_s, volts, amps, halves=False),
            levels_ohm=-float(np.polyfit(amps[known], volts[known], 1)[0]),
        )


def _columns(path: Path) -> dict[str, FloatArray]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        reader = csv.reader(file)
        header = next(reader)
        rows = np.array([[float(cell) if cell else np.nan for cell in row] for row in reader])
    return {name: rows[:, place] for place, name in enumerate(header)}


def _spread(runs: list[FeedRun], *, error: float) -> FeedSpread:
    answers = [
        (run.found, ohm, sd)
        for run in runs
        if (ohm := run.found.source_resistance_ohm) and (sd := run.found.standard_error_ohm)
    ]
    ohms, errors = np.array([ohm for _, ohm, _ in answers]), np.array([sd for *_, sd in answers])
    held = 0
    for place, (found, *_) in enumerate(answers):
        others = np.arange(len(answers)) != place
        bounds = found.source_resistance_bounds_ohm
        if bounds is not None and others.any():
            held += bounds[0] <= float(np.average(ohms[others], weights=errors[others] ** -2.0)) <= bounds[1]
    sharp = ohms[errors < error * ohms]
    levels = np.array([run.levels_ohm for run in runs])
    return FeedSpread(
        feed=runs[0].feed,
        runs=len(runs),
        answered=len(answers),
        sharp=len(sharp),
        held=held,
        spread=float(sharp.std(ddof=1) / sharp.mean()) if len(sharp) > 1 else None,
        levels=float(levels.std(ddof=1) / abs(levels.mean())),
    )
