"""From rows to decisions: what comes out, that it comes out the same again, and that memory stays bounded."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest

from agent.guard.pipeline import Pipeline, PipelineSettings, StepRecords
from physics.node_state import MeasuredNode
from rules.limits.node import NodeLimits
from rules.policy.loading import load_builtin_policies
from rules.policy.model import ActionClass, Target, Verb
from telemetry.clock import NS_PER_S
from telemetry.commands import CommandVerb, new_command
from telemetry.entities import EntityKind
from telemetry.frames import Frame, TableSpec
from telemetry.record_json import to_json
from telemetry.records import (
    Action,
    ActionState,
    Cause,
    Decision,
    Event,
    EventKind,
    FindingStatus,
    Incident,
    IncidentState,
    Mode,
    Record,
    Severity,
    Verdict,
)
from tests.agent.guard.box import (
    GOOD_OHM,
    GPUS,
    SPECS,
    SUPPLIES,
    SUPPORTED_MHZ,
    TOPOLOGY,
    WEAK_OHM,
    Box,
    done,
    make_pipeline,
)

ENFORCED = dict.fromkeys(ActionClass, Mode.ENFORCE)
THERMAL_OF_JOB = next(
    replace(policy, then=replace(policy.then, target=Target.ALL_GPUS_OF_JOB))
    for policy in load_builtin_policies()
    if policy.id == "thermal-margin-clock-cap"
)


class Loop:
    """A box under a pipeline whose decisions take effect as a real actuator would make them."""

    def __init__(self, mode: Mode = Mode.ENFORCE) -> None:
        self.caps: dict[str, float] = {}
        self.box = Box(clock_mhz=self.caps.get)
        self.pipeline = make_pipeline(mode)
        self.records: list[Record] = []

    def run(self, seconds: float, *, rows: int = 1) -> Iterator[StepRecords]:
        """Step through so many seconds, some rows at a time."""
        for _ in range(round(seconds * 20 / rows)):
            frames = self.box.frames(rows)
            step = self.pipeline.step(frames, (), self.box.time_ns)
            self.records += step.records
            for decision in step.to_execute:
                self.obey(decision)
            yield step

    def obey(self, decision: Decision) -> None:
        released = decision.action == Verb.CLOCK_RELEASE
        for target in decision.targets:
            uuid = target.removeprefix("gpu:")
            if released or decision.clock_mhz is None:
                self.caps.pop(uuid, None)
            else:
                self.caps[uuid] = decision.clock_mhz
        state = ActionState.RELEASED if released else ActionState.APPLIED
        self.records += self.pipeline.note_actions(done(decision, state, now_ns=self.box.time_ns), self.box.time_ns)

    def of(self, kind: type[Record]) -> list[Record]:
        return [record for record in self.records if isinstance(record, kind)]

    def incidents(self) -> list[Incident]:
        return [record for record in self.records if isinstance(record, Incident)]


def last(steps: Iterator[StepRecords]) -> StepRecords:
    *_, step = steps
    return step


def test_a_healthy_box_returns_no_record() -> None:
    loop = Loop()
    last(loop.run(30, rows=5))
    assert loop.records == []


def test_a_sag_becomes_finding_incident_and_decision_in_one_step_and_the_outcome_states_that_it_helped() -> None:
    loop = Loop()
    last(loop.run(5, rows=5))
    loop.box.resistance_ohm = WEAK_OHM
    first = next(step for step in loop.run(2) if step.findings)
    assert {finding.cause for finding in first.findings} == {Cause.SUPPLY_SAG}
    assert {finding.entity_id for finding in first.findings} == {supply.id for supply in SUPPLIES}
    (decision,) = first.to_execute
    assert decision.verdict is Verdict.EXECUTE
    assert set(decision.targets) == {gpu.id for gpu in GPUS}
    assert decision.incident_id in {incident.id for incident in first.incidents}
    last(loop.run(20, rows=5))
    newest = loop.incidents()[-1]
    assert newest.state is IncidentState.MITIGATED
    assert "held down by railwatch's own clock cap" in newest.text
    (outcome,) = [record for record in loop.records if to_json(record)["type"] == "outcome"]
    fields = to_json(outcome)
    assert fields["helped"] is True
    assert fields["before"] < 11.4 <= fields["after"]
    assert (fields["measure"], fields["unit"]) == ("voltage_v", "V")
    assert fields["decision_id"] in {to_json(record)["id"] for record in loop.of(Decision)}


def test_the_rules_see_at_the_next_step_that_an_action_is_in_force(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = Loop()
    last(loop.run(5, rows=5))
    loop.box.resistance_ohm = WEAK_OHM
    next(step for step in loop.run(2) if step.to_execute)
    (restated,) = [record for record in loop.records[-1:] if isinstance(record, Incident)]
    assert "railwatch's own clock cap is in force" in restated.text
    engine, seen = loop.pipeline.engine, list[Incident]()
    decide = engine.step

    def watched(incidents: Sequence[Incident], node: MeasuredNode, now_ns: int) -> tuple[Decision, ...]:
        seen.extend(incidents)
        return decide(incidents, node, now_ns)

    monkeypatch.setattr(engine, "step", watched)
    last(loop.run(0.1))
    assert restated in seen
    assert seen.count(restated) == 1


def test_the_first_record_of_a_sag_stands_in_the_step_of_the_row_that_crosses_the_limit() -> None:
    loop = Loop()
    last(loop.run(5, rows=5))  # five whole training steps: the next row is at full load
    loop.box.resistance_ohm = WEAK_OHM
    assert next(loop.run(1)).findings[0].status is FindingStatus.RAISED


def process_event(*job_gpus: tuple[str, str]) -> Event:
    return Event(
        id="gpu_process:GPU-0:10:77:began:0",
        time_ns=0,
        kind=EventKind.GPU_PROCESS,
        entity_id=GPUS[0].id,
        code=None,
        severity=Severity.INFO,
        message="python3 (pid 10) began to use gpu0",
        sources=("nvml",),
        job_gpus=job_gpus,
    )


def test_a_cap_for_a_job_follows_what_events_state_of_who_computes_where() -> None:
    def capped(*job_gpus: tuple[str, str]) -> Decision:
        loop = Loop()
        settings = PipelineSettings(policies=(THERMAL_OF_JOB,), action_limits=NodeLimits(modes=ENFORCED))
        loop.pipeline = Pipeline(SPECS, TOPOLOGY, settings, supported_mhz=SUPPORTED_MHZ)
        news = process_event(*job_gpus)
        loop.pipeline.step((), (news, replace(news, id="another", job_gpus=None)), loop.box.time_ns)
        loop.box.temp_c = {0: 85.0}
        return next(step.to_execute[0] for step in loop.run(60, rows=5) if step.to_execute)

    hot, one, two, other = (gpu.id for gpu in GPUS)
    job = capped(("slurm:7", hot), ("slurm:7", two), ("slurm:8", other))
    assert job.targets == (hot, two)
    assert job.reason.endswith("for the job slurm:7 on gpu0, gpu2")
    assert capped(("slurm:7", one)).targets == (hot, one, two, other)


def test_where_nothing_is_enforced_the_decision_is_reported_and_not_executed() -> None:
    loop = Loop(Mode.RECOMMEND)
    loop.box.resistance_ohm = WEAK_OHM
    last(loop.run(20, rows=5))
    verdicts = {record.verdict for record in loop.of(Decision) if isinstance(record, Decision)}
    assert verdicts == {Verdict.RECOMMEND}
    assert loop.caps == {}
    assert [record for record in loop.records if to_json(record)["type"] == "outcome"] == []


def test_the_same_rows_give_the_same_records() -> None:
    def run() -> list[dict[str, object]]:
        loop = Loop()
        last(loop.run(4, rows=5))
        loop.box.resistance_ohm = WEAK_OHM
        last(loop.run(16, rows=5))
        return [to_json(record) for record in loop.records]

    assert run() == run() != []


def test_rows_that_come_in_larger_portions_give_the_same_findings() -> None:
    def findings(rows: int) -> list[tuple[str, int]]:
        loop = Loop(Mode.OBSERVE)
        last(loop.run(4, rows=rows))
        loop.box.resistance_ohm = WEAK_OHM
        steps = loop.run(4, rows=rows)
        return [(finding.id, finding.time_ns) for step in steps for finding in step.findings]

    assert findings(1) == findings(5) != []


def test_what_was_open_goes_on_after_a_restart() -> None:
    loop = Loop()
    loop.box.resistance_ohm = WEAK_OHM
    last(loop.run(15, rows=5))
    state = json.loads(json.dumps(loop.pipeline.snapshot()))
    claims = loop.pipeline.engine.claims
    assert claims
    again = make_pipeline()
    again.restore(state, loop.box.time_ns)
    assert again.engine.claims == claims
    assert again.snapshot()["engine"] == state["engine"]
    loop.pipeline = again
    opened = {incident.id for incident in loop.incidents()}
    loop.pipeline.note_actions(_held(claims[0].decision_id, loop, claims[0].strictest), loop.box.time_ns)
    last(loop.run(20, rows=5))
    assert {incident.id for incident in loop.incidents()} == opened
    assert loop.incidents()[-1].state is IncidentState.MITIGATED


def _held(decision_id: str, loop: Loop, clock_mhz: float) -> tuple[Action, ...]:
    decision = next(r for r in loop.of(Decision) if isinstance(r, Decision) and r.id == decision_id)
    return done(decision, ActionState.APPLIED, now_ns=loop.box.time_ns)


def test_an_action_that_is_not_stated_again_after_a_restart_holds_nothing_and_the_incident_closes() -> None:
    loop = Loop()
    loop.box.resistance_ohm = WEAK_OHM
    last(loop.run(15, rows=5))
    again = make_pipeline(Mode.OBSERVE)
    again.restore(json.loads(json.dumps(loop.pipeline.snapshot())), loop.box.time_ns)
    loop.pipeline, loop.box.resistance_ohm = again, GOOD_OHM
    last(loop.run(200, rows=20))
    assert loop.incidents()[-1].state is IncidentState.CLOSED


@pytest.mark.parametrize("damage", [{}, {"book": {}}, {"book": {"version": 1, "cases": []}, "engine": {"x": 1}}])
def test_a_snapshot_that_is_none_changes_nothing(damage: dict[str, object]) -> None:
    pipeline = make_pipeline()
    before = pipeline.snapshot()
    with pytest.raises((ValueError, KeyError)):
        pipeline.restore(damage, 0)
    assert pipeline.snapshot() == before


def test_many_incidents_that_closed_leave_nothing_behind() -> None:
    loop = Loop(Mode.OBSERVE)
    sizes = []
    for _ in range(3):
        loop.box.resistance_ohm = WEAK_OHM
        last(loop.run(4, rows=4))
        loop.box.resistance_ohm = GOOD_OHM
        last(loop.run(90, rows=20))
        assert loop.incidents()[-1].state is IncidentState.CLOSED
        sizes.append(_size(loop.pipeline))
    # Paths of all supplies that change at once look like the input too; that is merged into the sag.
    assert len({incident.id for incident in loop.incidents() if incident.cause is Cause.SUPPLY_SAG}) == 3
    assert sizes[1:] == sizes[:-1]


def _size(pipeline: Pipeline) -> tuple[int, ...]:
    held = (pipeline._incidents, pipeline._awaited, pipeline._in_force, pipeline._outcomes._watches)
    return (*(len(part) for part in held), len(pipeline.snapshot()["book"]["cases"]))


def test_a_claim_whose_incident_closed_unheld_does_not_stop_the_pipeline() -> None:
    """The actuator refused it, so nothing was in force, and after half an hour the engine takes its claim back."""
    loop = Loop()
    loop.box.resistance_ohm = WEAK_OHM
    pipeline = loop.pipeline
    for _ in range(60):
        pipeline.step(loop.box.frames(1), (), loop.box.time_ns)
    assert pipeline.engine.claims
    loop.box.resistance_ohm = GOOD_OHM
    decisions: list[Decision] = []
    for _ in range(45 * 6):
        loop.box.time_ns += 9 * NS_PER_S
        decisions += pipeline.step(loop.box.frames(4), (), loop.box.time_ns).decisions
    assert pipeline._incidents == {}
    assert decisions


def test_an_action_in_another_mode_than_enforce_holds_nothing() -> None:
    loop = Loop()
    loop.box.resistance_ohm = WEAK_OHM
    pipeline = loop.pipeline
    step = next(s for s in _steps(loop) if s.to_execute)
    (decision,) = step.to_execute
    dry = [replace(a, mode=Mode.OBSERVE) for a in done(decision, ActionState.APPLIED, now_ns=loop.box.time_ns)]
    assert pipeline.note_actions(dry, loop.box.time_ns) == ()
    assert pipeline._in_force == {}


def _steps(loop: Loop) -> Iterator[StepRecords]:
    for _ in range(100):
        yield loop.pipeline.step(loop.box.frames(1), (), loop.box.time_ns)


def test_voltage_without_current_is_judged_and_answered() -> None:
    spec = TableSpec(name="supply", kind=EntityKind.SUPPLY, entities=SUPPLIES, signals=("voltage_v",))
    pipeline = make_pipeline(specs=(spec, Box().frames(1)[0].spec))
    box = Box(resistance_ohm=WEAK_OHM)
    decisions: list[Decision] = []
    for _ in range(40):
        gpus, supplies = box.frames(1)
        bare = Frame(
            spec=spec, time_ns=supplies.time_ns, values=supplies.values[:, :, :1], fresh=supplies.fresh[:, :, :1]
        )
        decisions += pipeline.step((gpus, bare), (), box.time_ns).to_execute
    assert decisions
    assert "85% of the present clock of 1530 MHz" in decisions[0].reason
    assert np.isfinite(decisions[0].clock_mhz or np.nan)


def test_an_approval_is_read_with_the_events_and_sets_the_pending_cap() -> None:
    loop = Loop()
    loop.pipeline.engine.limits = replace(loop.pipeline.engine.limits, approval=frozenset({ActionClass.CLOCK_CAP}))
    last(loop.run(5, rows=5))
    loop.box.resistance_ohm = WEAK_OHM
    asked = next(step for step in loop.run(2) if step.decisions)
    (waiting,) = [one for one in asked.decisions if one.action == Verb.CLOCK_CAP]
    assert waiting.verdict is Verdict.PENDING
    assert asked.to_execute == ()
    frames = loop.box.frames(1)
    approval = new_command(CommandVerb.APPROVE, waiting.id, who="ana", why="go", now_ns=loop.box.time_ns)
    step = loop.pipeline.step(frames, [approval], loop.box.time_ns)
    assert step.commands == (approval,)
    (done,) = step.to_execute
    assert (done.id, dict(done.parameters)["approved_by"]) == (waiting.id, "ana")


def test_a_cap_that_is_approved_once_the_rail_is_back_is_credited_with_nothing() -> None:
    loop = Loop()
    loop.pipeline.engine.limits = replace(loop.pipeline.engine.limits, approval=frozenset({ActionClass.CLOCK_CAP}))
    last(loop.run(5, rows=5))
    loop.box.resistance_ohm = WEAK_OHM
    asked = next(step for step in loop.run(2) if step.decisions)
    (waiting,) = [one for one in asked.decisions if one.action == Verb.CLOCK_CAP]
    last(loop.run(2))
    loop.box.resistance_ohm = GOOD_OHM
    last(loop.run(20, rows=5))
    frames = loop.box.frames(1)
    approval = new_command(CommandVerb.APPROVE, waiting.id, who="ana", why="go", now_ns=loop.box.time_ns)
    step = loop.pipeline.step(frames, [approval], loop.box.time_ns)
    (decision,) = step.to_execute
    asked_mhz, set_mhz = waiting.clock_mhz, decision.clock_mhz
    assert asked_mhz is not None
    assert set_mhz is not None
    assert set_mhz <= asked_mhz
    loop.obey(decision)
    last(loop.run(15, rows=5))
    newest = loop.incidents()[-1]
    assert newest.state is IncidentState.MITIGATED
    assert "held down" not in newest.text
    assert "it was over before an action came into force" in newest.text
    (outcome,) = [to_json(record) for record in loop.records if to_json(record)["type"] == "outcome"]
    assert outcome["helped"] is None
    assert outcome["before"] > 11.8
    assert outcome["summary"].startswith("not clear: was over before the action; ")
