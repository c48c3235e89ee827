"""The suite `power`: measured recordings as a ruler for our judge, for methods that anybody would try, and for others'.

Definitions of all rows are in docs/benchmark.md.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from evaluation.measures import Measured, median, rate, share
from evaluation.power.answers import Found
from evaluation.power.answers_file import read_answers
from evaluation.power.case_files import write_case_files
from evaluation.power.cases import cases_of
from evaluation.power.chains import Chain, Half, chains_of
from evaluation.power.methods import METHODS
from evaluation.power.own_judge import NAME
from evaluation.power.plan import PowerPlan, PowerSet, Put, Track, load_plan
from evaluation.power.recordings import Run, missing_sets, read_runs
from evaluation.power.repeatability import ESTIMATES, Repeated, direct_current_pairs, pairs_of, repeated, steadier_half
from evaluation.power.scoring import ChainResult, judged_by_all, judged_by_answers, months
from evaluation.rows import Effort, Progress, Row, at_least, at_most, data_root, measured_row, step_counter
from evaluation.workers import each
from telemetry.errors import EnvironmentLacksError

SUITE = "power"
_row = partial(measured_row, SUITE)
# Of the whole time, what reading and the spread of R take.
_BEFORE_SHARE = 0.1


def power_rows(effort: Effort, progress: Progress) -> Iterator[Row]:
    """Yield the rows: of all methods on all recordings that are there, or of the answers of one other judge."""
    plan = load_plan()
    root, missing = _found_sets(plan)
    if effort.answers is None:
        named = f", missing: {', '.join(missing)}" if missing else ""
        count = len(plan.sets) + 1
        yield at_least(_row(f"sets of recordings{named}", Measured(value=float(count - len(missing)))), count)
    sets = _runs(root, plan)
    chains = _chains(sets, plan)
    if effort.answers is not None:
        answers = read_answers(effort.answers, cases_of(chains, plan, draws=effort.seeds))
        yield from method_rows(judged_by_answers(answers, chains, plan), plan, [answers.name])
        return
    yield from exposure_rows(chains)
    pairs = [pair for of, runs in sets for pair in pairs_of(runs, of, plan)] + [*direct_current_pairs(root, plan)]
    done = step_counter(progress, len(pairs), "feeds and pins", up_to=_BEFORE_SHARE)
    yield from spread_rows(list(each(repeated, pairs, done=done)), plan)
    results = judged_by_all(chains, plan, _rest_of(progress), draws=effort.seeds)
    yield from method_rows(results, plan, [NAME, *(method.name for method in METHODS)])


def write_cases(folder: Path, effort: Effort, progress: Progress) -> int:
    """Write all cases to a folder that is new or empty, for other judges to answer; return how many there are."""
    plan = load_plan()
    root, _ = _found_sets(plan)
    cases = cases_of(_chains(_runs(root, plan), plan), plan, draws=effort.seeds)
    return write_case_files(folder, cases, progress)


def exposure_rows(chains: Sequence[Chain]) -> Iterator[Row]:
    """Yield the judged node-hours of each half."""
    for track in Track:
        for half in Half:
            hours = sum(
                chain.judged_hours
                for chain in chains
                if chain.track is track and chain.half is half and not chain.twins
            )
            yield _row(f"recordings of {track}, {half}", Measured(value=hours), "node-hours")


def spread_rows(feeds: Sequence[Repeated], plan: PowerPlan) -> Iterator[Row]:
    """Yield the spread of R: each feed of three, each pin, the 12 V feed; and over all feeds of alternating current."""
    mains = [one for one in feeds if one.group in {of.folder for of in plan.sets if of.track is Track.FEEDS}]
    apart = [one for one in feeds if one not in mains or one.group == plan.sets[0].folder]
    for estimate in ESTIMATES:
        for one in apart:
            yield _row(f"spread of R, {one.name.replace('__', ' ')}, {estimate}", one.spread(estimate))
        identified = sum(len(one.ohm[estimate]) for one in mains)
        yield _row(f"runs with a resistance, {estimate}", share(identified, sum(one.runs for one in mains)))
        known = sum(one.spread(estimate).value is not None for one in mains)
        name = f"spread of R, steadier half of {known} of {len(mains)} feeds, {estimate}"
        half = _row(name, steadier_half(mains, estimate))
        yield at_most(half, plan.goals.spread) if estimate == NAME else half


def method_rows(results: Sequence[ChainResult], plan: PowerPlan, methods: Sequence[str]) -> Iterator[Row]:
    """Yield false alarms by track, and recall and delay by fault, of each method that judges the track."""
    for track in Track:
        for method in methods:
            own = [one for one in results if one.method == method and one.track is track]
            if own:
                yield from _false_alarm_rows(own, plan)
    names = dict.fromkeys(found.name for result in results for found in result.found)
    for name in names:
        for number, method in enumerate(methods):
            found = [one for result in results if result.method == method for one in result.found if one.name == name]
            if number == 0:
                for sigmas in plan.stands_out:
                    standing = sum(one.sigmas >= sigmas for one in found)
                    yield _row(f"stands out by {sigmas:g} sigma: {name}", share(standing, len(found)))
            if found:
                yield from _fault_rows(name, method, found, plan)


def _false_alarm_rows(results: Sequence[ChainResult], plan: PowerPlan) -> Iterator[Row]:
    method, track = results[0].method, results[0].track
    exposure = months(sum(one.hours for one in results))
    false = _row(
        f"false alarms per node-month, {track}, {method}", rate(sum(one.false_alarms for one in results), exposure)
    )
    if method != NAME:
        yield false
        return
    yield at_most(false, plan.budget)
    learning = rate(sum(one.learning_alarms for one in results), months(sum(one.learning_hours for one in results)))
    yield _row(f"false alarms per node-month while learning, {track}, {method}", learning)


def _fault_rows(name: str, method: str, found: Sequence[Found], plan: PowerPlan) -> Iterator[Row]:
    """Yield what one method made of one fault; goals are for our own judge, where the fault stands out."""
    standing = [one for one in found if one.sigmas >= plan.stands_out[0]]
    row = _row(f"found: {name}, {method}", _found_share(found))
    if standing and len(standing) < len(found):
        yield row
        row = _row(f"found where it stands out: {name}, {method}", _found_share(standing))
    yield at_least(row, plan.goals.found) if standing and method == NAME else row
    named = share(sum(one.named for one in found), len(found))
    if named.value or method == NAME:
        yield _row(f"named: {name}, {method}", named)
    delays = [one.delay_s for one in found if one.delay_s is not None]
    if delays:
        delay = _row(f"delay: {name}, {method}", median(delays), "s")
        stuck = method == NAME and name in {key for key, fault in plan.faults.items() if fault.put is Put.STUCK}
        yield at_most(delay, plan.goals.stuck_delay) if stuck else delay


def _found_share(found: Sequence[Found]) -> Measured:
    return share(sum(one.delay_s is not None for one in found), len(found))


def _found_sets(plan: PowerPlan) -> tuple[Path, tuple[str, ...]]:
    """Return the folder of all sets, and those that are not in it; EnvironmentLacksError where none is."""
    names = ", ".join(of.folder for of in plan.sets)
    root = data_root(holds=names)
    missing = missing_sets(root, plan)
    if {of.folder for of in plan.sets} <= {*missing}:
        raise EnvironmentLacksError(f"{root}: no recordings; expected folders {names}")
    return root, missing


def _runs(root: Path, plan: PowerPlan) -> list[tuple[PowerSet, list[Run]]]:
    return [(of, read_runs(root / of.folder, of)) for of in plan.sets]


def _chains(sets: Sequence[tuple[PowerSet, list[Run]]], plan: PowerPlan) -> list[Chain]:
    return [chain for of, runs in sets for chain in chains_of(runs, of, plan)]


def _rest_of(progress: Progress) -> Progress:
    """Return a progress that begins where the spread of R has ended."""
    return lambda what, done: progress(what, _BEFORE_SHARE + (1.0 - _BEFORE_SHARE) * done)
