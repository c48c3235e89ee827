from itertools import pairwise

import pytest

from analytics.classification.grounds import line_between, with_grounds
from analytics.classification.reading import observations
from analytics.classification.score import classify
from analytics.connectivity import Kinship
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.records import Cause, FaultClass, Finding, Hypothesis
from tests.analytics.classification.scenes import GPUS, NODE, SUPPLIES, finding, scene
from tests.analytics.scenes import node_of


def grounded(cause: FaultClass, symptom: Finding, *beside: Finding, own: tuple[Finding, ...] = ()) -> Hypothesis:
    around = scene(symptom, *own, beside=beside)
    observed = observations(around)
    (one,) = [each for each in with_grounds(classify(observed), observed, around, symptom) if each.cause is cause]
    return one


def entities_of(one: Hypothesis) -> list[str]:
    return [step.entity_id for step in one.path]


def test_a_joint_that_aged_before_a_gpu_behind_it_was_lost_is_grounded() -> None:
    lost = finding(Cause.GPU_LOST, GPUS[2], at_s=30.0)
    one = grounded(FaultClass.JOINT_AGEING, lost, finding(Cause.JOINT_AGEING, SUPPLIES[0], at_s=10.0))
    assert entities_of(one) == [SUPPLIES[0], GPUS[2]]
    assert not one.ungrounded


def test_contacts_of_the_power_connector_of_a_gpu_lie_at_that_gpu() -> None:
    one = grounded(FaultClass.JOINT_AGEING, finding(Cause.JOINT_AGEING, GPUS[1], at_s=30.0))
    assert entities_of(one) == [GPUS[1]]
    assert not one.ungrounded


def test_a_joint_that_shows_after_the_loss_is_not() -> None:
    lost = finding(Cause.GPU_LOST, GPUS[2], at_s=30.0)
    one = grounded(FaultClass.JOINT_AGEING, lost, finding(Cause.JOINT_AGEING, SUPPLIES[0], at_s=37.0))
    assert one.ungrounded == "GPU 2 deviates 7 s before PSU 0"


def test_what_begins_within_a_block_of_each_other_has_no_order() -> None:
    lost = finding(Cause.GPU_LOST, GPUS[2], at_s=30.0)
    assert not grounded(FaultClass.JOINT_AGEING, lost, finding(Cause.JOINT_AGEING, SUPPLIES[0], at_s=31.5)).ungrounded


def test_a_cause_that_is_its_own_symptom_is_a_path_of_one_step() -> None:
    hot = finding(Cause.THERMAL_INTERFACE, GPUS[1], at_s=5.0)
    one = grounded(FaultClass.THERMAL_INTERFACE, hot)
    assert entities_of(one) == [GPUS[1]]
    assert not one.ungrounded


def test_a_cause_without_a_sign_of_its_own_has_no_path() -> None:
    one = grounded(FaultClass.DRIVER_FAULT, finding(Cause.GPU_LOST, GPUS[2]))
    assert not one.path
    assert one.ungrounded == "no sign that is its own"


def test_an_overload_that_only_a_gpu_shows_is_not_grounded() -> None:
    brake = finding(Cause.POWER_BRAKE, GPUS[0], at_s=3.0)
    one = grounded(FaultClass.SUPPLY_OVERLOAD, brake)
    assert entities_of(one) == [GPUS[0]]
    assert one.ungrounded == "no supply shows it"


@pytest.mark.parametrize(
    ("cause", "symptom"),
    [
        (FaultClass.HANG, Cause.HANG),
        (FaultClass.EXPORTER_FAULT, Cause.SENSOR_LOST),
        (FaultClass.SUPPLY_OVERLOAD, Cause.POWER_BRAKE),
    ],
)
def test_what_all_gpus_of_a_node_show_together_lies_in_what_holds_them(cause: FaultClass, symptom: Cause) -> None:
    first, *others = (finding(symptom, one, at_s=3.0 + place) for place, one in enumerate(GPUS))
    one = grounded(cause, first, own=tuple(others))
    assert entities_of(one) == [NODE, GPUS[0]]
    assert not one.ungrounded
    alone = grounded(cause, first)
    assert alone.ungrounded or entities_of(alone) == [GPUS[0]]


def test_steps_that_load_several_supplies_lie_in_their_node_and_a_joint_does_not() -> None:
    first, second = (finding(Cause.SYNCHRONOUS_OVERLOAD, one) for one in SUPPLIES)
    assert entities_of(grounded(FaultClass.SYNCHRONOUS_OVERLOAD, first, own=(second,))) == [NODE, SUPPLIES[0]]
    joint, other = (finding(Cause.JOINT_AGEING, one) for one in SUPPLIES)
    assert entities_of(grounded(FaultClass.JOINT_AGEING, joint, own=(other,))) == [SUPPLIES[0]]


def chain(*kinds: str) -> Topology:
    entities = tuple(
        Entity(kind=EntityKind(kind), key=f"{place}", name=f"{kind}{place}") for place, kind in enumerate(kinds)
    )
    ids = [one.id for one in entities]
    return Topology(entities=entities, edges=tuple(pairwise(ids)))


def test_an_entity_on_the_path_that_shows_nothing_is_named() -> None:
    nodes = chain("supply", "supply", "gpu")
    lost, sag = finding(Cause.GPU_LOST, "gpu:2", at_s=9.0), finding(Cause.SUPPLY_LOST, "supply:0", at_s=3.0)
    around = scene(lost, beside=(sag,), topology=nodes, judged=())
    observed = observations(around)
    (one,) = [
        each
        for each in with_grounds(classify(observed), observed, around, lost)
        if each.cause is FaultClass.SUPPLY_LOST
    ]
    assert one.ungrounded == "supply1 on the path shows nothing"
    assert entities_of(one) == ["supply:0", "gpu:2"]


def test_supplies_of_one_bus_are_joined_and_unrelated_ones_are_not() -> None:
    kinship = Kinship.of(node_of(4, 2))
    assert line_between(*SUPPLIES, kinship) == SUPPLIES
    assert line_between(GPUS[0], NODE, kinship) == (GPUS[0], NODE)
    assert line_between(GPUS[0], GPUS[1], kinship) == ()


def test_the_shortest_chain_is_found() -> None:
    kinship = Kinship.of(chain("node", "supply", "supply", "gpu"))
    assert kinship.line("node:0", "gpu:3") == ("node:0", "supply:1", "supply:2", "gpu:3")
    assert kinship.line("gpu:3", "node:0") == ()
    assert kinship.line("gpu:3", "gpu:3") == ("gpu:3",)
