"""All seeds of a rehearsal together: each figure with its 95 % bounds, beside the same without railwatch."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from evaluation.measures import Measured, mean, rate, share
from evaluation.rehearsal.outcome import RunOutcome
from evaluation.rehearsal.runs import SeedResult

# heuristic: Student's t over two runs gives bounds that are wider than anything they could bound.
LEAST_SEEDS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """Line of the summary: with railwatch, and without where that applies."""

    name: str
    unit: str
    watched: Measured
    bare: Measured | None = None


def summarised(results: Sequence[SeedResult]) -> tuple[Figure, ...]:
    """Return the figures of some seeds, at least one."""
    if not results:
        raise ValueError("no seed to speak of")

    def both(
        name: str, unit: str, of: Callable[[SeedResult, RunOutcome], float | None], *, most: float = math.inf
    ) -> Figure:
        watched = [of(one, one.watched) for one in results]
        bare = [of(one, one.bare) for one in results]
        return Figure(name=name, unit=unit, watched=_mean(watched, most), bare=_mean(bare, most))

    def ours(name: str, unit: str, of: Callable[[SeedResult], float | None], *, most: float = math.inf) -> Figure:
        return Figure(name=name, unit=unit, watched=_mean([of(one) for one in results], most))

    runs = float(len(results))
    caps = sum(one.actions.caps for one in results)
    false = sum(one.actions.false_caps for one in results)
    return (
        Figure(
            name="drops",
            unit="a run",
            watched=rate(sum(one.watched.drops for one in results), runs),
            bare=rate(sum(one.bare.drops for one in results), runs),
        ),
        both("goodput", "of healthy", lambda one, outcome: one.goodput(outcome), most=1.0),
        both("lowest rail", "V", lambda _, outcome: outcome.rail_min_v),
        both("rail below the limit", "s", lambda _, outcome: outcome.below_s),
        both("mean clock", "MHz", lambda _, outcome: outcome.clock_mean_mhz),
        both("lowest clock", "MHz", lambda _, outcome: outcome.clock_lowest_mhz),
        ours("caps", "a run", lambda one: float(one.actions.caps)),
        ours("under a cap", "of the time", lambda one: one.actions.capped_share, most=1.0),
        ours("symptom to first cap", "s", lambda one: one.actions.to_first_cap_s),
        Figure(name="false caps", unit="of all", watched=share(false, caps)),
        ours("changes that failed", "a run", lambda one: float(one.actions.failed)),
        ours("refused by a limit", "a run", lambda one: float(one.actions.refused)),
    )


def cost_only(results: Sequence[SeedResult]) -> str | None:
    """Return a line if caps lowered the goodput and prevented no drop; None otherwise."""
    watched = _mean([one.goodput(one.watched) for one in results], 1.0).value
    bare = _mean([one.goodput(one.bare) for one in results], 1.0).value
    drops = sum(one.watched.drops - one.bare.drops for one in results)
    caps = sum(one.actions.caps for one in results)
    if not caps or drops < 0 or watched is None or bare is None or watched >= bare:
        return None
    return f"capping only cost goodput: {watched:.3f} with railwatch, {bare:.3f} without; no drop was prevented"


def not_carried_out(results: Sequence[SeedResult]) -> dict[str, int]:
    """Return how many decisions of each other kind there were."""
    reported: Counter[str] = Counter()
    for one in results:
        reported.update(one.actions.reported)
    return dict(sorted(reported.items()))


def _mean(values: Sequence[float | None], most: float) -> Measured:
    """Return a mean with bounds where it can lie, none of which is below zero; no bounds of too few."""
    known = [value for value in values if value is not None]
    found = mean(known)
    if found.value is None or found.low is None or found.high is None:
        return found
    if len(known) < LEAST_SEEDS:
        return Measured(value=found.value)
    return Measured(value=found.value, low=max(found.low, 0.0), high=min(found.high, max(most, found.value)))
