"""``railwatch explain incident``: the story, from a data folder and from a recording."""

import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from analytics.classification.answers import FAULT_CLASS_GUIDES, SYMPTOM_GUIDES
from physics.feeding import feeding_of
from railwatch.cli.explain_incident import _wiring_of_run
from railwatch.cli.incident_plot import plot
from railwatch.operator.entity_names import EntityNames
from railwatch.operator.incident_story import path_text, story_of_incident
from telemetry.clock import NS_PER_S, iso_utc
from telemetry.entities import EntityKind
from telemetry.errors import EnvironmentLacksError
from telemetry.recording import RecordingMeta, write_recording
from telemetry.records import (
    Action,
    Cause,
    Decision,
    FaultClass,
    FindingStatus,
    Incident,
    PathStep,
    Record,
)
from telemetry.store.records import RecordFile
from tests import record_samples
from tests.analytics.incidents.incident_texts import SAG, IncidentTexts
from tests.analytics.scenes import START_NS, event_of, frame_of, node_of
from tests.railwatch.command_line import Run, objects

(INCIDENT,) = IncidentTexts().step(replace(SAG, summary="12 V at psu0 sags to 11.30 V"))
LATER_NS = START_NS + 5 * NS_PER_S


def records() -> list[Record]:
    decision = replace(
        record_samples.DECISION,
        time_ns=START_NS + NS_PER_S,
        rule="supply-sag-clock-cap",
        incident_id=INCIDENT.id,
        reason="the worst dip stays above 11.50 V at 1057 MHz",
    )
    action = replace(record_samples.ACTION, time_ns=START_NS + 2 * NS_PER_S, incident_id=INCIDENT.id)
    outcome = replace(
        record_samples.OUTCOME,
        time_ns=LATER_NS,
        incident_id=INCIDENT.id,
        summary="helped; lowest voltage 11.30 V before, 11.60 V after",
    )
    other = replace(decision, id="d2", incident_id="i-other")
    strange = event_of(at_s=1.0, entity_id="gpu:GPU-9", message="of a stranger")
    return [INCIDENT, decision, other, action, outcome, event_of(at_s=-3.0, entity_id=None), strange]


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    store = RecordFile(_made(tmp_path / "records"))
    store.append(records())
    store.close()
    return tmp_path


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def test_the_path_of_a_cause_is_one_line_with_what_it_lacks() -> None:
    step = PathStep(entity_id="supply:psu0", shows="resistance_up", since_ns=START_NS)
    lost = PathStep(entity_id="gpu:GPU-1", shows="gpu_lost", since_ns=LATER_NS)
    one = replace(INCIDENT.hypotheses[0], path=(step, lost), ungrounded="")
    names = EntityNames(node_of(4, 2).entities)
    began, after = iso_utc(START_NS)[11:19], iso_utc(LATER_NS)[11:19]
    assert path_text(one, names) == f"PSU 0 (resistance up, {began}) → GPU 1 (gpu lost, {after}); grounded"
    loose = replace(one, path=(step,), ungrounded="no path from PSU 0 to GPU 1")
    assert path_text(loose, names).endswith("; not grounded: no path from PSU 0 to GPU 1")


def test_the_story_is_reported_in_order_with_what_was_done_and_whether_it_helped(run: Run, data_dir: Path) -> None:
    status, out, err = run("explain", "incident", INCIDENT.id[:6], "--data-dir", str(data_dir))
    assert (status, err) == (0, "")
    parts = [
        "event xid",
        "12 V at psu0 sags to 11.30 V",
        "likely causes",
        "unknown",
        "disproved by",
        "joint_ageing",
        "decision execute",
        "1057 MHz applied (before: 1530 MHz)",
        "outcome: helped",
        "GPU-hours expected to be lost",
        "what to check next",
    ]
    places = [out.index(part, out.index("what was seen")) for part in parts]
    assert places == sorted(places)
    assert "of a stranger" not in out
    assert "i-other" not in out


def test_the_story_is_one_json_object(run: Run, data_dir: Path) -> None:
    status, out, _ = run("explain", "incident", INCIDENT.id, "--data-dir", str(data_dir), "--json")
    (fields,) = objects(out)
    assert status == 0
    assert fields["incident"]["id"] == INCIDENT.id
    assert [moment["what"] for moment in fields["done"]] == ["decision execute", "action applied", "outcome: helped"]
    assert sum(one["probability"] for one in fields["incident"]["hypotheses"]) == pytest.approx(1.0)


@pytest.mark.parametrize("wanted", ["i-nobody", "i"])
def test_an_incident_that_is_not_there_is_status_1(run: Run, data_dir: Path, wanted: str) -> None:
    store = RecordFile(data_dir / "records")
    store.append([replace(INCIDENT, id="i-second")])
    store.close()
    status, out, err = run("explain", "incident", wanted, "--data-dir", str(data_dir))
    assert (status, out) == (1, "")
    assert len(err.splitlines()) == 1


def test_a_record_without_hypotheses_states_so(run: Run, tmp_path: Path) -> None:
    store = RecordFile(_made(tmp_path / "records"))
    store.append([replace(INCIDENT, hypotheses=(), loss_probability=None)])
    store.close()
    status, out, _ = run("explain", "incident", INCIDENT.id, "--data-dir", str(tmp_path))
    assert status == 0
    assert "none ranked" in out


def test_the_incident_of_a_recording_is_reported_and_drawn(run: Run, tmp_path: Path) -> None:
    topology = node_of(4, 2)
    frame = frame_of(
        EntityKind.SUPPLY,
        topology.of_kind(EntityKind.SUPPLY),
        {"voltage_v": [12.0, 11.3, 11.4, 12.0], "current_a": [20.0, 60.0, 60.0, 20.0]},
        rate_hz=1.0,
    )
    path, picture = tmp_path / "r.parquet", tmp_path / "r.svg"
    write_recording(path, [frame], topology=topology, meta=RecordingMeta(node="box"), records=records())
    status, out, _ = run("explain", "incident", INCIDENT.id, "--recording", str(path), "--plot", str(picture))
    assert status == 0
    assert "plot written to" in out
    assert "<svg" in picture.read_text(encoding="utf-8")


def test_a_plot_names_what_it_lacks(run: Run, data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    status, _, err = run("explain", "incident", INCIDENT.id, "--data-dir", str(data_dir), "--plot", "x.pdf")
    assert status == 2
    assert "a file name ending in .svg or .png" in err
    command = ("explain", "incident", INCIDENT.id, "--data-dir", str(data_dir), "--plot", str(data_dir / "x.svg"))
    status, out, err = run(*command)
    assert (status, out) == (3, "")
    assert "no embedded store; name a recording" in err
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    status, out, err = run(*command)
    assert (status, out) == (3, "")
    assert "matplotlib is not installed" in err
    with pytest.raises(EnvironmentLacksError):
        plot(INCIDENT, None, data_dir / "x.svg")


def test_the_stake_is_taken_apart_into_hours_and_probability() -> None:
    story = story_of_incident(INCIDENT, ())
    assert (
        story.stake == "0.23 GPU-hours expected to be lost if nothing is done: 2.3 at stake = 4 GPUs x (20 min restart "
        "+ 15 min lost work, assumed) x 0.1 probability; priority: record only, no page"
    )
    assert story.done == ()
    lost: Incident = replace(INCIDENT, impact_gpu_hours=9.0, loss_probability=1.0)
    assert story_of_incident(lost, ()).stake.endswith("priority: page an operator")


def test_every_reporting_stands_at_its_own_time_and_an_action_over_several_gpus_once() -> None:
    (raised,) = INCIDENT.findings
    cleared = replace(raised, time_ns=LATER_NS, status=FindingStatus.CLEARED, summary="12 V at psu0 is back")
    newest = replace(INCIDENT, findings=(cleared,), time_ns=LATER_NS)
    (action,) = (one for one in records() if isinstance(one, Action))
    caps = [
        replace(action, id=f"a{gpu}", entity_id=f"gpu:GPU-{gpu}", wanted=wanted, time_ns=START_NS + second * NS_PER_S)
        for second, wanted in ((1, 1300.0), (2, 1200.0), (3, 1057.0))
        for gpu in range(4)
    ]
    story = story_of_incident(newest, [raised, INCIDENT, *caps, cleared, newest])
    assert [(one.time_ns, one.kind) for one in story.seen] == [
        (raised.time_ns, "supply_sag raised"),
        (LATER_NS, "supply_sag cleared"),
    ]
    assert story.seen[0].text.startswith("12 V at psu0 sags to 11.30 V")
    assert [one.text.partition(": ")[2][:4] for one in story.done] == ["1300", "1200", "1057"]
    assert all(one.text.startswith("clock cap on GPU-0, GPU-1, GPU-2, GPU-3: ") for one in story.done)


def test_of_many_updates_those_between_are_counted() -> None:
    (raised,) = INCIDENT.findings
    updates = [
        replace(raised, time_ns=START_NS + second * NS_PER_S, status=FindingStatus.UPDATED, summary=f"{second} V")
        for second in range(1, 11)
    ]
    story = story_of_incident(INCIDENT, [raised, *updates])
    assert [one.text.partition(",")[0] for one in story.seen[1:]] == ["1 V", "8 more times", "10 V"]


def test_what_was_reported_is_not_reported_again() -> None:
    (raised,) = INCIDENT.findings
    four = [
        replace(raised, id=f"f{gpu}:1", entity_id=f"gpu:{gpu}", summary=f"gpu{gpu} hangs for 2{gpu} s")
        for gpu in range(4)
    ]
    hang = replace(INCIDENT, findings=tuple(four), summary=four[0].summary)
    (notice,) = (one for one in records() if isinstance(one, Decision) and one.incident_id == INCIDENT.id)
    story = story_of_incident(hang, [replace(notice, reason=four[0].summary)])
    assert [one.text for one in story.seen] == ["gpu0 hangs for 20 s (also 1, 2, 3)"]
    assert [one.text for one in story.done] == ["clock_cap on GPU-0: for the findings above"]


def test_a_recording_without_records_is_reported_as_replay_reports_it(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "sag.parquet"
    assert run("simulate", "run", "psu-sag", "--seed", "7", "--duration", "20s", "--out", str(path))[0] == 0
    status, _, err = run("explain", "incident", "i-nobody", "--recording", str(path))
    found = re.search(r"expected (i-\w+) \(supply_sag\)", err)
    assert found is not None, err
    status, out, _ = run("explain", "incident", found[1], "--recording", str(path))
    assert status == 0
    assert "decision recommend" in out
    assert "decision execute" not in out


@pytest.mark.parametrize("cause", FaultClass)
def test_every_class_is_explained(run: Run, cause: FaultClass) -> None:
    status, out, _ = run("explain", "cause", cause.value, "--json")
    (fields,) = objects(out)
    assert (status, fields["cause"], fields["check"]) == (0, cause.value, FAULT_CLASS_GUIDES[cause].check)
    assert FAULT_CLASS_GUIDES[cause].means in run("explain", "cause", cause.value)[1]


@pytest.mark.parametrize("cause", [one for one in Cause if one.value not in FAULT_CLASS_GUIDES])
def test_every_headline_of_an_incident_is_explained_with_what_may_lie_behind_it(run: Run, cause: Cause) -> None:
    status, out, _ = run("explain", "cause", cause.value, "--json")
    (fields,) = objects(out)
    assert (status, fields["behind"]) == (0, [one.value for one in SYMPTOM_GUIDES[cause].behind])
    assert SYMPTOM_GUIDES[cause].means in run("explain", "cause", cause.value)[1]


def test_an_unknown_cause_is_refused_with_the_known_ones(run: Run) -> None:
    status, _, err = run("explain", "cause", "gremlins")
    assert status == 2
    assert "supply_sag" in err


def test_samples_of_a_store_are_read_with_the_wiring_of_the_configuration(tmp_path: Path) -> None:
    config = tmp_path / "railwatch.yaml"
    config.write_text(
        "topology:\n  supplies: [{name: psu0}, {name: psu1}]\n"
        "  buses:\n"
        '    - {name: a, supplies: [psu0], branches: [{gpus: ["0"]}]}\n'
        '    - {name: b, supplies: [psu1], branches: [{gpus: ["1"]}]}\n'
    )
    wiring = _wiring_of_run(tmp_path, config)
    assert wiring is not None
    node = node_of(2)
    supplies, gpus = node.of_kind(EntityKind.SUPPLY), node.of_kind(EntityKind.GPU)
    edges = feeding_of(wiring, supplies, gpus).edges
    assert edges == ((supplies[0].id, gpus[0].id), (supplies[1].id, gpus[1].id))
    config.write_text("{}\n")
    assert _wiring_of_run(tmp_path, config) is None
