"""Seeds together: figures with bounds, beside the same without railwatch."""

from dataclasses import replace

import pytest

from evaluation.rehearsal.actions import ActionSummary
from evaluation.rehearsal.outcome import RunOutcome
from evaluation.rehearsal.runs import SeedResult
from evaluation.rehearsal.summary import Figure, cost_only, not_carried_out, summarised

_WELL = RunOutcome(
    drops=0,
    first_drop_s=None,
    steps=90,
    rail_min_v=11.5,
    below_s=0.0,
    first_below_s=None,
    clock_mean_mhz=1200.0,
    clock_lowest_mhz=1005.0,
)


def result_of(seed: int, *, bare_drops: int, steps: int = 90) -> SeedResult:
    """Return a seed without a drop under railwatch."""
    return SeedResult(
        seed=seed,
        duration_s=60.0,
        watched=replace(_WELL, steps=steps),
        bare=replace(_WELL, drops=bare_drops, steps=40),
        healthy_steps=100,
        actions=ActionSummary(caps=2, reported={"notify": 1}),
    )


def _figure(name: str, figures: tuple[Figure, ...]) -> Figure:
    return next(figure for figure in figures if figure.name == name)


def test_drops_have_the_bounds_of_a_count_and_the_same_without_railwatch_beside_them() -> None:
    drops = _figure("drops", summarised([result_of(1, bare_drops=1), result_of(2, bare_drops=2)]))
    assert drops.watched.value == 0.0
    assert drops.watched.high is not None
    assert drops.watched.high > 1.0, "two runs without a drop prove little"
    assert drops.bare is not None
    assert drops.bare.value == 1.5


def test_goodput_is_steps_against_the_healthy_node() -> None:
    goodput = _figure(
        "goodput", summarised([result_of(1, bare_drops=1, steps=80), result_of(2, bare_drops=1, steps=100)])
    )
    assert goodput.watched.value == pytest.approx(0.9)
    assert goodput.bare is not None
    assert goodput.bare.value == pytest.approx(0.4)


def test_a_job_without_steps_has_no_goodput() -> None:
    result = replace(result_of(1, bare_drops=0), healthy_steps=0)
    assert _figure("goodput", summarised([result])).watched.value is None


def test_bounds_end_where_nothing_can_lie() -> None:
    results = [result_of(seed, bare_drops=0, steps=steps) for seed, steps in ((1, 100), (2, 1), (3, 100))]
    goodput = _figure("goodput", summarised(results))
    assert (goodput.watched.low, goodput.watched.high) == (0.0, 1.0)
    assert _figure("goodput", summarised(results[:2])).watched.high is None, "two seeds bound nothing"


def test_one_seed_has_no_bounds_of_its_mean() -> None:
    clock = _figure("mean clock", summarised([result_of(1, bare_drops=0)]))
    assert (clock.watched.low, clock.watched.high) == (None, None)


def test_decisions_of_other_kinds_are_counted_over_the_seeds() -> None:
    assert not_carried_out([result_of(1, bare_drops=0), result_of(2, bare_drops=0)]) == {"notify": 2}


def test_caps_that_lowered_the_goodput_and_prevented_no_drop_are_reported() -> None:
    costly = result_of(1, bare_drops=0, steps=30)
    assert cost_only([costly]) == (
        "capping only cost goodput: 0.300 with railwatch, 0.400 without; no drop was prevented"
    )
    assert cost_only([result_of(1, bare_drops=0, steps=40)]) is None, "as much was done"
    assert cost_only([result_of(1, bare_drops=1, steps=30)]) is None, "a drop was prevented"
    assert cost_only([replace(costly, actions=ActionSummary())]) is None, "nothing was capped"
    assert cost_only([replace(costly, healthy_steps=0)]) is None, "the goodput is not known"
