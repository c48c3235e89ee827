"""Lines of `up`: records, actions that need approval, and the process that a stop waits for."""

from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest

from agent.guard.foresight import reflex_id
from config.models import Config
from railwatch.cli.live_lines import STEP_LINE_S, LiveLines, Reporter, slow_stop_reported
from railwatch.cli.printing import describe
from railwatch.cli.up import _approval_line
from railwatch.operator.entity_names import EntityNames
from railwatch.run import STOP_ORDER, STOPPING, NodeRun, RunRequest
from telemetry.clock import NS_PER_S, SystemClock
from telemetry.entities import Entity, EntityKind
from telemetry.gpu import KnobKind
from telemetry.record_json import from_json, to_json
from telemetry.records import Action, ActionState, Decision, IncidentState, Mode, Verdict
from tests.rules.scenes import incident

FORESEEN = reflex_id("supply:psu0", 1)
APPLIED = Action(
    id="a-1", time_ns=1, decision_id=f"sag:{FORESEEN}", incident_id=FORESEEN, knob="application_clock",
    entity_id="gpu:0", unit="MHz", knob_kind=KnobKind.CLOCK, found=1530.0, wanted=1057.0, read_back=1057.0,
    state=ActionState.APPLIED,
    mode=Mode.ENFORCE, lease_until_ns=None, owner="railwatch", reason="foreseen",
)  # fmt: skip
NOTIFY = Decision(
    id="d-1", time_ns=1, rule="notify-people", incident_id="i-1", action="notify", targets=("gpu:0",),
    lease_s=None, mode=Mode.ENFORCE, verdict=Verdict.EXECUTE, reason="it is hot",
)  # fmt: skip


def test_a_reflex_states_that_it_is_one_and_who_holds_the_clock_after_it() -> None:
    assert describe(APPLIED).endswith("1057 MHz applied (before: 1530 MHz) (reflex ahead of sag)")
    released = replace(APPLIED, state=ActionState.RELEASED)
    assert describe(released).endswith("released, the cap of the policy stays in force (reflex ahead of sag)")
    assert describe(replace(released, read_back=1530.0)).endswith("back to 1530 MHz (reflex ahead of sag)"), "no cap"
    assert describe(replace(APPLIED, state=ActionState.REFUSED)).endswith(
        "1057 MHz refused: foreseen (reflex ahead of sag)"
    )
    assert describe(replace(released, incident_id="i-1")).endswith("back to 1057 MHz")
    own = replace(APPLIED, incident_id="i-1")
    assert "reflex" not in describe(own)
    assert to_json(APPLIED, simulated=True)["ahead_of"] == "sag"
    assert from_json(to_json(APPLIED)) == APPLIED
    assert to_json(own, simulated=True)["ahead_of"] is None
    assert "ahead_of" not in to_json(NOTIFY)


def test_a_decision_without_a_knob_names_its_action_and_a_long_reason_is_cut_at_a_space() -> None:
    assert "  notify: it is hot  " in describe(NOTIFY)
    capped = replace(NOTIFY, action="clock_cap", knob=KnobKind.CLOCK, setting=1057.0)
    assert "clock_cap" not in describe(capped)
    long = f"{'a' * 100}; {'b' * 100}; {'c' * 100}"
    assert f"{'a' * 100};…  " in describe(replace(NOTIFY, reason=long))
    assert "c" * 100 in describe(replace(capped, reason=long)), "why a clock was chosen is kept"


@pytest.mark.parametrize(
    ("approval", "mode", "lines"),
    [
        (["clock_cap"], "enforce", ["clock_cap waits for approval: railwatch actions pending"]),
        (["clock_cap"], "observe", []),
        ([], "enforce", []),
    ],
)
def test_the_banner_names_what_waits_for_approval(approval: list[str], mode: str, lines: list[str]) -> None:
    config = Config.model_validate({"limits": {"approval": approval}, "actions": {"clock_cap": mode}})
    assert [*_approval_line(config, simulated=False)] == lines


def test_a_stop_that_takes_long_reports_what_it_waits_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert set(STOPPING) == set(STOP_ORDER)
    clock = SystemClock()
    run = NodeRun(Config(), RunRequest(plant_node="v100x4"), clock)
    reporter = Reporter(clock, simulated=True, as_json=False, data_dir=tmp_path)
    run.waits_for, printed = STOPPING["recorder"], ""
    with slow_stop_reported(run, reporter, after_s=0.01):
        for _ in range(6000):
            printed += capsys.readouterr().out
            if "waiting" in printed:
                break
            Event().wait(0.01)
        Event().wait(0.05)
    assert printed.strip() == f"still stopping: waiting for {STOPPING['recorder']}"
    assert capsys.readouterr().out == "", "the same process is reported once"


def test_a_brief_line_has_the_beginning_of_a_summary_and_what_holds_the_incident_down() -> None:
    summary = f"psu0 is at 9.5 mΩ, {'a' * 75} (5.3 mΩ), open circuit 12.3 V; a joint suspected"
    found = incident(state=IncidentState.MITIGATED)
    line = describe(replace(found, summary=summary, held=True), brief=True)
    assert f"{'a' * 75}…; held down by an action  " in line
    assert "5.3 mΩ" not in line
    assert "held down" not in describe(replace(found, summary=summary, held=False), brief=True)
    assert "5.3 mΩ" in describe(replace(found, summary=summary))


GPUS = [Entity(kind=EntityKind.GPU, key=f"GPU-{number}", name=f"gpu{number}") for number in range(4)]


def steps(*clocks_mhz: float, second: int = 0, state: ActionState = ActionState.APPLIED) -> list[Action]:
    """Return one change of each GPU for every clock, a second apart."""
    return [
        replace(
            APPLIED, id=f"cap:{gpu.key}", entity_id=gpu.id, incident_id="i-1", decision_id=f"d:{clock:g}", found=None,
            wanted=clock, read_back=clock, time_ns=(second + place) * NS_PER_S, state=state, reason=f"why {clock:g}",
        )
        for place, clock in enumerate(clocks_mhz)
        for gpu in GPUS
    ]  # fmt: skip


def test_a_series_of_steps_is_its_first_line_then_one_line_each_few_seconds_and_always_its_last_value() -> None:
    lines = LiveLines(lambda: EntityNames(GPUS))
    (first,) = lines.lines(steps(1400.0), now_s=0.0)
    assert first.endswith("clock cap GPUs 0-3: 1400 MHz applied (before: not set)")
    assert [*lines.lines(steps(1300.0, 1200.0, second=1), now_s=1.0)] == []
    (common,) = lines.lines([], now_s=STEP_LINE_S)
    assert common.endswith("clock cap GPUs 0-3: 1400 → 1200 MHz, 2 steps since 00:00:01")
    assert [*lines.lines(steps(1100.0, second=6), now_s=6.0)] == []
    last, released = lines.lines(steps(1100.0, second=7, state=ActionState.RELEASED), now_s=7.0)
    assert last.endswith("clock cap GPUs 0-3: 1200 → 1100 MHz applied")
    assert released.endswith("clock cap GPUs 0-3: released, back to 1100 MHz")
    (again,) = lines.lines(steps(1350.0, second=20), now_s=20.0)
    assert again.endswith("1350 MHz applied (before: not set)"), "the first step after a release"


def test_a_step_that_waits_is_printed_at_the_end_and_a_renewed_lease_is_not() -> None:
    lines = LiveLines(lambda: EntityNames(GPUS))
    assert len([*lines.lines(steps(1400.0, 1300.0), now_s=0.0)]) == 1
    assert [*lines.lines(steps(1300.0, second=2, state=ActionState.RENEWED), now_s=2.0)] == []
    (last,) = lines.last_lines(now_s=2.0)
    assert "1300 MHz" in last
    assert [*lines.last_lines(now_s=2.0)] == []


def test_decisions_of_a_series_and_unchanged_incidents_have_no_line_of_their_own() -> None:
    lines = LiveLines(lambda: EntityNames(GPUS))
    capped = replace(NOTIFY, action="clock_cap", knob=KnobKind.CLOCK, setting=1400.0)
    assert len([*lines.lines([capped, *steps(1400.0)], now_s=0.0)]) == 2
    assert [*lines.lines([replace(capped, id="d-2", setting=1300.0)], now_s=1.0)] == []
    assert len([*lines.lines([replace(capped, id="d-3", verdict=Verdict.REFUSE)], now_s=1.0)]) == 1
    found = incident(state=IncidentState.OPEN)
    assert len([*lines.lines([found, replace(found, summary="another figure")], now_s=2.0)]) == 1
    assert len([*lines.lines([replace(found, state=IncidentState.CLOSED)], now_s=3.0)]) == 1
