"""The suite `control`: is the cap the right one, does it save the node, and what does it cost.

Real here: the law, the engine with the built-in policies and rails, the incident book, the window of the last seconds,
the detectors of sags and of source resistance; in the first minutes of a job also the plant's milliseconds, its sensors
and the actuator with its journals. Summarised: in the months, the node between two looks (`simulator.fleet`), samples
(`control_windows`), and an actuator that always succeeds. `tier B against tier A` measures how far that holds.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from operator import call
from typing import Any

from analytics.scoring.bounds import rate_bounds
from evaluation.control.caps import CapsCase, caps_rows, simulate_caps
from evaluation.control.caps_plan import CAPS, CapsPlan
from evaluation.control.check import CapState, TierAgreement, compare_tiers
from evaluation.control.months import MonthCase, MonthResult, Strategy, simulate_month, worn
from evaluation.control.plan import CONTROL, CheckPlan, ControlPlan, LawPlan, MonthsPlan, StoryPlan
from evaluation.control.story import (
    JobStartPlan,
    JobStartResult,
    law_mhz,
    least_drops,
    simulate_start,
    steps_apart,
    true_limit_mhz,
)
from evaluation.measures import Measured, longest, mean, median, rate
from evaluation.rows import Effort, Progress, Row, at_least, at_most, measured_row, step_counter
from evaluation.workers import each
from simulator.files.node import load_node
from telemetry.documents import load_document

SUITE = "control"
_row = partial(measured_row, SUITE)


def control_rows(effort: Effort, progress: Progress) -> Iterator[Row]:
    """Yield all rows, those of the story first; `seeds` of the effort are starts of the job and nodes of a month."""
    plan = _asked(load_document(ControlPlan, CONTROL), effort)
    months = _months(plan)
    starts = _starts(plan.story)
    states = _states(plan.months, plan.check)
    caps = _caps(load_document(CapsPlan, CAPS), effort)
    # The long ones first, so that no processor waits for the last.
    pieces: list[Callable[[], Any]] = [partial(simulate_month, one) for one in months]
    pieces += [partial(simulate_start, one) for one in starts]
    pieces += [partial(simulate_caps, one) for one in caps]
    pieces += [partial(compare_tiers, one) for one in states]
    results = iter(list(each(call, pieces, done=step_counter(progress, len(pieces), "parts"))))
    lived, started, capped = (list(islice(results, len(one))) for one in (months, starts, caps))
    yield from story_rows(plan.story, list(zip(starts, started, strict=True)))
    yield from law_rows(plan.law)
    yield from story_month_rows(plan, lived[0])
    yield from month_rows(plan.months, list(zip(months[1:], lived[1:], strict=True)))
    yield from caps_rows(capped)
    yield from check_rows(plan.check, list(results))


def story_rows(plan: StoryPlan, starts: Sequence[tuple[JobStartPlan, JobStartResult]]) -> Iterator[Row]:
    """Yield what is known of the story's node: its limit, the law's answer, and what happens when a job starts.

    A clock above the law's answer is no fault: the cap is corrected by what was measured. The true voltages bound it.
    """
    node = load_node(plan.node)
    true_mhz, computed_mhz = true_limit_mhz(node, plan.limit_v), law_mhz(node, plan.limit_v)
    at_v = f"{plan.limit_v:.2f} V"
    yield _row(f"highest clock that holds {at_v}, by bisection on the plant", Measured(value=true_mhz), "MHz")
    apart = Measured(value=float(steps_apart(node, true_mhz, computed_mhz)))
    yield at_most(_row("computed clock against it, supported steps", apart), plan.steps)
    off = Measured(value=abs(computed_mhz - plan.published_mhz))
    yield at_most(_row(f"computed clock against {plan.published_mhz:g} MHz", off, "MHz"), plan.within_mhz)
    held = [end for start, end in starts if start.hold_v is not None]
    caps = [end.cap_mhz for end in held if end.cap_mhz is not None]
    yield _row(f"clock that railwatch holds for {at_v} on its own samples", median(caps), "MHz")
    below = longest([max(plan.published_mhz - cap_mhz, 0.0) for cap_mhz in caps])
    yield at_most(_row(f"that clock below {plan.published_mhz:g} MHz, worst start", below, "MHz"), plan.within_mhz)
    lowest_v = Measured(value=min((end.settled_min_v for end in held), default=None))
    yield at_least(_row("lowest true voltage under it", lowest_v, "V"), plan.limit_v)
    next_v = Measured(value=min((end.next_min_v for end in held), default=None))
    yield at_least(_row("lowest true voltage as the next job starts", next_v, "V"), plan.limit_v - plan.next_within_v)
    yield from _start_rows(plan, starts)


def law_rows(plan: LawPlan) -> Iterator[Row]:
    """Yield by how many supported clocks the computed one is off at its worst, node by node."""
    for name, branches_mohm in plan.nodes.items():
        node = load_node(name)
        limit_v = plan.limit_ratio * node.supply.nominal_rail_v
        nodes = [worn(node, branch_mohm) for branch_mohm in branches_mohm]
        apart = longest([steps_apart(one, true_limit_mhz(one, limit_v), law_mhz(one, limit_v)) for one in nodes])
        worst = _row(f"computed clock that holds {limit_v:.2f} V on {name}, supported steps off", apart)
        yield at_most(worst, plan.steps)


def _start_rows(plan: StoryPlan, starts: Sequence[tuple[JobStartPlan, JobStartResult]]) -> Iterator[Row]:
    """Yield how many jobs were lost at once; an unmeasured path has shown nothing by then to act upon."""
    for watched, reported, text in (
        (False, False, "without railwatch"),
        (True, False, "with it, unmeasured_start: full"),
        (True, True, "with it, unmeasured_start: ramp"),
    ):
        kind = (watched, reported, None)
        ends = [end for start, end in starts if (start.watched, start.reported, start.hold_v) == kind]
        lost = sum(end.outcome.drops > 0 for end in ends)
        row = _row(f"jobs lost in the first {plan.start:g} s, {text}", rate(lost, len(ends)), "a start")
        yield at_most(row, 0.0) if reported else row


def story_month_rows(plan: ControlPlan, result: MonthResult) -> Iterator[Row]:
    """Yield drops and goodput of the story's node; no clock that the rails allow saves it, so its goal is that clock's.

    The drops that the lowest clock leaves are a mean; what chance makes of it in so many nodes is no miss.
    """
    days = plan.story.days
    floor_mhz, least = least_drops(load_node(plan.story.node), days)
    drops = _row(f"drops in {days} days of the story's node, with railwatch", _drops(result))
    yield at_most(drops, _most_by_chance(least, len(result.drops)))
    yield _row(f"the same to expect at {floor_mhz:g} MHz, the lowest clock that the rails allow", Measured(value=least))
    yield _row("goodput of the story's node against one that is well", mean(result.goodput))


def _most_by_chance(mean_count: float, n_nodes: int) -> float:
    """Return the most drops a node that some nodes with this mean may show; more are rarer than one in forty."""
    count = 0
    while rate_bounds(count + 1, n_nodes)[0] <= mean_count:
        count += 1
    return count / n_nodes


def month_rows(plan: MonthsPlan, lived: Sequence[tuple[MonthCase, MonthResult]]) -> Iterator[Row]:
    """Yield drops, goodput and mean clock of each strategy on a node that degrades."""
    for month, result in lived:
        name = _named(month)
        judged = month.strategy is Strategy.OURS and month.hold_v is None
        drops = _row(f"drops in {plan.days} days, {name}", _drops(result))
        yield at_most(drops, plan.goals.drops) if judged else drops
        goodput = _row(f"goodput, {name}", mean(result.goodput))
        yield at_least(goodput, plan.goals.goodput) if judged else goodput
        yield _row(f"mean clock cap, {name}", mean(result.clock_mhz), "MHz")


def check_rows(plan: CheckPlan, agreements: Sequence[TierAgreement]) -> Iterator[Row]:
    """Yield how far the closed form is from the millisecond, at its worst."""
    over = f"tier B against tier A over {sum(one.state.duration_s for one in agreements) / 3600.0:.2g} h"
    voltage = longest([one.voltage_error_v for one in agreements])
    yield at_most(_row(f"{over}, lowest voltage", voltage, "V"), plan.goals.voltage_v)
    pace = longest([one.pace_error_ratio for one in agreements])
    yield at_most(_row(f"{over}, pace of the job", pace), plan.goals.pace)
    hazard = longest([one.hazard_ratio for one in agreements])
    yield at_most(_row(f"{over}, drops to expect, factor", hazard), plan.goals.hazard)


def _asked(plan: ControlPlan, effort: Effort) -> ControlPlan:
    """Return the plan with as many seeds as were asked for."""
    if effort.seeds is None:
        return plan
    seeds = {"seeds": effort.seeds}
    return plan.model_copy(
        update={"story": plan.story.model_copy(update=seeds), "months": plan.months.model_copy(update=seeds)}
    )


def _caps(plan: CapsPlan, effort: Effort) -> list[CapsCase]:
    """Return a case per kind of node; with fewer seeds, as many episodes of each."""
    if effort.seeds is not None:
        plan = plan.model_copy(update={"episodes": min(plan.episodes, effort.seeds)})
    return [CapsCase(plan=plan, node=name, seed=plan.first_seed) for name in plan.nodes]


def _months(plan: ControlPlan) -> list[MonthCase]:
    """Return the story's month, then all ways of the node that degrades."""
    story, months = plan.story, plan.months
    branch_mohm = load_node(story.node).supply.units[0].branch_mohm
    steady = months.model_copy(
        update={
            "node": story.node,
            "branch_from_mohm": branch_mohm,
            "branch_to_mohm": branch_mohm,
            "days": story.days,
            "seeds": story.seeds,
        }
    )
    others = [MonthCase(plan=months, strategy=strategy) for strategy in Strategy if strategy is not Strategy.OURS]
    ours = [MonthCase(plan=months, strategy=Strategy.OURS, hold_v=hold_v) for hold_v in (None, *months.hold_v)]
    return [MonthCase(plan=steady, strategy=Strategy.OURS), *others, *ours]


def _starts(plan: StoryPlan) -> list[JobStartPlan]:
    seeds = range(plan.first_seed, plan.first_seed + plan.seeds)
    return [
        *(
            JobStartPlan(plan=plan, seed=seed, watched=True, hold_v=plan.limit_v, failing=False, again=True)
            for seed in list(seeds)[: plan.cap_seeds]
        ),
        *(
            JobStartPlan(plan=plan, seed=seed, watched=watched, reported=reported)
            for watched, reported in ((True, True), (True, False), (False, False))
            for seed in seeds
        ),
    ]


def _states(months: MonthsPlan, plan: CheckPlan) -> list[CapState]:
    return [
        CapState(
            node=months.node,
            branch_mohm=one.branch_mohm,
            clock_mhz=one.clock_mhz,
            duration_s=plan.duration,
            seed=months.first_seed,
        )
        for one in plan.states
    ]


def _drops(result: MonthResult) -> Measured:
    return rate(sum(result.drops), len(result.drops))


def _named(month: MonthCase) -> str:
    if month.strategy is not Strategy.OURS:
        return str(month.strategy)
    return "railwatch as it comes" if month.hold_v is None else f"railwatch holding {month.hold_v:.2f} V"
