"""Which findings belong to one incident: causes with their consequences, siblings with what they share."""

from dataclasses import replace

import pytest

from telemetry.records import Cause, IncidentState, Severity
from tests.analytics.incidents.incident_texts import GPUS, SAG, IncidentTexts, at, cleared, finding
from tests.analytics.scenes import node_of

OVERLOAD = finding(Cause.SUPPLY_OVERLOAD, "supply:psu0", at_s=0.1, severity=Severity.CRITICAL)


def test_load_that_a_lost_supply_lays_on_its_sibling_is_reported_with_it() -> None:
    reported = IncidentTexts()
    (lost,) = reported.step(finding(Cause.SUPPLY_LOST, "supply:psu1"))
    reported.step(OVERLOAD, at_s=0.1)
    (one,) = reported.open
    assert (one.id, one.entity_id, one.severity) == (lost.id, "supply:psu1", Severity.CRITICAL)
    assert one.affected == ("supply:psu0", "supply:psu1")
    assert reported.step(cleared(OVERLOAD, at_s=30), at_s=30)[0].id == lost.id


def test_an_overload_that_is_reported_before_the_loss_that_made_it_becomes_part_of_it() -> None:
    reported = IncidentTexts()
    (overload,) = reported.step(OVERLOAD, at_s=0.1)
    reported.step(finding(Cause.SUPPLY_LOST, "supply:psu1", at_s=0.2), at_s=0.2)
    (one,) = reported.open
    assert (one.id, one.entity_id, one.cause) == (overload.id, "supply:psu1", Cause.SUPPLY_LOST)
    assert one.affected == ("supply:psu0", "supply:psu1")


@pytest.mark.parametrize(
    ("cause", "at_s"),
    [
        (Cause.THERMAL_INTERFACE, 0.2),  # no load moves by that
        (Cause.SUPPLY_LOST, 500.0),  # the overload is much older
    ],
)
def test_an_overload_that_has_another_reason_stays_alone(cause: Cause, at_s: float) -> None:
    reported = IncidentTexts()
    reported.step(OVERLOAD, at_s=0.1)
    reported.step(finding(cause, "supply:psu1", at_s=at_s), at_s=at_s)
    assert len(reported.open) == 2


def test_an_overload_beside_a_supply_that_is_back_is_reported_by_itself() -> None:
    reported = IncidentTexts()
    gone = finding(Cause.SUPPLY_LOST, "supply:psu1")
    reported.step(gone)
    reported.step(cleared(gone, at_s=10), at_s=10)
    reported.step(replace(OVERLOAD, time_ns=at(20), since_ns=at(20)), at_s=20)
    assert {incident.entity_id for incident in reported.open} == {"supply:psu0", "supply:psu1"}


def test_a_symptom_that_returns_reopens_the_incident_it_belongs_to() -> None:
    reported = IncidentTexts()
    (opened,) = reported.step(SAG)
    reported.book.note_claim(opened.id, in_force=True, now_ns=at(1))
    reported.step(cleared(SAG, at_s=20), at_s=20)
    (again,) = reported.step(finding(Cause.SUPPLY_SAG, "supply:psu0", at_s=100), at_s=100)
    assert (again.id, again.state) == (opened.id, IncidentState.OPEN)


def test_a_lost_gpu_its_xid_and_its_bus_drop_are_one_incident() -> None:
    reported = IncidentTexts()
    reported.step(finding(Cause.GPU_LOST, GPUS[2], detector="gpu_errors.bus_loss", severity=Severity.CRITICAL))
    reported.step(finding(Cause.GPU_LOST, GPUS[2], at_s=1.1), at_s=1.1)
    reported.step(finding(Cause.GPU_ERROR, GPUS[2], at_s=2), at_s=2)
    (incident,) = reported.open
    assert (incident.cause, incident.entity_id) == (Cause.GPU_LOST, GPUS[2])
    assert len(incident.findings) == 3
    assert "no electrical evidence" in incident.text


def test_a_lost_gpu_beside_a_sag_states_so_and_both_incidents_stand() -> None:
    reported = IncidentTexts()
    reported.step(SAG)
    reported.step(finding(Cause.GPU_LOST, GPUS[2], at_s=3), at_s=3)
    lost = next(incident for incident in reported.open if incident.cause is Cause.GPU_LOST)
    assert len(reported.open) == 2
    assert "electrical evidence in i-" in lost.text


def test_a_loss_that_only_the_node_reports_of_is_seen_beside_the_supplies_of_the_node() -> None:
    lost = finding(Cause.GPU_LOST, "node:box", at_s=3)
    reported = IncidentTexts()
    reported.step(lost, at_s=3)
    assert "no electrical evidence" in reported.open[0].text
    reported = IncidentTexts()
    reported.step(SAG)
    reported.step(lost, at_s=3)
    assert any("electrical evidence in i-" in incident.text for incident in reported.open)


def test_errors_of_the_peers_do_not_hide_which_gpu_was_lost() -> None:
    reported = IncidentTexts()
    errors = [finding(Cause.GPU_ERROR, entity_id, at_s=1) for entity_id in (GPUS[0], GPUS[1])]
    reported.step(*errors, at_s=1)
    reported.step(finding(Cause.GPU_LOST, GPUS[2], at_s=2), at_s=2)
    assert {(one.cause, one.entity_id) for one in reported.open} == {
        (Cause.GPU_ERROR, "node:box"),
        (Cause.GPU_LOST, GPUS[2]),
    }


def test_a_sibling_that_sags_while_an_action_holds_the_first_down_joins_its_incident() -> None:
    reported = IncidentTexts()
    (opened,) = reported.step(SAG)
    reported.book.note_claim(opened.id, in_force=True, now_ns=at(1))
    reported.step(cleared(SAG, at_s=2), at_s=2)
    reported.step(finding(Cause.SUPPLY_SAG, "supply:psu1", at_s=8), at_s=8)
    reported.step(finding(Cause.SUPPLY_SAG, "supply:psu0", at_s=9), at_s=9)
    (incident,) = reported.newest.values()
    assert incident.affected == ("supply:psu0", "supply:psu1")


@pytest.mark.parametrize("together", [True, False])
def test_brakes_on_siblings_point_to_what_they_share_if_they_began_together(*, together: bool) -> None:
    reported = IncidentTexts()
    reported.step(finding(Cause.POWER_BRAKE, GPUS[0]))
    late_s = 30.0 if together else 500.0
    reported.step(finding(Cause.POWER_BRAKE, GPUS[1], at_s=late_s), at_s=late_s)
    roots = {incident.entity_id for incident in reported.open}
    assert roots == ({"node:box"} if together else {GPUS[0], GPUS[1]})


def test_brakes_on_gpus_of_one_supply_point_to_the_supply() -> None:
    reported = IncidentTexts(topology=node_of(4, 1))
    reported.step(*(finding(Cause.POWER_BRAKE, entity_id) for entity_id in GPUS))
    (incident,) = reported.open
    assert incident.entity_id == "supply:psu0"
    assert incident.affected == tuple(GPUS)


def test_two_rails_of_one_bus_that_sag_together_are_one_incident_of_the_node() -> None:
    reported = IncidentTexts()
    (opened,) = reported.step(SAG)
    (joined,) = reported.step(finding(Cause.SUPPLY_SAG, "supply:psu1", at_s=0.05), at_s=0.05)
    assert joined.id == opened.id
    assert joined.entity_id == "node:box"
    assert joined.affected == ("supply:psu0", "supply:psu1")


def test_a_sag_accounts_for_the_brakes_on_the_gpus_that_it_feeds_in_either_order() -> None:
    brakes = [finding(Cause.POWER_BRAKE, entity_id, at_s=1) for entity_id in GPUS[:2]]
    before, after = IncidentTexts(), IncidentTexts()
    before.step(SAG)
    before.step(*brakes, at_s=1)
    after.step(brakes[0], at_s=1)
    after.step(finding(Cause.SUPPLY_SAG, "supply:psu0", at_s=2), at_s=2)
    for reported in (before, after):
        (incident,) = reported.open
        assert (incident.cause, incident.entity_id) == (Cause.SUPPLY_SAG, "supply:psu0")


def test_incidents_that_turn_out_to_be_one_are_merged_and_the_claimed_one_goes_on() -> None:
    reported = IncidentTexts()
    reported.step(finding(Cause.POWER_BRAKE, GPUS[0]))
    reported.step(finding(Cause.POWER_BRAKE, GPUS[1], at_s=500), at_s=500)
    claimed = next(one for one in reported.open if one.entity_id == GPUS[1])
    reported.book.note_claim(claimed.id, in_force=True, now_ns=at(501))
    reported.step(finding(Cause.SUPPLY_SAG, "supply:psu0", at_s=502), at_s=502)
    (incident,) = reported.open
    assert incident.id == claimed.id
    gone = next(one for one in reported.newest.values() if one.state is IncidentState.CLOSED)
    assert f"merged into {claimed.id}" in gone.summary


def test_a_bad_interface_names_the_part_even_when_two_have_one() -> None:
    reported = IncidentTexts()
    reported.step(*(finding(Cause.THERMAL_INTERFACE, entity_id) for entity_id in GPUS[:2]))
    assert {incident.entity_id for incident in reported.open} == set(GPUS[:2])
    reported.step(finding(Cause.THERMAL_MARGIN, GPUS[0], at_s=5), at_s=5)
    assert len(reported.open) == 2
