"""The suite plans enough machines, scores them against the oracle, and judges each as it is judged alone."""

from dataclasses import replace

import pytest

from analytics.detectors.limits import DetectorLimits
from analytics.detectors.panel import Panel
from evaluation.domain.oracle import SeenFault
from evaluation.domain.plan import DOMAIN, DomainPlan
from evaluation.domain.plant.faults import Fault, FaultKind
from evaluation.domain.runs import DomainBatch, DomainRun, judge_batch
from evaluation.domain.suite import planned_batches, rows_of
from evaluation.judgement.scoring import RunReport
from evaluation.judgement.sightings import RankedCause, Sighting, TrueFault
from evaluation.rows import Effort, Row
from telemetry.clock import NS_PER_S
from telemetry.documents import load_document
from telemetry.records import Finding
from tests.evaluation.domain.worlds import machines_of, world_of


@pytest.fixture(scope="module")
def plan() -> DomainPlan:
    return load_document(DomainPlan, DOMAIN)


def test_a_plain_run_has_two_hundred_machines_and_every_scene_at_several_rates(plan: DomainPlan) -> None:
    batches = planned_batches(plan, Effort())
    machines = [(name, seed) for batch in batches for name, seed in batch.scenes]
    assert len(machines) >= 400
    assert len({seed for _, seed in machines}) == len(machines)
    assert min(seed for _, seed in machines) == 1001
    for name in plan.scenes:
        assert len({batch.rate.supply_hz for batch in batches if name in dict(batch.scenes)}) >= 5, name


def test_enough_healthy_time_is_judged_for_a_bound_at_the_goal(plan: DomainPlan) -> None:
    days = (
        sum(batch.seconds * len(batch.scenes) for batch in planned_batches(plan, Effort()) if not _faulty(batch))
        / 86_400
    )
    # No finding in so many days bounds the rate with 95 % confidence (two-sided, exact Poisson).
    assert 3.689 / days <= (plan.goals["false findings per node-day"].max or 0.0)


def _faulty(batch: DomainBatch) -> bool:
    return batch.scenes[0][0] is not None


def test_an_answer_that_is_missing_is_refused(plan: DomainPlan) -> None:
    answers = {name: one.model_dump(by_alias=True) for name, one in plan.answers.items() if name != "hang"}
    with pytest.raises(ValueError, match="an answer for hang"):
        DomainPlan.model_validate(plan.model_dump(by_alias=True) | {"answers": answers})


ONSET_NS = 100 * NS_PER_S


def run(
    *,
    sure_s: float | None = 2.0,
    after_s: float | None = 8.0,
    cause: str = "joint_ageing",
    false: int = 0,
    faulty: bool = True,
    seed: int = 1,
    stated: float | None = None,
) -> DomainRun:
    at_ns = None if after_s is None else ONSET_NS + round(after_s * NS_PER_S)
    sighting = Sighting(
        id="i-1", entities=frozenset({"supply:a"}), causes=frozenset({cause}),
        ranked=(RankedCause(cause=cause, probability=stated),),
        reported_ns=(at_ns, at_ns, None), summary="",
    )  # fmt: skip
    fault = TrueFault(causes=("joint",), about=frozenset({"supply:a"}), onset_ns=ONSET_NS, end_ns=None)
    report = RunReport(
        scenario="joint", node="12 V", seed=seed, group="5 Hz", quiet=not faulty, duration_s=86_400.0,
        faults=(fault,) if faulty else (), first_drop_ns=None, sightings=() if after_s is None else (sighting,),
    )  # fmt: skip
    return DomainRun(
        report=report, answer="joint", family="joint" if faulty else "healthy", nominal_v=12.0, meter="pmbus",
        supply_hz=5.0, healthy_s=86_400.0, false=("x",) * false,
        seen=SeenFault(sigma=9.0, sure_after_s=sure_s) if faulty else None, debounce_s=3.6,
    )  # fmt: skip


def rows(plan: DomainPlan, *runs: DomainRun) -> dict[str, Row]:
    return {row.name: row for row in rows_of(runs, plan)}


def test_a_fault_that_the_oracle_is_not_sure_of_does_not_count(plan: DomainPlan) -> None:
    found = rows(plan, run(), run(sure_s=None, after_s=None))
    assert found["recall"].value == 1.0
    assert found["faults that the oracle is sure of"].value == 0.5
    assert rows(plan, run(), run(after_s=None))["recall"].value == 0.5


def test_a_fault_under_another_name_is_found_and_not_right(plan: DomainPlan) -> None:
    found = rows(plan, run(cause="supply_sag"))
    assert (found["recall"].value, found["top-1"].value) == (1.0, 0.0)


def test_a_delay_is_compared_with_the_oracles_or_with_the_documented_debounce(plan: DomainPlan) -> None:
    assert rows(plan, run())["delay over the oracle's"].value == pytest.approx(8.0 / (3.6 + 0.4))
    assert rows(plan, run(sure_s=16.0))["delay over the oracle's"].value == pytest.approx(0.5)


def test_findings_before_a_fault_and_on_healthy_machines_are_false(plan: DomainPlan) -> None:
    found = rows(plan, run(false=1), run(faulty=False))
    assert found["false findings per node-day"].value == 0.5
    assert found["false findings per node-day"].missed
    assert found["false findings per node-day, 12 V"].value == 0.5


def _judged_alone(seeds: tuple[int, ...], *faults: Fault) -> list[tuple[int, str, str]]:
    world = world_of(machines_of(seeds), *faults, seconds=100)
    panel = Panel.build(DetectorLimits())
    state, findings = panel.start(world.tables.specs), list[Finding]()
    for stretch in world.stretches():
        state, found = panel.step(state, stretch.frames, world.tables.topology)
        findings += found
    first = world.tables.node_of
    return [(one.time_ns, one.entity_id, one.cause.value) for one in findings if first[one.entity_id] == 0]


def test_a_machine_is_judged_the_same_alone_and_among_others() -> None:
    fault = Fault(kind=FaultKind.LOST, at_s=70.0)
    alone = _judged_alone((8,), fault)
    assert alone
    assert alone == _judged_alone((8, 1, 2, 3), fault)


def test_a_batch_reports_what_was_found_on_which_machine(plan: DomainPlan) -> None:
    quick = plan.model_copy(update={"onset": (60.0, 70.0), "duration": 110.0})
    rate = next(one for one in quick.rates if one.supply_hz == 5.0)
    scenes = (("lost supply", 8), (None, 9))
    lost, well = judge_batch(DomainBatch(plan=quick, rate=rate, scenes=scenes, seconds=110))
    assert (lost.report.scenario, well.report.scenario) == ("lost supply", "healthy")
    assert lost.seen is not None
    assert lost.seen.sure_after_s is not None
    assert well.seen is None
    assert any("supply_lost" in one.causes for one in lost.report.sightings)
    assert not well.false
    assert replace(lost, false=()).report.faults[0].onset_ns > 0


def test_a_rate_that_no_meter_has_is_refused(plan: DomainPlan) -> None:
    with pytest.raises(ValueError, match="supply_hz"):
        type(plan.rates[0])(supply_hz=3.0, gpu_hz=1.0, healthy=1, hours=1.0)


def test_confidence_is_judged_on_answers_about_faults_and_beside_them_with_false_pages(plan: DomainPlan) -> None:
    healthy = run(faulty=False, stated=0.9)
    found = rows(plan, run(stated=1.0), run(stated=0.6, seed=2), healthy)
    assert found["ece"].value == pytest.approx(0.2)
    assert found["ece, even seeds"].value == pytest.approx(0.4)
    assert found["ece with false pages"].value == pytest.approx((0.4 + 0.9) / 3)
    counts = [found[f"answers, {name}"].value for name in ("ece", "ece, even seeds", "ece with false pages")]
    assert counts == [2.0, 1.0, 3.0]
    assert found["ece"].missed
