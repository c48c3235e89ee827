"""Requests that no policy may make, in whole policies."""

from dataclasses import replace

import pytest

from agent.actuation import protocol
from rules.policy.forbidden import LEASE_MAX_S, forbidden_reach, forbidden_values
from rules.policy.loading import load_builtin_policies
from rules.policy.model import ActionClass, Budget, Policy, Target

POLICIES = {policy.id: policy for policy in load_builtin_policies()}
NOTIFY = POLICIES["gpu-lost-notify"]
CAP = POLICIES["thermal-margin-clock-cap"]
BUDGET = Budget(actions=1, per_s=3600.0)


def keys(policy: Policy) -> list[str]:
    return [".".join(map(str, item.key)) for item in forbidden_reach(policy)]


@pytest.mark.parametrize("action", [ActionClass.DRAIN, ActionClass.REQUEUE])
def test_what_reaches_the_whole_node_needs_a_budget_and_a_pause(action: ActionClass) -> None:
    bare = replace(NOTIFY, then=replace(NOTIFY.then, action=action, cooldown_s=0.0))
    assert keys(bare) == ["then.budget", "then.cooldown"]
    assert keys(replace(bare, then=replace(bare.then, budget=BUDGET, cooldown_s=60.0))) == []


def test_a_power_cycle_needs_a_person() -> None:
    cycle = replace(NOTIFY, then=replace(NOTIFY.then, action=ActionClass.POWER_CYCLE, budget=BUDGET))
    assert keys(cycle) == ["then.approval"]
    assert keys(replace(cycle, then=replace(cycle.then, approval=True))) == []


@pytest.mark.parametrize("target", [Target.ALL_GPUS, Target.ALL_GPUS_OF_SUPPLY, Target.ALL_GPUS_OF_JOB])
def test_many_gpus_need_a_budget_and_one_does_not(target: Target) -> None:
    wide = replace(CAP, then=replace(CAP.then, target=target))
    assert keys(wide) == ["then.budget"]
    assert keys(replace(wide, then=replace(wide.then, budget=BUDGET))) == []
    assert keys(CAP) == []


def test_a_lease_of_years_is_none() -> None:
    assert keys(replace(CAP, then=replace(CAP.then, lease_s=LEASE_MAX_S))) == []
    assert keys(replace(CAP, then=replace(CAP.then, lease_s=LEASE_MAX_S + 1.0))) == ["then.lease"]
    assert LEASE_MAX_S == protocol.LEASE_MAX_S, "what the actuator refuses is refused at load"


def test_no_rung_stands_on_itself() -> None:
    assert keys(replace(NOTIFY, after=NOTIFY.id)) == ["after"]


@pytest.mark.parametrize("document", [None, [], "x", {}, {"then": None}, {"then": [1]}, {"then": {"action": None}}])
def test_what_is_no_policy_at_all_is_left_to_others(document: object) -> None:
    assert list(forbidden_values(document)) == []
