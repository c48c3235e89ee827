from pathlib import Path

import numpy as np
import pytest

from evaluation.injection.traces import NodeTrace
from evaluation.power.chains import START_NS, Chain, Half, chains_of, joined, running_s
from evaluation.power.plan import PowerPlan, load_plan
from evaluation.power.recordings import read_runs
from telemetry.clock import NS_PER_S
from tests.evaluation.power.made_up import feed_chain, write_feeds, write_nodes, write_pins, write_sets


@pytest.fixture(scope="module")
def plan() -> PowerPlan:
    return load_plan()


def chains(root: Path, plan: PowerPlan, folder: str) -> list[Chain]:
    of = next(of for of in plan.sets if of.folder == folder)
    return list(chains_of(read_runs(root / folder, of), of, plan))


def test_runs_are_joined_with_a_pause_that_is_no_time_of_readings() -> None:
    trace = feed_chain(100).trace
    both = joined([trace, trace], name="both", gap_s=86_400.0)
    assert int(both.time_ns[0]) == START_NS
    assert int(both.time_ns[100] - both.time_ns[99]) == 86_400 * NS_PER_S
    assert running_s(both).tolist() == list(range(200))


def test_passes_of_a_run_are_in_one_half_and_every_machine_is_in_both(tmp_path: Path, plan: PowerPlan) -> None:
    for machine in "AB":
        for run in range(3):
            for number, passed in enumerate(("ranging", "run_1")):
                name = f"v1__{machine}__m{run}__Offline__{passed}.csv.gz"
                write_feeds(tmp_path / "mlperf_feeds" / name, 200, 10 * run + number)
    found = chains(tmp_path, plan, "mlperf_feeds")
    assert [(chain.name, len(chain.trace.time_ns)) for chain in found] == [
        ("v1__A, 3 feeds, calibration 0", 400),
        ("v1__A, 3 feeds, scored 0", 800),
        ("v1__B, 3 feeds, calibration 0", 400),
        ("v1__B, 3 feeds, scored 0", 800),
    ]


def test_every_second_machine_is_for_calibration(tmp_path: Path, plan: PowerPlan) -> None:
    found = chains(write_sets(tmp_path, rows=200), plan, "mlperf_power")
    assert [(chain.half, chain.name[:13]) for chain in found] == [
        (Half.SCORED, "v1__Vendor__A"),
        (Half.CALIBRATION, "v1__Vendor__B"),
    ]
    assert found[0].learn_rows == int(plan.learning * 800)
    assert found[0].judged_hours == pytest.approx((800 - 1 - found[0].learn_rows) / 3600.0)


def test_a_long_list_of_runs_makes_several_chains(tmp_path: Path, plan: PowerPlan) -> None:
    of = plan.sets[1].model_copy(update={"chain": 350.0})
    write_sets(tmp_path, rows=200)
    names = [
        (chain.name[-8:], len(chain.trace.time_ns))
        for chain in chains_of(read_runs(tmp_path / of.folder, of), of, plan)
    ]
    assert names[:2] == [("scored 0", 400), ("scored 1", 400)]


def test_nodes_of_one_large_job_are_divided_and_recorded_twins_have_a_chain_of_their_own(
    tmp_path: Path, plan: PowerPlan
) -> None:
    write_nodes(tmp_path / "mlperf_training_power" / "v1__64x__gpt__result_1_1.csv.gz", 200, 1, nodes=17, twins=True)
    calibration, scored, recorded = chains(tmp_path, plan, "mlperf_training_power")
    assert isinstance(calibration.trace, NodeTrace)
    assert isinstance(scored.trace, NodeTrace)
    assert not {*calibration.trace.nodes} & {*scored.trace.nodes}
    assert len(calibration.trace.nodes) == len(scored.trace.nodes) == 8
    assert recorded.twins == (("node_1", "node_2"),)
    assert calibration.judged_hours == pytest.approx(8 * (200 - 1 - calibration.learn_rows) / 3600.0)


def test_pieces_of_one_recording_are_in_turn_in_either_half(tmp_path: Path, plan: PowerPlan) -> None:
    write_pins(tmp_path / "astral_pins" / "game.csv.gz", 2400, 1)
    found = chains(tmp_path, plan, "astral_pins")
    assert [(chain.half, len(chain.trace.time_ns)) for chain in found] == [
        (Half.SCORED, 1200),
        (Half.CALIBRATION, 1200),
    ]
    assert not np.array_equal(found[0].trace.frame().values, found[1].trace.frame().values)
