from dataclasses import replace

import pytest

from evaluation.judgement.scoring import RunReport, score_run
from evaluation.judgement.sightings import RankedCause, Sighting, TrueFault
from evaluation.judgement.table import JUDGEMENT, JudgementTable
from telemetry.clock import NS_PER_S
from telemetry.documents import load_document

NODE, PSU0, PSU1, GPU0 = "node:box", "supply:psu0", "supply:psu1", "gpu:GPU-0"


@pytest.fixture(scope="module")
def table() -> JudgementTable:
    return load_document(JudgementTable, JUDGEMENT)


def ns(seconds: float) -> int:
    return round(seconds * NS_PER_S)


def seen(
    cause: str,
    at_s: float,
    *,
    on: str = PSU0,
    info: bool = False,
    ranked: tuple[RankedCause, ...] = (),
    also: tuple[str, ...] = (),
) -> Sighting:
    at_ns = ns(at_s)
    return Sighting(
        id=f"i-{cause}-{at_s}",
        entities=frozenset({on}),
        causes=frozenset({cause, *also}),
        ranked=ranked or (RankedCause(cause=cause),),
        reported_ns=(at_ns, None, None) if info else (None, at_ns, None),
        summary=f"{cause} on {on}",
    )


def fault(cause: str, *, onset_s: float = 30.0, end_s: float | None = None, on: str = PSU0) -> TrueFault:
    return TrueFault(
        causes=(cause,),
        about=frozenset({on, NODE, GPU0}),
        onset_ns=ns(onset_s),
        end_ns=None if end_s is None else ns(end_s),
        lies_in=frozenset({on}),
    )


def reported(*sightings: Sighting, faults: tuple[TrueFault, ...] = (), drop_s: float | None = None) -> RunReport:
    return RunReport(
        scenario="made-up",
        node="box",
        seed=1,
        group="full rate",
        quiet=not faults,
        duration_s=120.0,
        faults=faults,
        first_drop_ns=None if drop_s is None else ns(drop_s),
        sightings=sightings,
    )


def test_a_fault_that_is_named_counts_as_found_and_right_with_its_delay(table: JudgementTable) -> None:
    score = score_run(reported(seen("supply_lost", 33.5), faults=(fault("supply_lost"),)), table)
    (one,) = score.faults
    assert (one.found, one.top_1, one.top_3, one.delay_s) == (True, True, True, 3.5)
    assert (score.pages, score.false_pages) == (1, ())


def test_a_symptom_finds_the_fault_but_does_not_name_it(table: JudgementTable) -> None:
    score = score_run(reported(seen("supply_sag", 33.5), faults=(fault("joint_ageing"),)), table)
    (one,) = score.faults
    assert (one.found, one.top_1, one.top_3) == (True, False, False)
    assert score.false_pages == ()


def test_the_second_of_three_hypotheses_is_right_among_three_only(table: JudgementTable) -> None:
    ranked = (
        RankedCause(cause="supply_overload", probability=0.5),
        RankedCause(cause="joint_ageing", probability=0.4),
        RankedCause(cause="unknown", probability=0.1),
    )
    score = score_run(reported(seen("supply_sag", 33.0, ranked=ranked), faults=(fault("joint_ageing"),)), table)
    (one,) = score.faults
    assert (one.top_1, one.top_3, one.first) == (False, True, ranked[0])


def test_a_page_from_before_the_fault_finds_nothing_and_is_false(table: JudgementTable) -> None:
    score = score_run(reported(seen("supply_lost", 10.0), faults=(fault("supply_lost"),)), table)
    assert not score.faults[0].found
    assert score.false_pages == ("supply_lost on supply:psu0",)


def test_an_incident_that_stands_since_before_the_fault_does_not_find_it_by_getting_worse(
    table: JudgementTable,
) -> None:
    old = replace(seen("supply_lost", 40.0), reported_ns=(ns(5.0), ns(40.0), None))
    assert not score_run(reported(old, faults=(fault("supply_lost"),)), table).faults[0].found


def test_the_neighbour_is_the_wrong_entity(table: JudgementTable) -> None:
    score = score_run(reported(seen("supply_lost", 33.0, on=PSU1), faults=(fault("supply_lost"),)), table)
    assert not score.faults[0].found
    assert len(score.false_pages) == 1


def test_another_cause_on_the_right_entity_is_a_false_page(table: JudgementTable) -> None:
    score = score_run(reported(seen("gpu_lost", 33.0), faults=(fault("input_sag"),)), table)
    assert not score.faults[0].found
    assert len(score.false_pages) == 1
    assert score.wrong_drops == 1


def test_what_follows_from_a_fault_is_neither_right_nor_wrong(table: JudgementTable) -> None:
    score = score_run(reported(seen("power_brake", 31.0, on=GPU0), faults=(fault("joint_ageing"),)), table)
    assert not score.faults[0].found
    assert score.false_pages == ()


def test_info_is_no_page_but_a_notice_that_is_counted(table: JudgementTable) -> None:
    score = score_run(reported(seen("novelty", 33.0, info=True)), table)
    assert (score.pages, score.false_pages, score.false_notices) == (0, (), 1)
    assert score.right


def test_a_note_of_how_a_node_is_built_is_no_false_notice_and_a_page_of_it_is_false(table: JudgementTable) -> None:
    score = score_run(reported(seen("redundancy_lost", 20.0, info=True)), table)
    assert (score.false_notices, score.false_pages) == (0, ())
    score = score_run(reported(seen("redundancy_lost", 20.0)), table)
    assert len(score.false_pages) == 1


def test_info_is_not_enough_to_find_what_asks_for_a_page(table: JudgementTable) -> None:
    score = score_run(reported(seen("supply_lost", 33.0, info=True), faults=(fault("supply_lost"),)), table)
    assert not score.faults[0].found
    quiet = score_run(reported(seen("sensor_lost", 33.0, info=True), faults=(fault("exporter_fault"),)), table)
    assert quiet.faults[0].found


def test_a_fault_that_is_over_is_not_found_long_after(table: JudgementTable) -> None:
    over = (fault("input_sag", end_s=60.0),)
    assert score_run(reported(seen("input_sag", 100.0), faults=over), table).faults[0].found
    late = score_run(reported(seen("input_sag", 121.0), faults=over), table)
    assert not late.faults[0].found
    assert len(late.false_pages) == 1


def test_what_follows_from_a_lost_gpu_is_no_false_page(table: JudgementTable) -> None:
    after = (seen("gpu_lost", 50.2, on=GPU0), seen("fabric_error", 51.0, on="gpu:GPU-1"))
    score = score_run(reported(seen("supply_sag", 40.0), *after, faults=(fault("joint_ageing"),), drop_s=50.0), table)
    assert (score.false_pages, score.wrong_drops) == ((), 0)
    assert score.faults[0].lead_s == 10.0


def test_a_supply_that_is_blamed_for_a_lost_gpu_is_a_false_page(table: JudgementTable) -> None:
    lost = fault("no_electrical_evidence", on=GPU0)
    score = score_run(
        reported(seen("gpu_lost", 31.0, on=GPU0), seen("joint_ageing", 32.0), faults=(lost,), drop_s=30.0), table
    )
    assert score.faults[0].top_1
    assert score.false_pages == ("joint_ageing on supply:psu0",)


def test_of_several_incidents_a_person_reads_the_worst_first(table: JudgementTable) -> None:
    sag = replace(seen("supply_sag", 33.0), reported_ns=(None, ns(33.0), None))
    named = replace(seen("joint_ageing", 35.0), reported_ns=(None, None, ns(35.0)))
    (one,) = score_run(reported(sag, named, faults=(fault("joint_ageing"),)), table).faults
    assert (one.top_1, one.delay_s, one.pages) == (True, 3.0, 2)


def test_a_quiet_run_is_right_without_a_page_only(table: JudgementTable) -> None:
    assert score_run(reported(), table).right
    assert not score_run(reported(seen("hang", 20.0, on=NODE)), table).right


def test_faults_that_are_one_event_are_found_by_either_name(table: JudgementTable) -> None:
    both = replace(fault("supply_lost"), causes=("supply_lost", "supply_overload"))
    (one,) = score_run(reported(seen("supply_overload", 31.0), faults=(both,)), table).faults
    assert (one.cause, one.found, one.top_1) == ("supply_lost and supply_overload", True, True)


def test_a_cause_is_grounded_where_its_path_begins_at_the_fault(table: JudgementTable) -> None:
    there = RankedCause(cause="joint_ageing", probability=0.9, root=PSU0, grounded=True)
    for ranked, grounded in (
        (there, True),
        (replace(there, root=PSU1), False),
        (replace(there, grounded=False), False),
        (replace(there, cause="supply_lost"), False),
    ):
        score = score_run(
            reported(seen("joint_ageing", 33.0, ranked=(ranked,)), faults=(fault("joint_ageing"),)), table
        )
        assert score.faults[0].grounded is grounded


def test_the_set_is_exact_if_every_page_names_the_fault_and_none_another(table: JudgementTable) -> None:
    named, brake = seen("joint_ageing", 33.0), seen("power_brake", 35.0, on=GPU0)
    behind = replace(brake, ranked=(RankedCause(cause="joint_ageing"),))
    faults = (fault("joint_ageing"),)
    assert score_run(reported(named, faults=faults), table).exact
    assert score_run(reported(named, behind, faults=faults), table).exact
    assert not score_run(reported(named, brake, faults=faults), table).exact
    assert not score_run(reported(behind, seen("novelty", 60.0, on=PSU1), faults=faults), table).exact
    assert not score_run(reported(faults=faults), table).exact


def test_what_a_lost_gpu_leads_to_does_not_spoil_the_set(table: JudgementTable) -> None:
    run = reported(
        seen("joint_ageing", 33.0), seen("hang", 50.0, on=NODE), faults=(fault("joint_ageing"),), drop_s=40.0
    )
    assert score_run(run, table).exact
