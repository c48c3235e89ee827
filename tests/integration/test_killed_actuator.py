"""Agent, guard and actuator killed at random points of an action, over the real driver library."""

import json
import subprocess
import sys
from typing import Any

import pytest

from simulator.driver.build import find_compiler
from tests.agent.actuation.privileged import ROOT

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]


def killed(program: str, points: int) -> list[dict[str, Any]]:
    """Run a program that kills at so many points; return its rows, none of which found an error."""
    if find_compiler() is None:
        pytest.skip("no C compiler to build the driver library with")
    done = subprocess.run(
        [sys.executable, "-m", program, "--points", str(points), "--seed", str(points)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row for row in rows if "wrong" in row] == [{"points": points, "seed": points, "wrong": 0}], done.stderr
    assert done.returncode == 0
    return rows


@pytest.mark.parametrize("points", [15, pytest.param(200, marks=pytest.mark.soak)])
def test_whatever_is_killed_every_knob_is_as_found_or_held_and_the_journal_states_which(points: int) -> None:
    rows = killed("tests.agent.actuation.killing", points)
    assert sum(row.get("held", 0) + row.get("held_safe", 0) for row in rows) > points, "hardly anything was held"


@pytest.mark.parametrize("points", [3, pytest.param(200, marks=[pytest.mark.soak, pytest.mark.timeout(3600)])])
def test_a_killed_guard_leaves_leases_and_the_next_one_goes_on_and_minds_a_person(points: int) -> None:
    rows = killed("tests.agent.guard.killing", points)
    assert sum(row.get("held", 0) for row in rows) >= points, "hardly anything was held"
