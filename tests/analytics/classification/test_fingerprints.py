"""Scenes for each fault of the table of fingerprints, and for each hard negative."""

import pytest

from analytics.classification.reading import IncidentScene
from telemetry.records import Cause, EventKind, FaultClass, Severity
from tests.analytics.classification.scenes import GPUS, NODE, SUPPLIES, finding, ranked, scene, share
from tests.analytics.scenes import event_of

SAG = finding(Cause.SUPPLY_SAG, SUPPLIES[0], at_s=30.0, minimum_v=11.3)
SAGS = (SAG, finding(Cause.SUPPLY_SAG, SUPPLIES[1], at_s=30.1, minimum_v=11.3))
LOST = finding(Cause.GPU_LOST, GPUS[2], at_s=60.0, pci_present=0.0)
SUPPLY_FAILED = event_of(
    at_s=29.0, kind=EventKind.SUPPLY, code=0x0801, entity_id=SUPPLIES[1], message="PSU2 status: failed", source="sel"
)
AC_LOST = event_of(
    at_s=29.0, kind=EventKind.SUPPLY, code=0x0803, entity_id=SUPPLIES[0], message="PSU1: input lost", source="sel"
)
UNBOUND = event_of(at_s=50.0, kind=EventKind.DRIVER_UNBOUND, code=None, entity_id=GPUS[0], severity=Severity.INFO)

FAULTS: dict[str, tuple[FaultClass, IncidentScene]] = {
    "a joint that ages, long before any sag": (
        FaultClass.JOINT_AGEING,
        scene(finding(Cause.JOINT_AGEING, SUPPLIES[0], rise_ratio=1.12)),
    ),
    "a joint that ages and lets the rail sag": (
        FaultClass.JOINT_AGEING,
        scene(finding(Cause.JOINT_AGEING, SUPPLIES[0], rise_ratio=1.4), *SAGS, finding(Cause.POWER_BRAKE, GPUS[0])),
    ),
    "a sag whose own numbers show the resistance": (
        FaultClass.JOINT_AGEING,
        scene(finding(Cause.SUPPLY_SAG, SUPPLIES[0], resistance_ratio=1.5)),
    ),
    "a supply that is out": (
        FaultClass.SUPPLY_LOST,
        scene(finding(Cause.SUPPLY_LOST, SUPPLIES[1], rise_ratio=2.0), events=[SUPPLY_FAILED]),
    ),
    "a load beyond the path": (
        FaultClass.SUPPLY_OVERLOAD,
        scene(*SAGS, finding(Cause.SUPPLY_OVERLOAD, SUPPLIES[0], at_s=31.0)),
    ),
    "a brake while the supply is measured and shows nothing": (
        FaultClass.SUPPLY_OVERLOAD,
        scene(*(finding(Cause.POWER_BRAKE, one) for one in GPUS), finding(Cause.HW_SLOWDOWN, GPUS[0])),
    ),
    "a supply that is lost while the other carries its load": (
        FaultClass.SUPPLY_LOST,
        scene(finding(Cause.SUPPLY_LOST, SUPPLIES[1]), finding(Cause.SUPPLY_OVERLOAD, SUPPLIES[0], resistance_ratio=1)),
    ),
    "a joint of one branch while the other carries more": (
        FaultClass.JOINT_AGEING,
        scene(
            finding(Cause.JOINT_AGEING, SUPPLIES[0], rise_ratio=2.0),
            finding(Cause.SYNCHRONOUS_OVERLOAD, SUPPLIES[1], at_s=50.0, resistance_ratio=0.95),
        ),
    ),
    "steps in unison": (
        FaultClass.SYNCHRONOUS_OVERLOAD,
        scene(*SAGS, finding(Cause.SYNCHRONOUS_OVERLOAD, SUPPLIES[0], at_s=31.0)),
    ),
    "mains that sag": (
        FaultClass.INPUT_SAG,
        scene(
            finding(Cause.INPUT_SAG, SUPPLIES[0], fallen_v=0.6, rise_ratio=1.0),
            finding(Cause.INPUT_SAG, SUPPLIES[1], fallen_v=0.6, rise_ratio=1.0),
            events=[AC_LOST],
        ),
    ),
    "a cooler that is mounted badly": (
        FaultClass.THERMAL_INTERFACE,
        scene(finding(Cause.THERMAL_INTERFACE, GPUS[1], theta_ratio=1.4, grows_with_power_ratio=0.9)),
    ),
    "air that is too warm": (
        FaultClass.AIRFLOW,
        scene(finding(Cause.AIRFLOW, NODE), *(finding(Cause.THERMAL_MARGIN, one) for one in GPUS)),
    ),
    "a fan that stops": (
        FaultClass.AIRFLOW,
        scene(
            finding(Cause.AIRFLOW, NODE),
            events=[event_of(kind=EventKind.FAN, code=0x0401, entity_id=None, message="FAN2: lower critical")],
        ),
    ),
    "a module that comes loose": (
        FaultClass.LOOSE_MODULE,
        scene(finding(Cause.LOOSE_MODULE, GPUS[3]), finding(Cause.STRAGGLER, GPUS[3], at_s=60.0)),
    ),
    "a job that hangs": (
        FaultClass.HANG,
        scene(*(finding(Cause.HANG, one, thread_ratio=0.97) for one in GPUS)),
    ),
    "an application that fails": (
        FaultClass.DRIVER_FAULT,
        scene(finding(Cause.GPU_ERROR, GPUS[0], code=31.0)),
    ),
    "a sensor that contradicts the others": (
        FaultClass.SENSOR_FAULT,
        scene(finding(Cause.SENSOR_FAULT, SUPPLIES[0])),
    ),
    "a lost GPU without any electrical evidence": (FaultClass.NO_ELECTRICAL_EVIDENCE, scene(LOST)),
    "a lost GPU where nobody measures the supply": (
        FaultClass.NO_ELECTRICAL_EVIDENCE,
        scene(LOST, fed_seen=False),
    ),
    "a lost GPU below a joint that ages": (
        FaultClass.JOINT_AGEING,
        scene(LOST, beside=[finding(Cause.JOINT_AGEING, SUPPLIES[0], rise_ratio=1.5), *SAGS]),
    ),
}

HARD_NEGATIVES: dict[str, tuple[FaultClass, IncidentScene]] = {
    "an exporter that died is no lost GPU": (
        FaultClass.EXPORTER_FAULT,
        scene(*(finding(Cause.SENSOR_LOST, one) for one in GPUS)),
    ),
    "a driver upgrade is no lost GPU": (
        FaultClass.DRIVER_FAULT,
        scene(*(finding(Cause.SENSOR_LOST, one, at_s=51.0) for one in GPUS), events=[UNBOUND]),
    ),
    "a voltage sensor that is stuck is no sag": (
        FaultClass.SENSOR_FAULT,
        scene(SAG, beside=[finding(Cause.SENSOR_FAULT, SUPPLIES[0])]),
    ),
    "a resistance from a sensor that contradicts the others is no joint": (
        FaultClass.SENSOR_FAULT,
        scene(
            finding(Cause.JOINT_AGEING, SUPPLIES[0], rise_ratio=1.4),
            beside=[finding(Cause.SENSOR_FAULT, SUPPLIES[0])],
        ),
    ),
    "ranks that wait for a lost GPU are no hang of the job": (
        FaultClass.NO_ELECTRICAL_EVIDENCE,
        scene(finding(Cause.HANG, GPUS[0], at_s=65.0), beside=[LOST]),
    ),
    "link errors of a lost GPU's peers are no loose module": (
        FaultClass.NO_ELECTRICAL_EVIDENCE,
        scene(finding(Cause.FABRIC_ERROR, GPUS[0], at_s=62.0, code=74.0), beside=[LOST]),
    ),
    "errors of a lost GPU's peers are the loss": (
        FaultClass.NO_ELECTRICAL_EVIDENCE,
        scene(finding(Cause.GPU_ERROR, GPUS[0], at_s=62.0, code=45.0), siblings=[LOST]),
    ),
    "warm air at one slot is no interface": (
        FaultClass.AIRFLOW,
        scene(finding(Cause.AIRFLOW, GPUS[3]), finding(Cause.THERMAL_MARGIN, GPUS[3])),
    ),
}

AMBIGUOUS: dict[str, IncidentScene] = {
    "a sag and nothing else": scene(SAG),
    "two rails that sag together": scene(*SAGS),
    "a sag with a brake": scene(SAG, finding(Cause.POWER_BRAKE, GPUS[0], at_s=31.0)),
    "a brake where nobody measures the supply": scene(finding(Cause.POWER_BRAKE, GPUS[0]), fed_seen=False),
    "a slowdown alone": scene(finding(Cause.HW_SLOWDOWN, GPUS[0])),
    "a thin margin on a hot day": scene(finding(Cause.THERMAL_MARGIN, GPUS[0])),
    "an uncorrectable memory error": scene(finding(Cause.GPU_ERROR, GPUS[0], code=48.0)),
    "one silent sensor": scene(finding(Cause.SENSOR_LOST, GPUS[0])),
    "an error of the fabric alone": scene(finding(Cause.FABRIC_ERROR, GPUS[0], code=74.0)),
    "a rank that lags": scene(finding(Cause.STRAGGLER, GPUS[0])),
    "values that were never seen together": scene(finding(Cause.NOVELTY, GPUS[0])),
    "a lost GPU below a sag that nobody explains": scene(LOST, beside=[SAG]),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_named_first_and_with_confidence(name: str) -> None:
    cause, seen = FAULTS[name]
    likeliest = ranked(seen)[0]
    assert likeliest.cause is cause
    assert likeliest.for_
    if name != "a lost GPU where nobody measures the supply":
        assert likeliest.probability > 0.6


@pytest.mark.parametrize("name", HARD_NEGATIVES)
def test_what_looks_like_a_fault_is_named_for_what_it_is(name: str) -> None:
    cause, seen = HARD_NEGATIVES[name]
    assert ranked(seen)[0].cause is cause


@pytest.mark.parametrize("name", AMBIGUOUS)
def test_what_fits_several_answers_is_unknown_and_spread(name: str) -> None:
    hypotheses = ranked(AMBIGUOUS[name])
    assert hypotheses[0].cause is FaultClass.UNKNOWN
    assert hypotheses[0].probability < 0.7
    assert len(hypotheses) >= 4


def test_a_resistance_as_before_contradicts_a_joint() -> None:
    plain = ranked(scene(SAG))
    as_before = ranked(scene(finding(Cause.SUPPLY_SAG, SUPPLIES[0], resistance_ratio=1.01)))
    assert share(as_before, FaultClass.JOINT_AGEING) < share(plain, FaultClass.JOINT_AGEING) / 3


def test_an_excess_that_is_there_at_idle_too_is_no_interface() -> None:
    hypotheses = ranked(scene(finding(Cause.THERMAL_INTERFACE, GPUS[1], theta_ratio=1.4, grows_with_power_ratio=0.1)))
    assert share(hypotheses, FaultClass.THERMAL_INTERFACE) < 0.4


def test_where_nobody_measures_the_supply_its_silence_states_nothing() -> None:
    seen, blind = ranked(scene(LOST)), ranked(scene(LOST, fed_seen=False))
    electrical = (FaultClass.JOINT_AGEING, FaultClass.SUPPLY_LOST, FaultClass.SUPPLY_OVERLOAD)
    assert sum(share(blind, cause) for cause in electrical) > sum(share(seen, cause) for cause in electrical)


def test_siblings_that_began_far_apart_do_not_count_as_together() -> None:
    late = finding(Cause.SUPPLY_SAG, SUPPLIES[1], at_s=500.0)
    text = [line for one in ranked(scene(SAG, late)) for line in one.for_]
    assert not any("together" in line for line in text)
    assert any("together" in line for one in ranked(scene(*SAGS)) for line in one.for_)


def test_an_answer_carries_its_numbers_and_what_would_disprove_it() -> None:
    likeliest = ranked(scene(finding(Cause.JOINT_AGEING, SUPPLIES[0], rise_ratio=1.38), *SAGS))[0]
    assert "1.38 x its baseline" in likeliest.for_[0]
    assert "PSU 0" in likeliest.for_[0]
    assert likeliest.would_disprove
