"""The suite `supply`: source resistance of real recordings, and joints that age for months."""

from collections.abc import Iterator
from functools import partial
from operator import call

from evaluation.measures import Measured, median, rate, share
from evaluation.rows import Effort, Progress, Row, at_least, at_most, data_folder, measured_row, step_counter, within
from evaluation.source_resistance.ageing import AgeingResult, age
from evaluation.source_resistance.coverage import Cell, Tally, cover, log_cells, stream_cells
from evaluation.source_resistance.feeds import judge_feed, load_feeds
from evaluation.source_resistance.mains import feed_spreads
from evaluation.source_resistance.plan import (
    SUPPLY,
    AgeingPlan,
    CoveragePlan,
    MainsPlan,
    RecordingsPlan,
    SensorChain,
    SupplyPlan,
)
from evaluation.workers import each
from telemetry.documents import load_document

SUITE = "supply"
_row = partial(measured_row, SUITE)
# Shares of the time: half goes into the months, most of the rest into the random circuits, seconds into recordings.
_AGEING_UP_TO, _COVERAGE_UP_TO = 0.5, 0.95
_CIRCUITS_AT_ONCE = 8


def supply_rows(effort: Effort, progress: Progress) -> Iterator[Row]:
    """Yield the rows of the months and of random circuits, then those of recordings, which need the public data."""
    plan = load_document(SupplyPlan, SUPPLY)
    ageing = plan.ageing
    fleets = effort.seeds or (ageing.full_fleets if effort.full else 1)
    work = [
        partial(age, ageing.model_copy(update={"seed": ageing.seed + number}), chain)
        for chain in ageing.sensors
        for number in range(fleets)
    ]
    results = list(each(call, work, done=step_counter(progress, len(work), "fleets", up_to=_AGEING_UP_TO)))
    for chain in ageing.sensors:
        yield from ageing_rows(chain, [one for one in results if one.chain is chain], ageing)
    yield from coverage_rows(plan.coverage, tallies_of(plan.coverage, effort, progress))
    yield from _recording_rows(plan.recordings)
    yield from _mains_rows(plan.mains)
    progress("recordings", 1.0)


Tallies = dict[tuple[str, Cell], Tally]


def tallies_of(plan: CoveragePlan, effort: Effort, progress: Progress) -> Tallies:
    """Return the tallies of all circuits."""
    count = effort.seeds or (plan.full_circuits if effort.full else plan.circuits)
    work = [tuple(range(start, min(start + _CIRCUITS_AT_ONCE, count))) for start in range(0, count, _CIRCUITS_AT_ONCE)]

    def moved(text: str, part: float) -> None:
        progress(text, _AGEING_UP_TO + part)

    done = step_counter(moved, len(work), "groups of circuits", up_to=_COVERAGE_UP_TO - _AGEING_UP_TO)
    tallies: Tallies = {}
    for found in each(partial(cover, plan), work, done=done):
        for key, tally in found.items():
            tallies.setdefault(key, Tally()).add(tally)
    return tallies


def coverage_rows(plan: CoveragePlan, tallies: Tallies) -> Iterator[Row]:
    """Yield how often bounds hold the truth, and how often there are none."""
    goals = plan.goals
    for cell in log_cells(plan):
        tally = tallies[("log", cell)]
        yield within(_row(f"bounds hold the truth, {cell.name}", tally.coverage), goals.lowest, goals.highest)
        refused = _row(f"refused, {cell.name}", tally.refusals)
        yield refused if cell.skew_s else at_most(refused, goals.refused)
    for cell in stream_cells(plan):
        tally = tallies[("stream", cell)]
        yield within(_row(f"bounds hold the truth, live, {cell.name}", tally.coverage), goals.lowest, goals.highest)


def ageing_rows(chain: SensorChain, results: list[AgeingResult], plan: AgeingPlan) -> Iterator[Row]:
    """Yield what one chain of sensors was worth."""
    goals = plan.sensors[chain]
    aged = [node for result in results for node in result.aged]
    found = share(sum(node.in_time for node in aged), len(aged))
    yield at_least(_row(f"joint ageing found before the drop, {chain}", found), goals.found)
    rises = [node.rise for node in aged if node.rise is not None]
    yield at_most(_row(f"rise at which it is found, {chain}", median(rises)), goals.rise)
    leads = [
        node.hazard_day - node.found_day for node in aged if node.found_day is not None and node.hazard_day is not None
    ]
    lead = _row(f"lead before 1 % a day, {chain}", median(leads), "d")
    yield at_least(lead, plan.goals.lead_days)
    drops = [
        node.drop_day - node.found_day for node in aged if node.found_day is not None and node.drop_day is not None
    ]
    yield at_least(_row(f"lead before the drop, {chain}", median(drops), "d"), plan.goals.lead_days)
    for part in plan.quiet:
        alarms = sum(result.false_alarms.get(part.scenario, 0) for result in results)
        exposure = sum(result.quiet_months.get(part.scenario, 0.0) for result in results)
        name = f"false alarms per node-month, {part.scenario}, {chain}"
        yield at_most(_row(name, rate(alarms, exposure)), goals.false_alarms)


def _recording_rows(plan: RecordingsPlan) -> Iterator[Row]:
    for feed in load_feeds(data_folder(plan.folder)):
        result = judge_feed(feed, plan)
        own = f"{result.name}, {feed.rate_hz:.0f} Hz"
        yield at_most(
            _row(f"resistance against least squares, {own}", Measured(value=result.full_rate)), plan.goals.full_rate
        )
        for rate_hz, error in result.averaged.items():
            name = f"resistance against least squares, {result.name}, means at {rate_hz:g} Hz, worst phase"
            yield at_most(_row(name, Measured(value=error)), plan.goals.averaged)
        yield at_most(_row(f"halves differ, {own}", Measured(value=result.halves)), plan.goals.halves)
        for cell, tally in result.tallies.items():
            row = _row(f"bounds hold least squares, {result.name}, {cell.name}", tally.coverage)
            yield at_least(row, plan.goals.covered) if tally.answered else row
            if tally.answered < tally.asked:
                yield _row(f"refused, {result.name}, {cell.name}", tally.refusals)


def _mains_rows(plan: MainsPlan) -> Iterator[Row]:
    feeds = feed_spreads(data_folder(plan.folder), error=plan.error)
    for feed in feeds:
        runs = f"{feed.sharp} of {feed.runs} runs"
        yield _row(f"spread of the resistance from run to run, {feed.feed}, {runs}", Measured(value=feed.spread))
    spreads = [feed.spread for feed in feeds if feed.spread is not None]
    middle = Measured(value=median(spreads).value)
    yield at_most(_row("spread of the resistance from run to run, median feed", middle), plan.goals.spread)
    by_levels = Measured(value=median([feed.levels for feed in feeds]).value)
    yield _row("the same by levels", by_levels)
    held = share(sum(feed.held for feed in feeds), sum(feed.answered for feed in feeds))
    yield at_least(_row("bounds hold the mean of the feed's other runs", held), plan.goals.covered)
    refused = share(sum(feed.runs - feed.answered for feed in feeds), sum(feed.runs for feed in feeds))
    yield _row("refused, AC feeds", refused)
