"""Caps on nodes whose joints get worse: held, and hardly stricter than needed."""

import pytest

from evaluation.control.caps import CapsCase, caps_rows, simulate_caps
from evaluation.control.caps_plan import CAPS, CapsPlan
from evaluation.rows import Row
from telemetry.documents import load_document


def plan(episodes: int) -> CapsPlan:
    return load_document(CapsPlan, CAPS).model_copy(update={"episodes": episodes})


@pytest.mark.timeout(120)
@pytest.mark.parametrize("node", ["v100x4", "h100x8"])
def test_caps_hold_and_are_at_most_two_clock_steps_stricter_than_needed(node: str) -> None:
    result = simulate_caps(CapsCase(plan=plan(2), node=node, seed=1))
    assert result.held == 2 - result.uncapped
    assert all(0 <= steps <= 2 for steps in result.steps)


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("node", ["v100x4", "a100x8", "h100x8", "b200x8"])
def test_fifty_caps_of_each_node_hold_within_two_clock_steps(node: str) -> None:
    case = plan(50)
    result = simulate_caps(CapsCase(plan=case, node=node, seed=case.first_seed))
    assert result.held == 50 - result.uncapped
    assert result.uncapped <= 5
    assert 0 <= min(result.steps) <= max(result.steps) <= case.goals.steps


def test_the_rows_name_each_node_with_its_goals() -> None:
    case = plan(2)
    rows: list[Row] = list(caps_rows([simulate_caps(CapsCase(plan=case, node="v100x4", seed=2))]))
    assert [row.name.split(":")[0] for row in rows] == ["v100x4"] * 3
    assert [bool(row.goal) for row in rows] == [True, False, True]
