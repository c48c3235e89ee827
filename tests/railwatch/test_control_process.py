"""The guard's state as the control process reads it: breaker and recent actions, or unreadable."""

import json
from pathlib import Path

from railwatch.processes.control import read_guard
from rules.engine.memory import ActionTaken, Memory
from rules.limits.node import Breaker
from rules.policy.model import ActionClass


def test_the_guards_breaker_and_its_actions_count_and_one_that_cannot_be_read_is_no_free_hand(tmp_path: Path) -> None:
    path = tmp_path / "guard.json"
    assert read_guard(path) == (None, ())
    memory = Memory(acted=[ActionTaken(action=ActionClass.CLOCK_CAP, policy_id="p", time_ns=7)])
    path.write_text(json.dumps({"engine": memory.snapshot()}))
    assert read_guard(path) == (None, ((ActionClass.CLOCK_CAP, 7),))
    memory.breaker = Breaker(tripped_ns=8, reason="three decisions failed")
    path.write_text(json.dumps({"engine": memory.snapshot()}))
    assert read_guard(path)[0] == "three decisions failed"
    for text in ("", "{}", '{"engine": {"breaker": null}}'):
        path.write_text(text)
        assert read_guard(path) == ("state file of the guard cannot be read", ())
