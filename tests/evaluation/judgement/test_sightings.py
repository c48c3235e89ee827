from dataclasses import replace

from evaluation.judgement.sightings import RankedCause, faults_of, sightings_of
from telemetry.clock import NS_PER_S
from telemetry.entities import BOARD_PLACE, BUS_TAG, PLACE_TAG, SOURCE_TAG, Entity, EntityKind
from telemetry.records import Cause, FaultClass, Hypothesis, IncidentState, PathStep, Severity
from tests import record_samples
from tests.analytics.scenes import node_of

EARLIER = replace(
    record_samples.INCIDENT,
    time_ns=10 * NS_PER_S,
    opened_ns=9 * NS_PER_S,
    severity=Severity.INFO,
    impact_gpu_hours=0.0,
    summary="12 V sags",
)


def test_an_incident_is_seen_once_with_all_that_it_was_ever_called() -> None:
    later = replace(EARLIER, time_ns=20 * NS_PER_S, cause=Cause.JOINT_AGEING, severity=Severity.WARNING)
    closed = replace(later, time_ns=90 * NS_PER_S, state=IncidentState.CLOSED, summary="closed")
    (one,) = sightings_of([EARLIER, later, closed])
    assert one.causes == {"supply_sag", "joint_ageing"}
    assert one.reported_ns == (10 * NS_PER_S, 20 * NS_PER_S, None)
    assert one.reported_at(Severity.WARNING) == 20 * NS_PER_S
    assert one.reported_at(Severity.INFO) == 10 * NS_PER_S
    assert one.reported_at(Severity.CRITICAL) is None
    assert [ranked.cause for ranked in one.ranked] == ["joint_ageing"]


def test_a_silenced_incident_is_recorded_and_pages_no_one_until_the_silence_is_over() -> None:
    quiet = replace(EARLIER, severity=Severity.CRITICAL, silence="silenced by ops until noon: swap of psu0")
    (noted,) = sightings_of([quiet])
    assert noted.reported_ns == (10 * NS_PER_S, None, None)
    (called,) = sightings_of([quiet, replace(quiet, time_ns=20 * NS_PER_S, silence=None)])
    assert called.reported_at(Severity.WARNING) == 20 * NS_PER_S


def guess(cause: str, probability: float) -> Hypothesis:
    return Hypothesis(cause=FaultClass(cause), probability=probability, for_=(), against=(), would_disprove="")


def test_hypotheses_are_ranked_by_their_probability() -> None:
    path = (PathStep(entity_id="supply:psu0", shows="resistance_up", since_ns=NS_PER_S),)
    guesses = (replace(guess("unknown", 0.2), ungrounded="no sign"), replace(guess("joint_ageing", 0.8), path=path))
    (one,) = sightings_of([replace(EARLIER, hypotheses=guesses)])
    assert one.ranked == (
        RankedCause(cause="joint_ageing", probability=0.8, root="supply:psu0", grounded=True),
        RankedCause(cause="supply_sag", probability=0.2, grounded=False),
    )
    assert "joint_ageing" in one.text


def test_what_is_unknown_is_called_by_its_symptom_unless_that_is_the_name_of_a_class() -> None:
    for symptom, name in ((Cause.STRAGGLER, "straggler"), (Cause.SENSOR_FAULT, "unknown")):
        (one,) = sightings_of([replace(EARLIER, cause=symptom, hypotheses=(guess("unknown", 0.7),))])
        assert one.ranked[0].cause == name


def label(cause: str, *entities: str, onset_s: int = 30, end_s: int | None = None) -> dict[str, object]:
    end_ns = None if end_s is None else end_s * NS_PER_S
    return {"cause": cause, "entities": list(entities), "onset_ns": onset_s * NS_PER_S, "end_ns": end_ns}


def test_a_fault_is_about_what_it_names_and_all_above_and_below_but_not_the_neighbour() -> None:
    (fault,) = faults_of([label("supply_lost", "psu1")], node_of(), node="box", together=False)
    assert {"supply:psu1", "node:box", "gpu:GPU-0"} <= fault.about
    assert "supply:psu0" not in fault.about


def test_a_fault_of_the_node_is_about_everything_on_it() -> None:
    (fault,) = faults_of([label("hang", "node")], node_of(), node="box", together=False)
    assert {"node:box", "supply:psu0", "gpu:GPU-3"} <= fault.about


def test_a_fault_of_a_supply_is_about_the_rail_of_its_bus_and_not_of_another() -> None:
    box = node_of()
    buses = {"psu0": "A", "psu1": "B"}
    supplies = [replace(one, tags=(*one.tags, (BUS_TAG, buses[one.name]))) for one in box.entities if one.name in buses]
    rails = [
        Entity(
            kind=EntityKind.SUPPLY,
            key=bus,
            name=bus,
            tags=((SOURCE_TAG, "bmc"), (PLACE_TAG, BOARD_PLACE), (BUS_TAG, bus)),
        )
        for bus in buses.values()
    ]
    others = [one for one in box.entities if one.name not in buses]
    (fault,) = faults_of(
        [label("joint_ageing", "psu1")], replace(box, entities=(*others, *supplies, *rails)), node="box", together=False
    )
    assert "supply:B" in fault.about
    assert "supply:A" not in fault.about
    assert fault.lies_in == {"supply:psu1", "supply:B"}


def test_a_fault_of_several_lies_in_what_they_share_too() -> None:
    (fault,) = faults_of([label("joint_ageing", "psu0", "psu1")], node_of(), node="box", together=False)
    assert fault.lies_in == {"supply:psu0", "supply:psu1", "node:box"}


def test_labels_that_are_one_event_are_one_fault_that_ends_with_the_last() -> None:
    labels = [label("supply_lost", "psu1", end_s=40), label("supply_overload", "psu0", onset_s=31, end_s=50)]
    (fault,) = faults_of(labels, node_of(), node="box", together=True)
    assert fault.causes == ("supply_lost", "supply_overload")
    assert (fault.onset_ns, fault.end_ns) == (30 * NS_PER_S, 50 * NS_PER_S)
    assert {"supply:psu0", "supply:psu1"} <= fault.about


def test_the_air_of_a_node_lies_in_its_fans_too() -> None:
    box = node_of()
    fan = Entity(kind=EntityKind.FAN, key="box/fan0", name="fan0")
    node = next(one for one in box.entities if one.kind is EntityKind.NODE)
    with_fan = replace(box, entities=(*box.entities, fan), edges=(*box.edges, (node.id, fan.id)))
    for cause, lies in (("airflow", True), ("hang", False)):
        (fault,) = faults_of([label(cause, "node")], with_fan, node="box", together=False)
        assert (fan.id in fault.lies_in) is lies
