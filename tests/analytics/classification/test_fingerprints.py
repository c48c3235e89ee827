"""Scenes for each fault of the table of fingerprints, and for each hard negative."""

from dataclasses import replace

import pytest

from analytics.classification.reading import IncidentScene, observations
from analytics.classification.sign import Sign
from analytics.judged import DIPS, PATHS
from telemetry.records import Cause, EventKind, FaultClass, Severity
from tests.analytics.classification.scenes import GPUS, NODE, SENSORS, SUPPLIES, finding, ranked, scene, share
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
    "a joint behind the supply's own meter": (
        FaultClass.JOINT_AGEING,
        scene(finding(Cause.JOINT_AGEING, SUPPLIES[0], share_ratio=0.88)),
    ),
    "a joint behind the supply's own meter, whose pair shows the resistance as before": (
        FaultClass.JOINT_AGEING,
        scene(
            finding(Cause.JOINT_AGEING, SUPPLIES[0], share_ratio=0.6),
            finding(Cause.SUPPLY_SAG, SUPPLIES[0], at_s=30.0, resistance_ratio=1.0),
        ),
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
    "a brake while the supplies are judged and show nothing": (
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
        scene(
            finding(Cause.LOOSE_MODULE, GPUS[3], pcie_errors=90.0, sibling_pcie_errors=0.0),
            finding(Cause.STRAGGLER, GPUS[3], at_s=60.0),
        ),
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
    "a lost GPU whose supplies are not judged": (
        FaultClass.NO_ELECTRICAL_EVIDENCE,
        scene(LOST, judged=()),
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
    "a brake where the supplies are not judged": scene(finding(Cause.POWER_BRAKE, GPUS[0]), judged=()),
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
    if name != "a lost GPU whose supplies are not judged":
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


ELECTRICAL = (FaultClass.JOINT_AGEING, FaultClass.SUPPLY_LOST, FaultClass.SUPPLY_OVERLOAD)


@pytest.mark.parametrize("judged", [(), (PATHS,), (SENSORS,)])
def test_the_silence_of_a_supply_that_was_not_judged_for_dips_states_nothing(judged: tuple[str, ...]) -> None:
    seen, blind = ranked(scene(LOST)), scene(LOST, judged=judged)
    assert sum(share(ranked(blind), one) for one in ELECTRICAL) > sum(share(seen, one) for one in ELECTRICAL)
    assert Sign.ELECTRICAL not in {one.sign for one in observations(blind)}


@pytest.mark.parametrize("judged", [(), (DIPS,), (PATHS,)])
def test_a_brake_is_alone_only_where_dips_and_paths_were_judged(judged: tuple[str, ...]) -> None:
    brakes = [finding(Cause.POWER_BRAKE, one) for one in GPUS]
    assert Sign.BRAKE_ALONE in {one.sign for one in observations(scene(*brakes))}
    assert Sign.BRAKE_ALONE not in {one.sign for one in observations(scene(*brakes, judged=judged))}


@pytest.mark.parametrize(
    ("judged", "without_dip"), [((), False), ((DIPS,), True), ((PATHS,), False), ((DIPS, PATHS), False)]
)
def test_a_brake_on_a_rail_that_was_seen_not_to_dip_is_an_overload_though_no_path_is_known(
    judged: tuple[str, ...], *, without_dip: bool
) -> None:
    braked = scene(*(finding(Cause.POWER_BRAKE, one) for one in GPUS), judged=judged)
    assert (Sign.BRAKE_WITHOUT_DIP in {one.sign for one in observations(braked)}) == without_dip
    assert (ranked(braked)[0].cause is FaultClass.SUPPLY_OVERLOAD) == (DIPS in judged)


def test_one_brake_that_came_while_its_supplies_were_not_judged_leaves_none_alone() -> None:
    early, late = finding(Cause.POWER_BRAKE, GPUS[0]), finding(Cause.POWER_BRAKE, GPUS[1], at_s=9.0)
    both = scene(early, late)
    half = replace(both, judged=frozenset(one for one in both.judged if one.finding_id == late.id))
    assert Sign.BRAKE_ALONE not in {one.sign for one in observations(half)}


def test_a_resistance_is_as_before_only_where_its_path_was_judged() -> None:
    sag = finding(Cause.SUPPLY_SAG, SUPPLIES[0], resistance_ratio=1.01)
    (denied,) = (one for one in observations(scene(sag)) if one.sign is Sign.RESISTANCE_UP)
    assert not denied.present
    assert Sign.RESISTANCE_UP not in {one.sign for one in observations(scene(sag, judged=(DIPS,)))}


def test_link_errors_stay_with_one_gpu_only_where_those_of_its_siblings_were_counted() -> None:
    unread = scene(finding(Cause.LOOSE_MODULE, GPUS[3], pcie_errors=90.0))
    signs = {one.sign for one in observations(unread)}
    assert (Sign.LINK_ERRORS in signs, Sign.LINKS_OF_ONE in signs) == (True, False)


def test_sensors_that_never_answered_are_no_witnesses_of_a_silence() -> None:
    silent = [finding(Cause.SENSOR_LOST, one) for one in GPUS[:2]]
    whole = scene(*silent)
    two = replace(whole, judged=frozenset(one for one in whole.judged if one.entity_id in GPUS[:2]))
    assert Sign.ONE_SILENT in {one.sign for one in observations(whole)}
    assert Sign.ALL_SILENT in {one.sign for one in observations(two)}


def test_an_error_without_a_code_is_neither_the_drivers_nor_the_devices() -> None:
    signs = {one.sign for one in observations(scene(finding(Cause.GPU_ERROR, GPUS[0])))}
    assert not signs & {Sign.APPLICATION_ERROR, Sign.DEVICE_ERROR}


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


@pytest.mark.parametrize("low_ratio", [0.97, 1.1])
def test_a_resistance_that_has_not_risen_for_sure_is_no_sign_against_a_sag_of_the_input(low_ratio: float) -> None:
    sags = (finding(Cause.INPUT_SAG, one, fallen_v=0.6, rise_ratio=1.14, rise_low_ratio=low_ratio) for one in SUPPLIES)
    texts = " ".join(ranked(scene(*sags))[0].for_)
    assert ("source resistance 1.14 x its baseline" in texts) is (low_ratio > 1.0)
