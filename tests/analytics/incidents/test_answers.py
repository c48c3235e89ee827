"""Hypotheses, silences, storms and impact in the incident book."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from analytics.incidents.book import IncidentBook
from analytics.incidents.book_settings import BookSettings, Silence
from analytics.incidents.case import at_stake_gpu_hours, loss_probability, severity_of_loss, urgency
from analytics.judged import NOTHING_JUDGED, Judged
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.record_json import from_json, to_json
from telemetry.records import Cause, EventKind, FaultClass, FindingStatus, Hypothesis, Incident, IncidentState, Severity
from tests.analytics.incidents.incident_texts import GPUS, SAG, IncidentTexts, all_judged, at, cleared, finding
from tests.analytics.scenes import START_NS, event_of, fleet_of, node_of

START = datetime.fromtimestamp(START_NS / 1e9, tz=UTC)
LOST = finding(Cause.GPU_LOST, GPUS[2], at_s=30.0)


def likeliest(incident: Incident) -> FaultClass:
    return incident.hypotheses[0].cause


def reported_with(settings: BookSettings, topology: Topology | None = None) -> IncidentTexts:
    return IncidentTexts(IncidentBook(settings), topology or node_of(4, 2))


def test_an_incident_carries_its_hypotheses_through_json_and_an_old_record_still_loads() -> None:
    (incident,) = IncidentTexts().step(SAG)
    assert sum(one.probability for one in incident.hypotheses) == pytest.approx(1.0)
    fields = json.loads(json.dumps(to_json(incident)))
    assert from_json(fields) == incident
    for name in ("hypotheses", "loss_probability", "silence"):
        del fields[name]
    old = from_json(fields)
    assert isinstance(old, Incident)
    assert (old.hypotheses, old.loss_probability, old.silence) == ((), None, None)


def test_a_lost_gpu_is_judged_by_the_supply_above_it_active_or_over_lately() -> None:
    alone, over = IncidentTexts(), IncidentTexts()
    (bare,) = alone.step(LOST, at_s=30)
    assert likeliest(bare) is FaultClass.NO_ELECTRICAL_EVIDENCE
    over.step(SAG)
    over.step(cleared(SAG, at_s=10), at_s=10)
    over.step(at_s=100)
    assert over.book.incidents == ()
    (lost,) = over.step(replace(LOST, time_ns=at(110), since_ns=at(110)), at_s=110)
    assert likeliest(lost) is not FaultClass.NO_ELECTRICAL_EVIDENCE
    long_ago = IncidentTexts(over.book)
    long_ago.step(cleared(LOST, at_s=200), at_s=200)
    long_ago.step(at_s=300)
    (again,) = long_ago.step(finding(Cause.GPU_LOST, GPUS[1], at_s=3000), at_s=3000)
    assert likeliest(again) is FaultClass.NO_ELECTRICAL_EVIDENCE


SILENT, UNKNOWN = "no electrical evidence", "supply not judged, so nothing is known of it"


def absent_lines(incident: Incident) -> list[str]:
    return [line for one in incident.hypotheses for line in (*one.for_, *one.against) if "nothing found" in line]


def rails_read(*, since_s: float, until_s: float, rails: tuple[bool, bool] = (True, True)) -> Judged:
    """Return that both rails of the node were read for dips over a time; a rail that was not judged never was."""
    everything = all_judged(node_of(4, 2))
    (dips, _) = everything.spans
    judged = dict(zip(("psu0", "psu1"), rails, strict=True))
    until_ns = [at(until_s) if judged.get(one.name, True) else -1 for one in dips.entities]
    since_ns = np.full(len(until_ns), at(since_s), dtype=np.int64)
    return Judged(spans=(replace(dips, since_ns=since_ns, until_ns=np.array(until_ns)),))


@pytest.mark.parametrize(
    ("judged", "remark"),
    [
        (rails_read(since_s=0.0, until_s=30.0), SILENT),
        (rails_read(since_s=26.0, until_s=30.0), UNKNOWN),
        (rails_read(since_s=0.0, until_s=29.0), UNKNOWN),
        (rails_read(since_s=0.0, until_s=30.0, rails=(True, False)), UNKNOWN),
        (NOTHING_JUDGED, UNKNOWN),
    ],
    ids=["all of the time", "too short before", "not to the loss", "one of two rails", "nothing"],
)
def test_supplies_show_nothing_only_where_each_was_judged_up_to_the_loss(judged: Judged, remark: str) -> None:
    (lost,) = IncidentTexts(judged=judged).step(LOST, at_s=30)
    assert bool(absent_lines(lost)) is (remark == SILENT)
    assert lost.notes == (remark,)


def test_what_was_judged_at_a_loss_is_known_however_long_after_and_over_a_restart() -> None:
    reported = IncidentTexts(judged=rails_read(since_s=0.0, until_s=30.0))
    (lost,) = reported.step(LOST, at_s=30)
    stored = json.loads(json.dumps(reported.book.snapshot()))
    again = IncidentTexts(IncidentBook.restore(stored, now_ns=at(90)), judged=NOTHING_JUDGED)
    (updated,) = again.step(replace(LOST, time_ns=at(100), status=FindingStatus.UPDATED), at_s=100)
    assert absent_lines(updated) == absent_lines(lost) != []


def test_a_rail_whose_sensor_is_wrong_is_no_witness() -> None:
    reported = IncidentTexts()
    reported.step(finding(Cause.SENSOR_FAULT, "supply:psu1", at_s=20, detector="supply_plausibility"), at_s=20)
    (lost,) = reported.step(LOST, at_s=30)
    assert absent_lines(lost) == []
    assert lost.notes == (UNKNOWN,)


def test_evidence_that_comes_later_changes_the_answer_of_an_incident_beside_it() -> None:
    reported = IncidentTexts()
    (lost,) = reported.step(LOST, at_s=30)
    changed = reported.step(finding(Cause.JOINT_AGEING, "supply:psu0", at_s=40, detector="source_resistance"), at_s=40)
    again = next(one for one in changed if one.id == lost.id)
    assert (likeliest(lost), likeliest(again)) == (FaultClass.NO_ELECTRICAL_EVIDENCE, FaultClass.JOINT_AGEING)
    assert reported.step(at_s=41) == ()


def test_an_event_is_evidence_for_the_open_incidents_of_its_node() -> None:
    book, topology = IncidentBook(), node_of(4, 2)
    ageing = finding(Cause.SUPPLY_LOST, "supply:psu1", detector="source_resistance.supply_lost")
    event = event_of(
        at_s=1.0, kind=EventKind.SUPPLY, code=0x0801, entity_id="supply:psu1", message="PSU2: failed", source="sel"
    )
    book.step([SAG], at(0), topology)
    changed = book.step([ageing], at(2), topology, [event])
    assert any("PSU2: failed" in line for line in changed[0].hypotheses[0].for_)
    restored = IncidentBook.restore(json.loads(json.dumps(book.snapshot())), now_ns=at(3))
    news = replace(ageing, status=FindingStatus.UPDATED, time_ns=at(4))
    assert restored.step([news], at(4), topology) == book.step([news], at(4), topology)


def test_a_silence_marks_incidents_below_what_it_names_and_ends_by_itself() -> None:
    silence = Silence(until=START + timedelta(seconds=60), who="ops", why="swap of psu0", entity="box")
    reported = reported_with(BookSettings(silences=(silence,)))
    (quiet,) = reported.step(SAG)
    assert quiet.silence is not None
    assert quiet.silence.startswith("silenced by ops until 2023-11-14T22:14:20Z: swap")
    assert quiet.state is IncidentState.OPEN
    assert reported.step(at_s=59) == ()
    (loud,) = reported.step(at_s=60)
    assert (loud.id, loud.silence) == (quiet.id, None)
    assert reported.step(at_s=61) == ()


def test_what_was_over_before_its_silence_ended_pages_no_one_when_it_ends() -> None:
    silence = Silence(until=START + timedelta(seconds=60), who="ops", why="swap of psu0", entity="box")
    reported = reported_with(BookSettings(silences=(silence,)))
    reported.step(SAG)
    reported.step(cleared(SAG, at_s=20), at_s=20)
    records = [one for second in range(21, 90) for one in reported.step(at_s=second)]
    assert [one.state for one in records][-1] is IncidentState.CLOSED
    assert all(one.silence is not None for one in records)


def test_a_silence_that_begins_later_or_means_others_states_nothing_yet() -> None:
    hour = START + timedelta(hours=1)
    silences = (
        Silence(start=START + timedelta(seconds=50), until=hour, who="ops", why="work"),
        Silence(until=hour, who="ops", why="other cause", causes=(Cause.GPU_LOST,)),
        Silence(until=hour, who="ops", why="other node", entity="n*"),
    )
    reported = reported_with(BookSettings(silences=silences))
    assert reported.step(SAG)[0].silence is None
    assert "other cause" in (reported.step(LOST, at_s=30)[0].silence or "")
    assert all("work" in (one.silence or "") or "other cause" in (one.silence or "") for one in reported.step(at_s=50))


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"until": datetime(2026, 1, 1)}, "offset"),  # noqa: DTZ001  # what is refused
        ({"start": START + timedelta(days=2)}, "start before until"),
        ({"why": " "}, "who and why"),
    ],
)
def test_a_silence_without_end_or_reason_is_refused(fields: dict[str, object], expected: str) -> None:
    good: dict[str, object] = {"until": START + timedelta(days=1), "who": "ops", "why": "work"}
    with pytest.raises(ValueError, match=expected):
        Silence(**(good | fields))  # type: ignore[arg-type]  # the fields are made up


def test_one_incident_too_many_within_ten_minutes_folds_what_asks_for_nothing_at_once() -> None:
    reported = reported_with(BookSettings(storm_above=3), fleet_of(1, 8))
    reported.step(finding(Cause.THERMAL_MARGIN, GPUS[0]))
    reported.step(finding(Cause.FABRIC_ERROR, GPUS[1], at_s=1), at_s=1)
    reported.step(finding(Cause.SENSOR_LOST, GPUS[2], at_s=2), at_s=2)
    last = reported.step(finding(Cause.NOVELTY, GPUS[3], at_s=3, detector="novelty"), at_s=3)
    storm = next(one for one in last if one.state is IncidentState.OPEN)
    assert storm.entity_id == "node:n0"
    assert storm.summary.startswith("alarm flood on n0: 3 incidents in one (1 fabric_error, 1 novelty, 1 sensor_lost)")
    gone = [one for one in last if one.state is IncidentState.CLOSED]
    assert len(gone) == 2
    assert all(f"folded into the alarm flood {storm.id}" in one.summary for one in gone)
    assert {one.cause for one in reported.open} == {Cause.THERMAL_MARGIN, storm.cause}
    (more,) = reported.step(finding(Cause.GPU_ERROR, "gpu:GPU-5", at_s=4), at_s=4)
    assert (more.id, "4 incidents in one" in more.summary) == (storm.id, True)
    (lost,) = (one for one in reported.step(replace(LOST, entity_id=GPUS[3]), at_s=30) if one.cause is Cause.GPU_LOST)
    assert lost.id != storm.id, "what an answer hangs on is never folded away"


def test_a_storm_ends_when_all_of_it_is_over_and_survives_a_restart() -> None:
    reported = reported_with(BookSettings(storm_above=1), fleet_of(1, 8))
    first = finding(Cause.FABRIC_ERROR, GPUS[1])
    second = finding(Cause.SENSOR_LOST, GPUS[2], at_s=2)
    reported.step(first)
    storm = next(one for one in reported.step(second, at_s=2) if one.state is IncidentState.OPEN)
    stored = json.loads(json.dumps(reported.book.snapshot()))
    settings = BookSettings(storm_above=1)
    again = IncidentTexts(IncidentBook.restore(stored, now_ns=at(3), settings=settings), fleet_of(1, 8))
    for one in (reported, again):
        one.step(cleared(first, at_s=10), at_s=10)
        (quiet,) = one.step(cleared(second, at_s=12), at_s=12)
        assert quiet.id == storm.id
        (closed,) = one.step(at_s=72)
        assert (closed.id, closed.state) == (storm.id, IncidentState.CLOSED)


def test_slow_trickles_and_claimed_incidents_do_not_fold() -> None:
    reported = reported_with(BookSettings(storm_above=1), fleet_of(1, 8))
    (held,) = reported.step(finding(Cause.FABRIC_ERROR, GPUS[1]))
    reported.book.note_claim(held.id, in_force=True, now_ns=at(1))
    reported.step(finding(Cause.SENSOR_LOST, GPUS[2], at_s=2), at_s=2)
    assert any(one.id == held.id and one.state is IncidentState.OPEN for one in reported.open)
    slow = reported_with(BookSettings(storm_above=1), fleet_of(1, 8))
    slow.step(finding(Cause.FABRIC_ERROR, GPUS[1]))
    slow.step(finding(Cause.SENSOR_LOST, GPUS[2], at_s=601), at_s=601)
    assert len(slow.open) == 2


def test_a_flood_over_the_nodes_of_a_rack_is_one_incident_of_the_rack() -> None:
    nodes = fleet_of(6, 2)
    rack = Entity(kind=EntityKind.SUPPLY, key="pdu1", name="pdu1")
    held = tuple((rack.id, one.id) for one in nodes.of_kind(EntityKind.NODE))
    topology = Topology(entities=(rack, *nodes.entities), edges=(*held, *nodes.edges))
    reported = reported_with(BookSettings(storm_above=4), topology)
    for number in range(6):
        reported.step(finding(Cause.SENSOR_LOST, f"gpu:GPU-{2 * number}", at_s=number * 10), at_s=number * 10)
    (storm,) = reported.open
    assert storm.entity_id == "supply:pdu1"
    assert "6 incidents in one (6 sensor_lost)" in storm.summary


def test_a_job_on_the_node_loses_all_its_gpus_with_one() -> None:
    plain = node_of(4, 2)
    job = Entity(kind=EntityKind.JOB, key="train", name="train")
    topology = Topology(entities=(*plain.entities, job), edges=(*plain.edges, ("node:box", job.id)))
    (alone,) = IncidentTexts().step(LOST, at_s=30)
    (working,) = IncidentTexts(topology=topology).step(LOST, at_s=30)
    assert working.impact_gpu_hours == pytest.approx(4 * alone.impact_gpu_hours)
    assert working.loss_probability == 1.0
    assert working.severity is Severity.CRITICAL


def test_impact_counts_the_work_since_the_last_checkpoint_and_the_probability_to_lose_it() -> None:
    assert at_stake_gpu_hours(n_gpus=4) == pytest.approx(4 * 35 / 60)
    assert at_stake_gpu_hours(n_gpus=4, checkpoint_age_s=7200) == pytest.approx(4 * (20 / 60 + 2))
    sensor = Hypothesis(cause=FaultClass.SENSOR_FAULT, probability=0.9, for_=(), against=(), would_disprove="")
    plain = loss_probability(cause=Cause.SUPPLY_SAG, severity=Severity.WARNING)
    doubted = loss_probability(cause=Cause.SUPPLY_SAG, severity=Severity.WARNING, hypotheses=(sensor,))
    assert doubted == pytest.approx(plain * 0.1)
    assert loss_probability(cause=Cause.HANG, severity=Severity.WARNING) == 1.0
    assert [severity_of_loss(value) for value in (0.0005, 0.1, 0.5)] == [
        Severity.INFO,
        Severity.WARNING,
        Severity.CRITICAL,
    ]
    assert [urgency(value) for value in (0.4, 2.0, 9.0)] == ["record", "ticket", "page"]


def test_a_temperature_of_nought_is_refused() -> None:
    with pytest.raises(ValueError, match="temperature"):
        BookSettings(temperature=0.0)


def test_a_joint_that_stays_bad_under_a_cap_is_mitigated_and_open_again_without_it() -> None:
    reported = IncidentTexts()
    (opened,) = reported.step(SAG)
    reported.step(finding(Cause.JOINT_AGEING, "supply:psu0", at_s=5, detector="source_resistance"), at_s=5)
    reported.book.note_claim(opened.id, in_force=True, now_ns=at(6))
    (held,) = reported.step(cleared(SAG, at_s=20), at_s=20)
    assert (held.id, held.cause, held.state) == (opened.id, Cause.SUPPLY_SAG, IncidentState.MITIGATED)
    assert reported.step(at_s=4000) == ()
    (free,) = reported.book.note_claim(opened.id, in_force=False, now_ns=at(5000))
    assert free.state is IncidentState.OPEN
    assert reported.step(at_s=9000) == ()
