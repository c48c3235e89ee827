"""The suite `supply`: source resistance of real recordings, and joints that age for months."""

from collections.abc import Iterator
from functools import partial
from operator import call

from evaluation.measures import Measured, median, rate, share
from evaluation.rows import Effort, Progress, Row, at_least, at_most, data_folder, measured_row, step_counter
from evaluation.source_resistance.ageing import AgeingResult, age
from evaluation.source_resistance.feeds import judge_feed, load_feeds
from evaluation.source_resistance.plan import SUPPLY, AgeingPlan, RecordingsPlan, SensorChain, SupplyPlan
from evaluation.workers import each
from telemetry.documents import load_document

SUITE = "supply"
_row = partial(measured_row, SUITE)
# Most of the time goes into the months; feeds take seconds.
_FEEDS_SHARE = 0.1


def supply_rows(effort: Effort, progress: Progress) -> Iterator[Row]:
    """Yield the rows of the months first, then those of the recordings, which need the public data."""
    plan = load_document(SupplyPlan, SUPPLY)
    ageing = plan.ageing
    fleets = effort.seeds or (ageing.full_fleets if effort.full else 1)
    work = [
        partial(age, ageing.model_copy(update={"seed": ageing.seed + number}), chain)
        for chain in ageing.sensors
        for number in range(fleets)
    ]
    results = list(each(call, work, done=step_counter(progress, len(work), "fleets", up_to=1.0 - _FEEDS_SHARE)))
    for chain in ageing.sensors:
        yield from ageing_rows(chain, [one for one in results if one.chain is chain], ageing)
    yield from _recording_rows(plan.recordings)
    progress("recordings", 1.0)


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
        for rate_hz, covered in result.covered.items():
            name = f"bounds hold least squares, {result.name}, picked at {rate_hz:g} Hz"
            yield at_least(_row(name, share(sum(covered), len(covered))), plan.goals.covered)
        yield at_most(_row(f"halves differ, {own}", Measured(value=result.halves)), plan.goals.halves)
        refused = share(sum(result.refused), len(result.refused))
        skew = f"{plan.skew * 1e3:g} ms of skew"
        yield at_least(_row(f"refused with {skew}, {result.name}", refused), 1.0)
        for rate_hz, honest in result.skewed_means.items():
            name = f"refused or bounds hold with {skew}, {result.name}, means at {rate_hz:g} Hz"
            yield at_least(_row(name, share(sum(honest), len(honest))), plan.goals.covered)
            worst = f"worst answer given with {skew}, {result.name}, means at {rate_hz:g} Hz"
            yield _row(worst, Measured(value=result.skewed_error[rate_hz]))
