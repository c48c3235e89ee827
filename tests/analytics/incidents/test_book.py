"""The incident book: opening, holding, closing, restarts, and how much it takes in."""

import json
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analytics.incidents.book import IncidentBook
from analytics.incidents.book_settings import BookSettings
from telemetry.records import Cause, Evidence, FaultClass, Finding, FindingStatus, IncidentState, Severity
from tests.analytics.incidents.incident_texts import GPUS, SAG, IncidentTexts, at, cleared, finding
from tests.analytics.scenes import fleet_of, node_of


def test_a_finding_opens_an_incident_that_closes_once_after_its_quiet_time() -> None:
    reported = IncidentTexts()
    (opened,) = reported.step(SAG)
    assert (opened.state, opened.cause, opened.entity_id) == (IncidentState.OPEN, Cause.SUPPLY_SAG, "supply:psu0")
    reported.step(cleared(SAG, at_s=20), at_s=20)
    assert reported.step(at_s=79) == ()
    (closed,) = reported.step(at_s=80)
    assert (closed.id, closed.state, closed.closed_ns) == (opened.id, IncidentState.CLOSED, at(80))
    assert reported.step(at_s=81) == ()
    assert reported.book.incidents == ()


def test_a_symptom_that_an_action_holds_down_is_mitigated_and_never_closes_while_it_does() -> None:
    reported = IncidentTexts()
    (opened,) = reported.step(SAG)
    assert reported.book.note_claim(opened.id, in_force=True, now_ns=at(1))[0].state is IncidentState.OPEN
    (mitigated,) = reported.step(cleared(SAG, at_s=20), at_s=20)
    assert mitigated.state is IncidentState.MITIGATED
    assert "held down by an action" in mitigated.text
    assert reported.step(at_s=4000) == ()
    reported.book.note_claim(opened.id, in_force=False, now_ns=at(5000))
    assert reported.step(at_s=5059) == ()
    assert reported.step(at_s=5060)[0].state is IncidentState.CLOSED


def test_a_joint_that_ages_is_held_down_by_the_cap_that_came_before_any_sag() -> None:
    reported = IncidentTexts()
    (opened,) = reported.step(finding(Cause.JOINT_AGEING, SAG.entity_id))
    (held,) = reported.book.note_claim(opened.id, in_force=True, now_ns=at(1))
    assert (held.state, held.held) == (IncidentState.MITIGATED, True)
    assert "held down by an action" in held.text
    (open_again,) = reported.book.note_claim(opened.id, in_force=False, now_ns=at(2))
    assert (open_again.state, open_again.held) == (IncidentState.OPEN, False)
    # A sag on it that was over before the next cap is credited to none.
    reported.step(SAG, at_s=3)
    reported.step(cleared(SAG, at_s=20), at_s=20)
    (late,) = reported.book.note_claim(opened.id, in_force=True, now_ns=at(30))
    assert (late.state, late.held) == (IncidentState.MITIGATED, False)
    assert "it was over before an action came into force" in late.text


def test_an_open_incident_states_what_is_still_wrong_and_what_is_over_stays_in_its_evidence() -> None:
    reported = IncidentTexts()
    joint = finding(Cause.JOINT_AGEING, SAG.entity_id)
    (opened,) = reported.step(SAG, joint)
    assert opened.summary == SAG.summary, "what is seen goes before the fault behind it"
    back = replace(cleared(SAG, at_s=20), summary="12 V at psu0 is back")
    (still,) = reported.step(back, at_s=20)
    assert (still.state, still.cause, still.summary) == (IncidentState.OPEN, Cause.SUPPLY_SAG, joint.summary)
    assert back in still.findings
    (again,) = reported.step(replace(SAG, time_ns=at(30)), at_s=30)
    assert again.summary == SAG.summary
    reported.book.note_claim(opened.id, in_force=True, now_ns=at(31))
    (held,) = reported.step(replace(back, time_ns=at(40)), at_s=40)
    assert held.state is IncidentState.MITIGATED
    assert held.text == f"{SAG.summary}; 12 V at psu0 is back; held down by an action"
    reported.book.note_claim(opened.id, in_force=False, now_ns=at(50))
    (over,) = reported.step(cleared(joint, at_s=60), at_s=60)
    assert over.text == f"{joint.summary}; 12 V at psu0 is back", "what was wrong last, and how it ended"


def test_what_is_measured_as_a_finding_ends_changes_no_cause() -> None:
    def input_sag(ratio: float) -> Finding:
        found = finding(Cause.INPUT_SAG, SAG.entity_id, detector="source_resistance.input_sag")
        return replace(found, evidence=(Evidence(name="resistance_ratio", value=ratio, unit="ratio"),))

    reported = IncidentTexts()
    (opened,) = reported.step(input_sag(1.01))
    assert opened.hypotheses[0].cause is FaultClass.INPUT_SAG
    (over,) = reported.step(cleared(input_sag(1.12), at_s=20), at_s=20)
    assert over.hypotheses == opened.hypotheses


def test_a_cap_that_holds_a_sag_down_is_not_stated_to_hold_down_the_lost_supply_beside_it() -> None:
    reported = IncidentTexts()
    lost, sag = finding(Cause.SUPPLY_LOST, "supply:psu0"), finding(Cause.SUPPLY_SAG, "supply:psu1")
    reported.step(lost, sag)
    (opened,) = reported.open
    reported.book.note_claim(opened.id, in_force=True, now_ns=at(1))
    back = replace(cleared(sag, at_s=20), summary="12 V at psu1 is back")
    (held,) = reported.step(back, at_s=20)
    assert (held.state, held.held) == (IncidentState.MITIGATED, True)
    assert held.summary == sag.summary
    assert held.text == f"{sag.summary}; 12 V at psu1 is back; also on PSU 0; held down by an action"
    assert lost in held.findings
    (open_again,) = reported.book.note_claim(opened.id, in_force=False, now_ns=at(30))
    assert open_again.summary.startswith(lost.summary)


def test_what_was_over_before_an_action_is_not_held_down_by_it_until_it_comes_back_under_it() -> None:
    reported = IncidentTexts()
    (opened,) = reported.step(SAG)
    reported.step(cleared(SAG, at_s=20), at_s=20)
    (late,) = reported.book.note_claim(opened.id, in_force=True, now_ns=at(30))
    assert late.state is IncidentState.MITIGATED
    assert "held down" not in late.text
    reported.book = IncidentBook.restore(reported.book.snapshot(), now_ns=at(31))
    reported.book.note_claim(opened.id, in_force=False, now_ns=at(31))
    reported.book.note_claim(opened.id, in_force=True, now_ns=at(31))
    assert "it was over before an action came into force" in reported.step(at_s=32)[0].text
    again = replace(SAG, time_ns=at(40), status=FindingStatus.RAISED)
    reported.step(again, at_s=40)
    (held,) = reported.step(cleared(again, at_s=60), at_s=60)
    assert "held down by an action" in held.text


def test_severity_is_the_worst_ever_and_impact_grows_with_it() -> None:
    reported = IncidentTexts()
    (mild,) = reported.step(SAG)
    (worse,) = reported.step(
        replace(SAG, severity=Severity.CRITICAL, status=FindingStatus.UPDATED, time_ns=at(6)), at_s=6
    )
    assert worse.severity is Severity.CRITICAL
    # Four GPUs, 35 minutes, one in ten and one in two.
    assert mild.impact_gpu_hours == pytest.approx(4 * 35 / 60 * 0.1)
    assert worse.impact_gpu_hours == pytest.approx(4 * 35 / 60 * 0.5)
    (lost,) = reported.step(finding(Cause.GPU_LOST, GPUS[0], at_s=7), at_s=7)
    assert lost.impact_gpu_hours == pytest.approx(35 / 60)


def test_it_survives_a_restart_and_knows_its_incident_again() -> None:
    reported = IncidentTexts()
    (opened,) = reported.step(SAG)
    reported.book.note_claim(opened.id, in_force=True, now_ns=at(1))
    stored = json.loads(json.dumps(reported.book.snapshot()))
    restored = IncidentTexts(IncidentBook.restore(stored, now_ns=at(30)))
    assert restored.book.incidents == reported.book.incidents
    (again,) = restored.step(finding(Cause.SUPPLY_SAG, "supply:psu0", at_s=35), at_s=35)
    assert again.id == opened.id
    assert restored.step(at_s=200) == ()
    assert restored.book.incidents[0].state is IncidentState.OPEN


def test_what_is_not_reported_again_after_a_restart_counts_as_cleared() -> None:
    reported = IncidentTexts()
    reported.step(SAG)
    restored = IncidentTexts(IncidentBook.restore(reported.book.snapshot(), now_ns=at(30)))
    assert restored.step(at_s=149) == ()
    (after,) = restored.step(at_s=150)
    assert after.findings[0].status is FindingStatus.CLEARED
    assert after.text == f"{SAG.summary}; not seen again since the restart"
    assert restored.step(at_s=210)[0].state is IncidentState.CLOSED


def test_a_lost_gpu_that_is_not_there_after_a_restart_stays_lost_through_any_number_of_them() -> None:
    reported = IncidentTexts()
    reported.step(finding(Cause.GPU_LOST, "gpu:GPU-3", severity=Severity.CRITICAL))
    book = reported.book
    for run in range(1, 3):
        restored = IncidentTexts(IncidentBook.restore(book.snapshot(), now_ns=at(1000 * run)), topology=node_of(3, 2))
        restored.step(at_s=1000 * run + 130)
        restored.step(at_s=1000 * run + 900)
        (incident,) = restored.book.incidents
        assert incident.state is IncidentState.OPEN
        assert incident.summary.count("not seen since the restart: GPU not found") == 1
        book = restored.book
    again = IncidentTexts(IncidentBook.restore(book.snapshot(), now_ns=at(5000)))
    again.step(at_s=5130)
    again.step(at_s=5200)
    assert again.book.incidents == (), "it is there again and nothing is wrong with it"


def test_a_snapshot_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="version"):
        IncidentBook.restore({"version": 99, "cases": []}, now_ns=0)
    with pytest.raises(ValueError, match="cases"):
        IncidentBook.restore({"version": 1, "cases": [{}]}, now_ns=0)


def test_a_full_book_counts_what_it_does_not_take_in() -> None:
    reported = IncidentTexts(IncidentBook(BookSettings(max_open=2)), fleet_of(5, 1))
    reported.step(*(finding(Cause.THERMAL_MARGIN, f"gpu:GPU-{number}") for number in range(5)))
    assert len(reported.open) == 2
    assert reported.book.refused == 3


def test_a_storm_over_a_fleet_is_one_incident_a_node() -> None:
    topology = fleet_of(200, 8)
    reported = IncidentTexts(topology=topology)
    reported.step(*(finding(Cause.SENSOR_LOST, f"gpu:GPU-{number}") for number in range(1600)))
    assert len(reported.open) == 200
    assert all(len(incident.affected) == 8 for incident in reported.open)
    # The seven others of each node, as a list of numbers or a range.
    for incident in reported.open:
        (listed,) = re.findall(r"also on GPUs ([\d, -]+)", incident.text)
        ends = [[int(number) for number in span.split("-")] for span in listed.split(", ")]
        assert sum(span[-1] - span[0] + 1 for span in ends) == 7


CAUSES = [Cause.SUPPLY_SAG, Cause.POWER_BRAKE, Cause.THERMAL_MARGIN, Cause.GPU_LOST, Cause.GPU_ERROR, Cause.SENSOR_LOST]
MOVES = st.lists(
    st.tuples(
        st.sampled_from(CAUSES),
        st.sampled_from([*GPUS, "supply:psu0", "supply:psu1"]),
        st.sampled_from(["raise", "clear", "claim", "release"]),
        st.integers(1, 100),
    ),
    max_size=40,
)


@given(moves=MOVES, cut=st.integers(0, 40))
def test_any_history_keeps_its_promises_and_a_snapshot_changes_nothing(
    moves: list[tuple[Cause, str, str, int]], cut: int
) -> None:
    reported, copy = IncidentTexts(), IncidentTexts()
    since: dict[tuple[Cause, str], float] = {}
    now_s = 0.0
    for number, (cause, entity_id, move, wait_s) in enumerate(moves):
        now_s += wait_s
        if number == cut:
            # No finding is active without being reported again, so only the confirmation deadline could differ.
            settings = BookSettings(confirm_s=1e9)
            stored = json.loads(json.dumps(copy.book.snapshot()))
            copy.book = IncidentBook.restore(stored, now_ns=at(now_s), settings=settings)
            copy.step(at_s=now_s - wait_s)
        findings: tuple[Finding, ...] = ()
        for one in (reported, copy):
            incidents = one.book.incidents
            if move in ("claim", "release") and incidents:
                picked = incidents[wait_s % len(incidents)].id
                one.book.note_claim(picked, in_force=move == "claim", now_ns=at(now_s))
        if move == "raise" and (cause, entity_id) not in since:
            since[cause, entity_id] = now_s
            findings = (finding(cause, entity_id, at_s=now_s),)
        elif move == "clear" and (cause, entity_id) in since:
            begun = since.pop((cause, entity_id))
            findings = (finding(cause, entity_id, at_s=now_s, since_s=begun, status=FindingStatus.CLEARED),)
        assert reported.step(*findings, at_s=now_s) == copy.step(*findings, at_s=now_s)
        held = {
            (one.cause, one.entity_id)
            for incident in reported.book.incidents
            for one in incident.findings
            if one.status is not FindingStatus.CLEARED
        }
        assert held == set(since)
        for incident in reported.book.incidents:
            active = any(one.status is not FindingStatus.CLEARED for one in incident.findings)
            assert not active or incident.state is IncidentState.OPEN
            assert incident.closed_ns is None
