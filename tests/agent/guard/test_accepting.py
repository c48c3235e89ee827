"""A person accepts an entity as it is: baselines start afresh, their findings end, the record names who and why."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from agent.guard.judges import Judges
from agent.guard.pipeline import Pipeline, PipelineSettings
from analytics.detectors.limits import DetectorLimits, NoveltyLimits
from rules.limits.node import NodeLimits
from telemetry.clock import NS_PER_S
from telemetry.commands import Command, CommandVerb, new_command
from telemetry.record_journal import RecordJournalWriter
from telemetry.records import Cause, Event, EventKind, Finding, FindingStatus, IncidentState, Severity
from tests.agent.fakes import START_NS
from tests.agent.guard.rig import Rig
from tests.analytics.detectors.novelty_scenes import node
from tests.analytics.detectors.test_novelty import finding_about
from tests.analytics.scenes import event_of, node_of

TEXTS = "GPU 1 accepted as it is by ada: new thermal pads"
# Learnt in a quarter of an hour, so that the scene is short.
QUICK = NoveltyLimits(learn_windows=30, blocks=3, block_windows=5)
QUICKLY = DetectorLimits(novelty=QUICK)


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    made = Rig(tmp_path)
    yield made
    made.close()


def accepted(entity_id: str = "gpu:GPU-1", *, time_ns: int = START_NS) -> Event:
    reported = event_of(kind=EventKind.BASELINE, code=None, entity_id=entity_id, severity=Severity.INFO, message=TEXTS)
    return replace(reported, id=f"baseline:{entity_id}:{time_ns}", time_ns=time_ns)


def acceptance(entity_id: str, *, time_ns: int) -> Command:
    return new_command(CommandVerb.ACCEPT_BASELINE, entity_id, who="ada", why="new thermal pads", now_ns=time_ns)


def test_what_a_baseline_found_ends_with_who_and_why_and_the_incident_closes() -> None:
    frame = node(1, rows=160, begins=60, lasts=1000, hotter_c=12.0)
    settings = PipelineSettings(policies=(), action_limits=NodeLimits(modes={}), limits=QUICKLY)
    pipeline = Pipeline([frame.spec], node_of(4, 0), settings, supported_mhz={})
    findings: list[Finding] = []
    states = []
    for row in range(len(frame)):
        now_ns = int(frame.time_ns[row])
        commands = [acceptance("gpu:GPU-1", time_ns=now_ns)] if row == 100 else []
        step = pipeline.step([frame.rows(row, row + 1)], commands, now_ns)
        findings += step.findings
        states += [incident.state for incident in step.incidents if incident.cause is Cause.NOVELTY]
    assert next(one.status for one in findings) is FindingStatus.RAISED
    (ended,) = [one for one in findings if one.status is FindingStatus.CLEARED]
    assert TEXTS in ended.summary
    assert ended.time_ns == int(frame.time_ns[100])
    assert states[-1] is IncidentState.CLOSED
    assert findings[-1] is ended, "it is learnt as it is now, and not told again"
    learnt = {one.entity_id: one.learnt_ratio for one in pipeline.baselines if one.detector == "novelty"}
    assert learnt["gpu:GPU-0"] == 1.0
    assert learnt["gpu:GPU-1"] == 1.0


def test_what_is_found_in_the_very_second_of_the_acceptance_ends_as_well() -> None:
    frame = node(1, rows=160, begins=60, lasts=1000, hotter_c=12.0)
    rows = [frame.rows(row, row + 1) for row in range(len(frame))]
    times_ns = frame.time_ns.tolist()
    judges = Judges(QUICKLY, [frame.spec])
    first = next(row for row in range(len(rows)) if judges.step([rows[row]], (), times_ns[row], node_of(4, 0)))
    judges = Judges(QUICKLY, [frame.spec])
    for row in range(first):
        judges.step([rows[row]], (), times_ns[row], node_of(4, 0))
    assert judges.step([rows[first]], (), times_ns[first - 1], node_of(4, 0)) == (), "it waits for the second to end"
    found = judges.step([], [accepted(time_ns=times_ns[first])], times_ns[first - 1], node_of(4, 0))
    assert [one.status for one in found] == [FindingStatus.RAISED, FindingStatus.CLEARED]
    assert TEXTS in found[-1].summary


def test_what_acceptance_ended_explains_nothing_any_more_so_that_the_gpu_is_learnt_again() -> None:
    frame = node(1, rows=60)
    other = replace(finding_about("gpu:GPU-1", row=0), detector="thermal_resistance")
    judges = Judges(QUICKLY, [frame.spec])
    judges._received = [other]
    for row, now_ns in enumerate(frame.time_ns.tolist()):
        reported, holding = ([accepted(time_ns=now_ns)], [other]) if row == 20 else ([], [])
        judges.step([frame.rows(row, row + 1)], reported, now_ns, node_of(4, 0), holding=holding)
        if row == 19:
            assert windows_learnt(judges) == [19.0, 0.0, 19.0, 19.0]
    assert windows_learnt(judges)[1] > 20.0


def windows_learnt(judges: Judges) -> list[float]:
    learnt: list[float] = next(own for detector, own in judges.states() if detector.name == "novelty").models.windows
    return [float(number) for number in learnt]


def test_what_needs_no_baseline_goes_on(rig: Rig) -> None:
    rig.sag()
    supply = next(incident.entity_id for incident in rig.pipeline._incidents.values())
    rig.guard.add_event(accepted(supply, time_ns=rig.box.time_ns))
    step = rig.guard.step()
    assert [event.kind for event in step.events] == [EventKind.BASELINE]
    assert step.findings == ()
    assert all(incident.state is not IncidentState.CLOSED for incident in rig.pipeline._incidents.values())


def test_the_guard_follows_what_people_state_and_writes_down_what_is_learnt(rig: Rig) -> None:
    journal = RecordJournalWriter(rig.folder / "person.jsonl")
    rig.tick(5)
    journal.append(acceptance("gpu:nobody", time_ns=rig.box.time_ns))
    journal.close()
    rig.tick(40)  # two seconds: it looks once a second
    commands = [record for record in rig.sink.records if isinstance(record, Command)]
    assert [(one.verb, one.who, one.why) for one in commands] == [
        (CommandVerb.ACCEPT_BASELINE, "ada", "new thermal pads")
    ]
    rows = json.loads((rig.folder / "baselines.json").read_text())
    assert {row["detector"] for row in rows} >= {"source_resistance", "novelty"}
    assert all(0.0 <= row["learnt_ratio"] <= 1.0 for row in rows)
    assert rig.guard.failures == 0
    assert rig.clock.utc_ns() - START_NS < 60 * NS_PER_S
