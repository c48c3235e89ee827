"""How the actuator process is set up from the configuration."""

import json
from pathlib import Path

import pytest

from agent.actuation.limits import UnreadableClocks
from railwatch.processes.actuator import settings_of
from railwatch.session import DriverKind, Session
from telemetry.records import Mode


@pytest.mark.parametrize(
    ("simulated", "actions", "mode"),
    [
        (False, {}, Mode.OBSERVE),
        (True, {}, Mode.ENFORCE),
        (True, {"clock_cap": "observe"}, Mode.OBSERVE),
        (False, {"clock_cap": "enforce", "unreadable_clocks": "allow"}, Mode.ENFORCE),
    ],
)
def test_the_actuator_goes_no_further_than_the_configuration(
    tmp_path: Path, actions: dict[str, str], mode: Mode, *, simulated: bool
) -> None:
    config = json.dumps({"actions": actions})
    session = Session(run_dir=tmp_path, config_json=config, driver=DriverKind.NONE, source="test", simulated=simulated)
    settings = settings_of(session)
    assert settings.highest_mode is mode
    allowed = settings.unreadable is UnreadableClocks.ALLOW
    assert allowed is ("unreadable_clocks" in actions)
