"""Outcomes: what is measured for which cause, from when, and when it is not clear whether an action helped."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from agent.guard.outcomes import MEASURES, OutcomeTracker
from telemetry.clock import NS_PER_S
from telemetry.entities import Entity, EntityKind
from telemetry.frames import FloatArray, Frame, TableSpec
from telemetry.quantities import EVIDENCE
from telemetry.records import (
    Cause,
    Decision,
    Finding,
    FindingStatus,
    Incident,
    IncidentState,
    Mode,
    Outcome,
    Severity,
)
from tests import record_samples
from tests.agent.fakes import START_NS
from tests.agent.guard.box import GOOD_OHM, GPUS, POWER_BRAKE, SUPPLIES, WEAK_OHM, Box, make_pipeline
from tests.rules import scenes


def decision_on(incident: Incident) -> Decision:
    return replace(
        record_samples.DECISION,
        id=f"rule:{incident.id}:1",
        time_ns=START_NS,
        rule="rule",
        incident_id=incident.id,
        targets=tuple(gpu.id for gpu in GPUS),
    )


def outcome_of(incident: Incident, box: Box, *, seconds: int = 40) -> Outcome:
    tracker = OutcomeTracker()
    tracker.begin(incident, decision_on(incident), box.time_ns)
    for _ in range(seconds):
        for frame in box.frames(20):
            tracker.feed(frame)
        due = tracker.step(box.time_ns)
        if due:
            (outcome,) = due
            return outcome
    raise AssertionError("no verdict fell")


def incident_of(cause: Cause, entity_id: str, **numbers: float) -> Incident:
    return scenes.incident(cause, entities=(entity_id,), numbers=numbers)


def test_a_sag_is_over_when_the_lowest_voltage_is_back_above_the_limit() -> None:
    sag = incident_of(Cause.SUPPLY_SAG, SUPPLIES[0].id, minimum_v=11.3, limit_v=11.4)
    helped = outcome_of(sag, Box(resistance_ohm=GOOD_OHM))
    assert helped.helped is True
    assert helped.before == 11.3
    assert helped.after is not None
    assert helped.after > 11.8
    assert helped.summary.startswith("helped; lowest voltage 11.30 V before, 1")
    failed = outcome_of(sag, Box(resistance_ohm=WEAK_OHM))
    assert failed.helped is False
    assert failed.summary.startswith("did not help; ")


@pytest.mark.parametrize(("after_v", "helped"), [(52.0, True), (50.75, False)])
def test_a_sag_of_the_board_is_judged_by_the_controllers_reading(after_v: float, *, helped: bool) -> None:
    """The outputs of the supplies and rails of other voltages do not show it, nor what it read before the action."""
    node = Entity(kind=EntityKind.NODE, key="box", name="box")
    sag = incident_of(Cause.SUPPLY_SAG, node.id, minimum_v=50.75, limit_v=51.3)
    tracker, volts = OutcomeTracker(), np.full(25, after_v)
    volts[:10] = 50.75
    tracker.begin(sag, decision_on(sag), START_NS)
    tracker.feed(_by_second(node, {"main_bus_voltage_v": volts, "rail_voltage_v": np.full(25, 12.1)}))
    tracker.feed(_by_second(SUPPLIES[0], {"voltage_v": np.full(25, 3.3)}))
    assert tracker.step(START_NS + 15 * NS_PER_S) == ()
    (outcome,) = tracker.step(START_NS + 25 * NS_PER_S)
    assert (outcome.helped, outcome.before, outcome.after) == (helped, 50.75, after_v)


def test_a_sag_of_the_rail_of_one_bus_is_judged_by_that_rail_alone() -> None:
    """Neither the rail of the other bus nor the outputs of the supplies count."""
    rails = [Entity(kind=EntityKind.SUPPLY, key=f"bmc-p54v-{one}", name=one) for one in "ab"]
    sag = incident_of(Cause.SUPPLY_SAG, rails[0].id, minimum_v=50.75, limit_v=51.3)
    sag = replace(sag, findings=tuple(replace(one, detector="bus_rail.supply_sag") for one in sag.findings))
    tracker = OutcomeTracker()
    tracker.begin(sag, decision_on(sag), START_NS)
    for rail, volts in zip(rails, (52.0, 50.0), strict=True):
        tracker.feed(_by_second(rail, {"rail_voltage_v": np.full(25, volts)}))
    tracker.feed(_by_second(SUPPLIES[0], {"voltage_v": np.full(25, 53.9)}))
    (outcome,) = tracker.step(START_NS + 25 * NS_PER_S)
    assert (outcome.helped, outcome.before, outcome.after) == (True, 50.75, 52.0)


def _by_second(entity: Entity, columns: dict[str, FloatArray]) -> Frame:
    values = np.stack([*columns.values()], axis=1)[:, np.newaxis, :]
    spec = TableSpec(name=str(entity.kind), kind=entity.kind, entities=(entity,), signals=tuple(columns))
    time_ns = START_NS + np.arange(len(values), dtype=np.int64) * NS_PER_S
    return Frame(spec=spec, time_ns=time_ns, values=values, fresh=np.ones(values.shape, dtype=np.bool_))


def test_a_verdict_falls_after_its_time_over_the_rows_that_settled() -> None:
    sag = incident_of(Cause.SUPPLY_SAG, SUPPLIES[0].id, minimum_v=11.3, limit_v=11.4)
    tracker, box = OutcomeTracker(), Box(resistance_ohm=WEAK_OHM)
    tracker.begin(sag, decision_on(sag), box.time_ns)
    for frame in box.frames(30):  # the step in which the cap came
        tracker.feed(frame)
    assert tracker.step(box.time_ns) == ()
    box.resistance_ohm = GOOD_OHM
    for frame in box.frames(20 * 11):
        tracker.feed(frame)
    (outcome,) = tracker.step(box.time_ns)
    assert outcome.helped is True
    assert tracker.step(box.time_ns + NS_PER_S) == ()


@pytest.mark.parametrize(("brake", "helped", "after"), [(0.0, True, 0.0), (float(POWER_BRAKE), False, 1.0)])
def test_a_power_brake_is_over_when_no_row_shows_it_any_more(brake: float, helped: bool, after: float) -> None:  # noqa: FBT001 -- a row of the table
    braked = incident_of(Cause.POWER_BRAKE, GPUS[1].id, brake_s=0.4)
    outcome = outcome_of(braked, Box(brake=brake))
    assert (outcome.helped, outcome.after, outcome.before) == (helped, after, None)
    assert "time under power brake not measured before" in outcome.summary


@pytest.mark.parametrize("cause", [Cause.AIRFLOW, Cause.THERMAL_INTERFACE, Cause.THERMAL_MARGIN])
def test_heat_is_measured_late_on_the_gpu_in_question(cause: Cause) -> None:
    hot = incident_of(cause, GPUS[2].id, gpu_temp_c=84.0)
    tracker, box = OutcomeTracker(), Box(temp_c={2: 84.0, 0: 86.0})
    tracker.begin(hot, decision_on(hot), box.time_ns)
    for frame in box.frames(20 * 19):  # the heat that was stored
        tracker.feed(frame)
    box.temp_c[2] = 76.0
    for frame in box.frames(20 * 11):
        tracker.feed(frame)
    (outcome,) = tracker.step(box.time_ns)
    assert (outcome.before, outcome.after, outcome.helped) == (84.0, 76.0, True)


def test_without_a_value_afterwards_the_outcome_is_not_clear() -> None:
    sag = incident_of(Cause.THERMAL_MARGIN, GPUS[0].id, gpu_temp_c=84.0)
    outcome = outcome_of(sag, Box(lost={0}))
    assert (outcome.helped, outcome.after) == (None, None)
    assert outcome.summary == "not clear; highest temperature 84.00 °C before, not measured after"


def test_a_cause_without_a_measure_is_not_followed() -> None:
    lost = incident_of(Cause.GPU_LOST, GPUS[0].id)
    tracker = OutcomeTracker()
    tracker.begin(lost, decision_on(lost), 0)
    assert tracker.step(1 << 62) == ()


def test_a_stricter_cap_starts_again_with_the_value_that_was_there_first() -> None:
    tracker, box = OutcomeTracker(), Box(resistance_ohm=GOOD_OHM)
    first = incident_of(Cause.SUPPLY_SAG, SUPPLIES[0].id, minimum_v=11.2, limit_v=11.4)
    tracker.begin(first, decision_on(first), box.time_ns)
    box.frames(100)
    later = incident_of(Cause.SUPPLY_SAG, SUPPLIES[0].id, minimum_v=11.39, limit_v=11.4)
    tracker.begin(later, decision_on(later), box.time_ns)
    assert tracker.step(box.time_ns + 11 * NS_PER_S) == ()
    (outcome,) = tracker.step(box.time_ns + 12 * NS_PER_S)
    assert outcome.before == 11.2


@pytest.mark.parametrize(
    ("ohm_before", "ohm_after", "helped"),
    [(WEAK_OHM, GOOD_OHM, True), (GOOD_OHM, GOOD_OHM, None), (GOOD_OHM, WEAK_OHM, False)],
)
def test_what_was_well_just_before_an_action_is_credited_to_none(
    ohm_before: float,
    ohm_after: float,
    helped: bool | None,  # noqa: FBT001 -- a row of the table
) -> None:
    sag = incident_of(Cause.SUPPLY_SAG, SUPPLIES[0].id, minimum_v=11.09, limit_v=11.4)
    tracker, box = OutcomeTracker(), Box(resistance_ohm=WEAK_OHM)
    for ohm, count in ((WEAK_OHM, 40), (ohm_before, 20 * 11)):
        box.resistance_ohm = ohm
        for frame in box.frames(count):
            tracker.feed(frame)
    tracker.begin(sag, decision_on(sag), box.time_ns)
    box.resistance_ohm = ohm_after
    for frame in box.frames(20 * 12):
        tracker.feed(frame)
    (outcome,) = tracker.step(box.time_ns)
    assert outcome.helped is helped
    assert outcome.before is not None
    assert (outcome.before > 11.4) is (ohm_before == GOOD_OHM)


def test_heat_that_was_over_before_an_action_is_credited_to_none_however_little_it_goes_on_falling() -> None:
    over = scenes.incident(
        Cause.THERMAL_MARGIN, entities=(GPUS[2].id,), numbers={"gpu_temp_c": 84.0}, state=IncidentState.CLOSED
    )
    outcome = outcome_of(over, Box(temp_c={2: 60.0}))
    assert (outcome.helped, outcome.after) == (None, 60.0)


def test_what_is_followed_is_forgotten_when_its_incident_closes() -> None:
    sag = incident_of(Cause.SUPPLY_SAG, SUPPLIES[0].id, minimum_v=11.3, limit_v=11.4)
    tracker = OutcomeTracker()
    tracker.begin(sag, decision_on(sag), 0)
    tracker.forget([sag.id])
    assert tracker.step(1 << 62) == ()


def _finding_numbers(cause: Cause) -> set[str]:
    """Return the evidence that the real detector of a cause reports on this box."""
    box = {
        Cause.SUPPLY_SAG: Box(resistance_ohm=WEAK_OHM),
        Cause.POWER_BRAKE: Box(brake=float(POWER_BRAKE)),
        Cause.THERMAL_MARGIN: Box(temp_c={1: 85.0}),
        Cause.THERMAL_INTERFACE: Box(temp_c={1: 78.0}),
    }[cause]
    pipeline = make_pipeline(Mode.OBSERVE)
    for _ in range(60):
        step = pipeline.step(box.frames(20), (), box.time_ns)
        for finding in step.findings:
            if finding.cause is cause:
                assert all(np.isfinite(item.value) for item in finding.evidence)
                return {item.name for item in finding.evidence}
    raise AssertionError(f"no finding of {cause}")


# These take minutes of load and a reference of the path; what they give as evidence is in the catalogue.
SLOW = {Cause.AIRFLOW, Cause.JOINT_AGEING, Cause.SUPPLY_OVERLOAD, Cause.SYNCHRONOUS_OVERLOAD}


def test_what_a_slow_measure_names_is_evidence_that_detectors_give() -> None:
    named = {name for cause in SLOW for name in (MEASURES[cause].evidence, MEASURES[cause].limit)}
    assert {name for name in named if isinstance(name, str)} <= set(EVIDENCE)


# The temperature in an incident about the air comes from the thin margin that it explains.
@pytest.mark.parametrize("cause", [cause for cause in MEASURES if cause not in SLOW])
def test_the_detectors_give_the_evidence_that_a_measure_names(cause: Cause) -> None:
    measure = MEASURES[cause]
    named = {name for name in (measure.evidence, measure.limit) if isinstance(name, str)}
    assert named <= _finding_numbers(cause)


def test_a_clock_that_is_set_back_makes_a_verdict_no_later_than_its_time() -> None:
    sag = incident_of(Cause.SUPPLY_SAG, SUPPLIES[0].id, minimum_v=11.3, limit_v=11.4)
    tracker, box = OutcomeTracker(), Box(resistance_ohm=GOOD_OHM)
    tracker.begin(sag, decision_on(sag), box.time_ns + 3600 * NS_PER_S)
    assert tracker.step(box.time_ns) == ()
    for frame in box.frames(20 * 12):
        tracker.feed(frame)
    (outcome,) = tracker.step(box.time_ns)
    assert outcome.helped is True


def finding_on(entity_id: str, at_ns: int, **changes: Any) -> Finding:
    (finding,) = incident_of(Cause.SUPPLY_SAG, entity_id, minimum_v=11.3).findings
    return replace(finding, time_ns=at_ns, since_ns=at_ns, status=FindingStatus.RAISED, **changes)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, "not clear: 1 new finding since; lowest voltage 11.30 V before, "),
        ({"severity": Severity.INFO}, "helped; "),
        ({"cause": Cause.JOINT_AGEING}, "helped; "),
    ],
)
def test_an_action_is_not_credited_with_help_where_new_symptoms_came_after_it(
    changes: dict[str, Any], text: str
) -> None:
    sag = incident_of(Cause.SUPPLY_SAG, SUPPLIES[0].id, minimum_v=11.3, limit_v=11.4)
    tracker, box = OutcomeTracker(), Box(resistance_ohm=GOOD_OHM)
    tracker.begin(sag, decision_on(sag), box.time_ns)
    tracker.note_findings([finding_on(GPUS[0].id, box.time_ns + NS_PER_S)])  # of the step in which the cap came
    for frame in box.frames(20 * 11):
        tracker.feed(frame)
    tracker.note_findings([finding_on("supply:psu9", box.time_ns), finding_on(GPUS[2].id, box.time_ns, **changes)])
    for frame in box.frames(20):
        tracker.feed(frame)
    (outcome,) = tracker.step(box.time_ns)
    assert outcome.summary.startswith(text)
    assert outcome.helped is (True if text.startswith("helped") else None)
    assert len(outcome.summary) <= 100


def test_a_finding_that_gets_worse_after_an_action_speaks_against_its_help() -> None:
    sag = incident_of(Cause.SUPPLY_SAG, SUPPLIES[0].id, minimum_v=11.3, limit_v=11.4)
    tracker, box = OutcomeTracker(), Box(resistance_ohm=GOOD_OHM)
    known = finding_on(GPUS[2].id, box.time_ns, severity=Severity.WARNING)
    tracker.note_findings([known])
    tracker.begin(sag, decision_on(sag), box.time_ns)
    for frame in box.frames(20 * 12):
        tracker.feed(frame)
    worse = replace(known, time_ns=box.time_ns, status=FindingStatus.UPDATED, severity=Severity.CRITICAL)
    tracker.note_findings([replace(known, time_ns=box.time_ns, status=FindingStatus.UPDATED), worse])
    (outcome,) = tracker.step(box.time_ns)
    assert outcome.summary.startswith("not clear: 1 new finding since; ")


def test_a_power_brake_that_no_row_showed_was_not_measured_before() -> None:
    braked = incident_of(Cause.POWER_BRAKE, GPUS[1].id, brake_s=0.4)
    tracker, box = OutcomeTracker(), Box(brake=0.0)
    for frame in box.frames(20 * 11):
        tracker.feed(frame)
    tracker.begin(braked, decision_on(braked), box.time_ns)
    for frame in box.frames(20 * 12):
        tracker.feed(frame)
    (outcome,) = tracker.step(box.time_ns)
    assert (outcome.before, outcome.after, outcome.helped) == (None, 0.0, None)
    assert outcome.summary == "not clear; time under power brake not measured before, 0 % after"
