"""Cost limits of reads."""

import math

from agent.sampler.pacing.budget import WINDOW_S, Budget, BudgetSettings


def spend(budget: Budget, cpu_ratio: float, driver_ratio: float, windows: int, start: int = 0) -> None:
    for number in range(start, start + windows + 1):
        now_s = number * WINDOW_S
        budget.spend(now_s, cpu_s=cpu_ratio * now_s, driver_s=driver_ratio * now_s)


def test_within_the_budget_nothing_is_stretched() -> None:
    budget = Budget(BudgetSettings(cpu_ratio=0.1, driver_ratio=0.1))
    assert math.isnan(budget.cpu_ratio)
    spend(budget, 0.05, 0.09, 5)
    assert (budget.stretch, budget.over) == (1.0, "")
    assert math.isclose(budget.driver_ratio, 0.09)


def test_either_share_over_the_budget_stretches_and_is_named() -> None:
    for shares, over_budget in (((0.2, 0.0), "CPU"), ((0.0, 0.2), "driver")):
        budget = Budget(BudgetSettings(cpu_ratio=0.1, driver_ratio=0.1))
        spend(budget, *shares, 3)
        assert budget.stretch > 2.0
        assert over_budget in budget.over


def test_it_comes_back_slowly_and_stops_at_one() -> None:
    budget = Budget(BudgetSettings())
    spend(budget, 0.5, 0.0, 2)
    high = budget.stretch
    spend(budget, 0.01, 0.0, 1, start=100)
    assert 0.5 * high < budget.stretch < high
    spend(budget, 0.01, 0.0, 40, start=200)
    assert budget.stretch == 1.0


def test_the_counters_of_a_new_thread_are_no_negative_cost() -> None:
    budget = Budget(BudgetSettings())
    budget.spend(0.0, cpu_s=5.0, driver_s=1.0)
    assert not budget.spend(10.0, cpu_s=0.1, driver_s=1.1)
    assert math.isnan(budget.cpu_ratio)
