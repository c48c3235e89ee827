from pathlib import Path

import numpy as np
import pytest

from evaluation.injection.traces import NodeTrace
from evaluation.power.plan import PowerPlan, load_plan
from evaluation.power.recordings import (
    missing_sets,
    read_feeds,
    read_nodes,
    read_pins,
    read_runs,
    servers_of,
    without_twins,
)
from telemetry.clock import NS_PER_S
from telemetry.errors import ConfigError
from tests.evaluation.power.made_up import TWINS, write_csv, write_feeds, write_nodes, write_pins, write_sets

HEAD = "time_s,watts,volts,amps,pf,ch1_watts,ch1_volts,ch1_amps,ch1_pf,ch2_watts,ch2_volts,ch2_amps,ch2_pf"


@pytest.fixture(scope="module")
def plan() -> PowerPlan:
    return load_plan()


def test_failed_rows_doubled_stamps_and_channels_without_load_are_left_out(tmp_path: Path) -> None:
    good = [700, 230, 1.5, 1, 700, 230, 3, 1, 0, 230, 0, 0]
    rows: list[list[object]] = [[0, *good], [1, *[-1] * 12], [2, *good], [2, *good], [1, *good], [3, *good]]
    trace = read_feeds(write_csv(tmp_path / "a.csv.gz", HEAD, rows))
    assert trace.power_w.tolist() == [[700.0]] * 3
    assert (trace.time_ns // NS_PER_S).tolist() == [0, 2, 3]


def test_a_feed_without_channels_is_read_from_the_totals_with_its_own_stamps(tmp_path: Path) -> None:
    rows: list[list[object]] = [[f"01-31-2022 10:00:0{second}.500", 500, 120, 4.3, 0.97] for second in range(3)]
    trace = read_feeds(write_csv(tmp_path / "a.csv.gz", "time,watts,volts,amps,pf", rows))
    assert trace.current_a.tolist() == [[4.3]] * 3
    assert np.diff(trace.time_ns).tolist() == [NS_PER_S] * 2


def test_nodes_are_on_one_clock_and_a_switch_is_no_node(tmp_path: Path) -> None:
    trace = read_nodes(write_nodes(tmp_path / "a.csv.gz", 50, 1))
    assert trace.nodes == ("node_0", "node_1", "node_2", "node_3")
    assert trace.power_w.shape == (50, 4)
    assert not np.isnan(trace.power_w).any()


def test_two_names_of_one_series_are_one_node_and_are_kept_as_a_label(tmp_path: Path) -> None:
    whole = read_nodes(write_nodes(tmp_path / "a.csv.gz", 50, 1, twins=True))
    alone, twins = without_twins(whole)
    assert twins == (TWINS,)
    assert alone.nodes == ("node_0", "node_1", "node_3")
    assert isinstance(alone, NodeTrace)
    assert np.array_equal(alone.power_w[:, 2], whole.power_w[:, 3])


def test_pins_are_read_without_what_other_tools_measured(tmp_path: Path) -> None:
    trace = read_pins(write_pins(tmp_path / "a.csv.gz", 40, 1))
    assert trace.voltage_v.shape == trace.current_a.shape == (40, 6)


@pytest.mark.parametrize(
    ("head", "row", "message"),
    [
        (HEAD, [0, *[1] * 5, "x", *[1] * 6], ":3: .*: got 'x'; expected a number"),
        (HEAD, [0, 1], ":3: got 2 cells; expected 13"),
        ("time_s,node,power", [0, "node_0", 1], ":1: no column watts"),
    ],
)
def test_a_recording_that_cannot_be_read_is_named_with_its_line(
    tmp_path: Path, head: str, row: list[object], message: str
) -> None:
    good: list[object] = [0, *[1] * 12] if head == HEAD else [0, "node_0", 1]
    path = write_csv(tmp_path / "a.csv.gz", head, [good, row])
    with pytest.raises(ConfigError, match=message) as error:
        (read_feeds if head == HEAD else read_nodes)(path)
    assert str(path) in str(error.value)


def test_passes_of_a_run_share_its_name_and_jobs_their_machine(tmp_path: Path, plan: PowerPlan) -> None:
    for passed in ("ranging", "run_1"):
        write_feeds(tmp_path / "f" / f"v1__A__model__Offline__{passed}.csv.gz", 60, 1)
    of = plan.sets[0]
    runs = read_runs(tmp_path / "f", of)
    assert {run.run for run in runs} == {"v1__A__model__Offline"}
    assert {run.machine for run in runs} == {"v1__A, 3 feeds"}
    nodes = next(of for of in plan.sets if of.folder == "mlperf_training_power")
    for name in ("v1__1x__bert__result_5119_06", "v1__1x__bert__result_5120_06", "v2__8x__lora__result_3"):
        write_nodes(tmp_path / "n" / f"{name}.csv.gz", 20, 1)
    assert [run.machine for run in read_runs(tmp_path / "n", nodes)] == [
        "v1__1x__bert__5119",
        "v1__1x__bert__5120",
        "v2__8x__lora",
    ]


def test_boards_are_no_servers_and_missing_folders_are_named(tmp_path: Path, plan: PowerPlan) -> None:
    root = write_sets(tmp_path, rows=40)
    runs = read_runs(root / "mlperf_power", plan.sets[1])
    assert servers_of(runs, 300.0) == runs
    assert servers_of(runs, 10_000.0) == []
    assert missing_sets(root, plan) == (plan.direct_current.folder,)
