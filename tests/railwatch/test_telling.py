"""What `up` says: records in one line each, what waits for a person, and what a stop waits for."""

from dataclasses import replace
from threading import Event

import pytest

from agent.guard.foresight import reflex_id
from config.models import Config
from railwatch.cli.printing import describe, record_fields
from railwatch.cli.up import _approval_line, _Teller, _told_what_takes_long
from railwatch.run import STOP_ORDER, STOPPING, NodeRun, Wanted
from telemetry.clock import SystemClock
from telemetry.records import Action, ActionState, Decision, IncidentState, Mode, Verdict, to_json
from tests.rules.scenes import incident

FORESEEN = reflex_id("supply:psu0", 1)
APPLIED = Action(
    id="a-1", time_ns=1, decision_id=f"sag:{FORESEEN}", incident_id=FORESEEN, knob="application_clock",
    entity_id="gpu:0", unit="MHz", found=1530.0, wanted=1057.0, read_back=1057.0, state=ActionState.APPLIED,
    mode=Mode.ENFORCE, lease_until_ns=None, owner="railwatch", reason="foreseen",
)  # fmt: skip
NOTIFY = Decision(
    id="d-1", time_ns=1, rule="tell", incident_id="i-1", action="notify", targets=("gpu:0",), 
    lease_s=None, mode=Mode.ENFORCE, verdict=Verdict.EXECUTE, reason="it is hot",
)  # fmt: skip


def test_a_reflex_states_that_it_is_one_and_who_holds_the_clock_after_it() -> None:
    assert describe(APPLIED).endswith("found 1530 MHz (reflex ahead of sag)")
    released = replace(APPLIED, state=ActionState.RELEASED)
    assert describe(released).endswith("application_clock: the rules' own cap stands (reflex ahead of sag)")
    assert describe(replace(released, read_back=1530.0)).endswith("back to 1530 MHz (reflex ahead of sag)"), "no cap"
    assert describe(replace(APPLIED, state=ActionState.REFUSED)).endswith("1057 MHz: foreseen (reflex ahead of sag)")
    assert describe(replace(released, incident_id="i-1")).endswith("back to 1057 MHz")
    own = replace(APPLIED, incident_id="i-1")
    assert "reflex" not in describe(own)
    assert record_fields(APPLIED, simulated=True)["ahead_of"] == "sag"
    assert record_fields(own, simulated=True) == to_json(own, simulated=True)
    assert record_fields(NOTIFY, simulated=None) == to_json(NOTIFY)


def test_a_decision_names_what_is_no_cap_and_is_cut_at_the_end_of_a_part() -> None:
    assert "  notify: it is hot  " in describe(NOTIFY)
    assert "clock_cap" not in describe(replace(NOTIFY, action="clock_cap"))
    long = f"{'a' * 100}; {'b' * 100}; {'c' * 100}"
    told = describe(replace(NOTIFY, reason=long))
    assert f"{'b' * 100} ...  " in told
    assert "c" * 100 in describe(replace(NOTIFY, reason=long, action="clock_cap")), "why a clock was chosen is kept"


@pytest.mark.parametrize(
    ("approval", "mode", "words"),
    [
        (["clock_cap"], "enforce", ["clock_cap waits for a person's approval: railwatch actions pending"]),
        (["clock_cap"], "observe", []),
        ([], "enforce", []),
    ],
)
def test_the_banner_states_what_waits_for_a_person(approval: list[str], mode: str, words: list[str]) -> None:
    config = Config.model_validate({"rails": {"approval": approval}, "actions": {"clock_cap": mode}})
    assert [*_approval_line(config, simulated=False)] == words


def test_a_stop_that_takes_long_states_what_it_waits_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert set(STOPPING) == set(STOP_ORDER)
    clock = SystemClock()
    run = NodeRun(Config(), Wanted(plant_node="v100x4"), clock)
    teller = _Teller(clock, simulated=True, as_json=False)
    run.waits_for, said = STOPPING["recorder"], ""
    with _told_what_takes_long(run, teller, after_s=0.01):
        for _ in range(6000):
            said += capsys.readouterr().out
            if "waiting" in said:
                break
            Event().wait(0.01)
        Event().wait(0.05)
    assert said.strip() == f"still stopping: waiting for {STOPPING['recorder']}"
    assert capsys.readouterr().out == "", "the same is said once"


def test_a_line_of_a_live_run_has_the_beginning_of_what_was_found_and_what_holds_it_down() -> None:
    summary = f"psu0 is at 9.5 mohm, {'a' * 60} (5.3 mohm), open circuit 12.3 V; the same would disprove it"
    found = incident(state=IncidentState.MITIGATED)
    told = describe(replace(found, summary=summary, held=True), brief=True)
    assert f"{'a' * 60} ...; held down by an action  " in told
    assert "5.3 mohm" not in told
    assert "held down" not in describe(replace(found, summary=summary, held=False), brief=True)
    assert "5.3 mohm" in describe(replace(found, summary=summary))
