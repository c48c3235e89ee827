"""Consequences of a lost GPU on its siblings become part of the loss, in whatever order they are reported."""

from dataclasses import replace

import pytest

from analytics.incidents.consequences import FOLLOWS_S, LEADS_S
from telemetry.records import Cause, Evidence, Finding, IncidentState, Severity
from tests.analytics.incidents.incident_texts import GPUS, IncidentTexts, cleared, finding

LOST = finding(Cause.GPU_LOST, GPUS[2], at_s=100.0, severity=Severity.CRITICAL)


def xid(code: int, entity_id: str, at_s: float) -> Finding:
    cause = Cause.FABRIC_ERROR if code == 74 else Cause.GPU_ERROR
    one = finding(cause, entity_id, at_s=at_s, severity=Severity.CRITICAL, detector=f"gpu_errors.xid.{code}")
    return replace(one, evidence=(Evidence(name="code", value=float(code), unit=""),))


@pytest.mark.parametrize("code", [74, 31, 43, 45])
@pytest.mark.parametrize("after_s", [-LEADS_S, 0.5, FOLLOWS_S])
def test_an_error_of_a_sibling_that_a_loss_made_is_part_of_it_in_either_order(code: int, after_s: float) -> None:
    reported = IncidentTexts()
    for one in sorted((LOST, xid(code, GPUS[0], 100.0 + after_s)), key=lambda each: each.time_ns):
        reported.step(one, at_s=(one.time_ns - LOST.time_ns) / 1e9 + 100.0)
    (incident,) = reported.open
    assert (incident.cause, incident.entity_id) == (Cause.GPU_LOST, GPUS[2])
    assert incident.affected == (GPUS[0], GPUS[2])
    assert len(incident.findings) == 2


def test_the_errors_of_several_siblings_and_what_is_reported_again_of_them_stay_with_the_loss_until_all_is_over() -> (
    None
):
    reported = IncidentTexts()
    first, second = xid(74, GPUS[0], 101.0), xid(74, GPUS[1], 102.0)
    reported.step(LOST, at_s=100.0)
    reported.step(first, at_s=101.0)
    reported.step(second, at_s=102.0)
    again = replace(first, time_ns=second.time_ns, summary="ten times by now")
    reported.step(again, at_s=400.0)
    (incident,) = reported.open
    assert len(incident.findings) == 3
    assert "ten times by now" in {one.summary for one in incident.findings}
    reported.step(cleared(again, at_s=500.0), cleared(second, at_s=500.0), cleared(LOST, at_s=500.0), at_s=500.0)
    reported.step(at_s=600.0)
    assert reported.open == []


@pytest.mark.parametrize(
    ("code", "entity_id", "at_s"),
    [
        (74, GPUS[0], 100.0 - LEADS_S - 1.0),
        (74, GPUS[0], 100.0 + FOLLOWS_S + 1.0),
        (48, GPUS[0], 101.0),  # memory is not lost with a neighbour
    ],
)
def test_an_error_that_has_another_reason_stands_by_itself(code: int, entity_id: str, at_s: float) -> None:
    reported = IncidentTexts()
    for one in sorted((LOST, xid(code, entity_id, at_s)), key=lambda each: each.time_ns):
        reported.step(one, at_s=max(at_s, 100.0))
    assert len(reported.open) == 2


def test_what_was_reported_ahead_is_closed_and_names_the_incident_that_took_it_in() -> None:
    reported = IncidentTexts()
    (ahead,) = reported.step(xid(74, GPUS[0], 99.0), at_s=99.0)
    reported.step(LOST, at_s=100.0)
    (incident,) = reported.open
    assert reported.newest[ahead.id].state is IncidentState.CLOSED
    assert f"merged into {incident.id}" in reported.newest[ahead.id].summary


def test_an_error_of_the_fabric_that_lasted_before_the_loss_stands_by_itself() -> None:
    reported = IncidentTexts()
    reported.step(xid(74, GPUS[0], 10.0), at_s=10.0)
    reported.step(LOST, at_s=100.0)
    assert {one.cause for one in reported.open} == {Cause.FABRIC_ERROR, Cause.GPU_LOST}
