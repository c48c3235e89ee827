"""For which GPUs an action is where jobs decide that: those of the job and no other, else every GPU of the node."""

import pytest

from rules.caps.targets import reach_summary, targets_of
from rules.engine.engine import Engine
from rules.policy.model import Response, SettingRule, Target
from telemetry.entities import Topology
from telemetry.records import Cause, Decision
from tests.rules import scenes
from tests.rules.scenes import ENFORCED, GPUS, HALF, incident, node, policy, seconds

TRAIN, OTHER = "slurm:7", "container:4f5a6b7c8d9e"
OF_JOB = Response(
    action=HALF.action,
    mode=HALF.mode,
    cooldown_s=0.0,
    hold_s=0.0,
    target=Target.ALL_GPUS_OF_JOB,
    setting=SettingRule(fraction=0.5),
    lease_s=120.0,
)


def on(*pairs: tuple[str, int]) -> tuple[tuple[str, str], ...]:
    return tuple((job, GPUS[gpu]) for job, gpu in pairs)


TWO_JOBS = on((TRAIN, 0), (TRAIN, 2), (OTHER, 3))


@pytest.mark.parametrize(
    ("entities", "meant", "text"),
    [
        ((GPUS[0],), (0, 2), "for the job slurm:7 on gpu0, gpu2"),
        ((GPUS[3],), (3,), "for the job container:4f5a6b7c8d9e on gpu3"),
        ((GPUS[2], GPUS[3]), (0, 2, 3), "for the job slurm:7 on gpu0, gpu2 and container:4f5a6b7c8d9e on gpu3"),
        ((GPUS[1],), (0, 1, 2, 3), "for every GPU of the node: its jobs are not known"),
        ((GPUS[0], GPUS[1]), (0, 1, 2, 3), "for every GPU of the node: its jobs are not known"),
        (("supply:psu0",), (0, 1, 2, 3), "for every GPU of the node: its jobs are not known"),
        (("node:box",), (0, 1, 2, 3), "for every GPU of the node: its jobs are not known"),
        (("supply:psu0", GPUS[0]), (0, 2), "for the job slurm:7 on gpu0, gpu2"),
    ],
)
def test_an_action_for_a_job_is_for_its_gpus_alone_and_for_the_node_where_an_owner_is_not_known(
    entities: tuple[str, ...], meant: tuple[int, ...], text: str
) -> None:
    topology = scenes.topology().with_jobs(TWO_JOBS)
    about = incident(entities=entities)
    assert targets_of(Target.ALL_GPUS_OF_JOB, about, node(), topology) == tuple(GPUS[gpu] for gpu in meant)
    assert reach_summary(Target.ALL_GPUS_OF_JOB, about, topology) == text


def test_where_a_supply_sags_it_is_for_the_jobs_on_the_gpus_that_it_feeds() -> None:
    plain = scenes.topology()
    feeds = (("supply:psu0", GPUS[0]), ("supply:psu0", GPUS[1]))
    topology = Topology(entities=plain.entities, edges=feeds).with_jobs(on((TRAIN, 0), (TRAIN, 1), (TRAIN, 2)))
    assert targets_of(Target.ALL_GPUS_OF_JOB, incident(), node(), topology) == GPUS[:3]
    assert targets_of(Target.ALL_GPUS_OF_SUPPLY, incident(), node(), topology) == GPUS[:2]


def test_a_gpu_of_the_job_that_is_lost_is_not_meant() -> None:
    topology = scenes.topology().with_jobs(TWO_JOBS)
    left = node(gpus=(GPUS[0], GPUS[1], GPUS[3]))
    assert targets_of(Target.ALL_GPUS_OF_JOB, incident(entities=(GPUS[0],)), left, topology) == (GPUS[0],)


def test_where_all_gpus_of_the_job_are_lost_no_other_job_is_slowed_down() -> None:
    topology = scenes.topology().with_jobs(TWO_JOBS)
    left = node(gpus=GPUS[:3])
    assert targets_of(Target.ALL_GPUS_OF_JOB, incident(entities=(GPUS[3],)), left, topology) == ()


@pytest.mark.parametrize("target", [target for target in Target if target is not Target.ALL_GPUS_OF_JOB])
def test_no_other_target_asks_for_jobs(target: Target) -> None:
    plain, reported = scenes.topology(), scenes.topology().with_jobs(TWO_JOBS)
    about = incident(entities=(GPUS[0],))
    assert targets_of(target, about, node(), reported) == targets_of(target, about, node(), plain)
    assert reach_summary(target, about, reported) == ""


def capped(engine: Engine, name: str, *, at_s: float) -> Decision:
    about = incident(Cause.POWER_BRAKE, name=name, entities=(GPUS[0],), at_s=at_s)
    decisions = engine.step((about,), node(), seconds(at_s))
    return next(decision for decision in decisions if decision.incident_id == name)


def test_a_job_that_ends_and_another_that_begins_move_the_next_cap_and_the_decision_states_for_whom_it_is() -> None:
    base = scenes.topology()
    engine = Engine((policy(OF_JOB),), limits=ENFORCED, topology=base.with_jobs(TWO_JOBS))
    first = capped(engine, "first", at_s=0.0)
    assert first.targets == (GPUS[0], GPUS[2])
    assert first.reason.endswith("; for the job slurm:7 on gpu0, gpu2")
    engine.topology = base.with_jobs(on(("slurm:8", 0), ("slurm:8", 1)))
    assert capped(engine, "second", at_s=700.0).targets == (GPUS[0], GPUS[1])
    engine.topology = base.with_jobs(())
    third = capped(engine, "third", at_s=1400.0)
    assert third.targets == GPUS
    assert third.reason.endswith("its jobs are not known")
