import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from bench import agent_cost, ingest, reaction, whole_node
from bench.subjects.actuator import Stamps
from bench.subjects.many_gpus import node_of, served_plant
from bench.subjects.sampling import PacedLoop
from bench.subjects.writing import bench_frame, parts
from simulator.driver.build import find_compiler
from telemetry.errors import TransientError
from tests.agent.fakes import FakeClock
from tests.services import require


def test_a_paced_loop_keeps_its_schedule_and_skips_what_it_missed() -> None:
    clock = FakeClock(monotonic_s=0.0)
    ran_s: list[float] = []

    def slow_at_first() -> None:
        ran_s.append(round(clock.monotonic_s(), 6))
        clock.advance(0.025 if len(ran_s) == 1 else 0.001)

    loop = PacedLoop(clock, 100.0, slow_at_first, lambda: None)
    loop.run(0.06)
    assert ran_s == [0.0, 0.03, 0.04, 0.05]
    assert loop.ticks == 4


@pytest.mark.parametrize("gpus", [8, 16])
def test_the_nodes_of_the_benchmark_have_gpus_with_addresses_of_their_own(gpus: int) -> None:
    node = node_of(str(gpus))
    assert node.gpu_count == gpus
    assert len({slot.pci for slot in node.slots}) == gpus


def test_shares_are_of_the_measured_time_and_the_driver_is_taken_off() -> None:
    cost = agent_cost.Cost(wall_s=10.0, cpu_s=0.5, resident_mib=50.0, ticks=1000, driver_s=0.2)
    assert cost.core_share == pytest.approx(0.05)
    assert cost.over_driver_share == pytest.approx(0.03)
    assert cost.core_us_per_gpu == pytest.approx(62.5)


def test_what_cannot_keep_up_is_compared_by_reading_and_no_row_comes_twice() -> None:
    cost = agent_cost.Cost(wall_s=10.0, cpu_s=0.5, resident_mib=50.0, ticks=1000, driver_s=0.2)
    slow = replace(cost, ticks=30)
    costs = {**dict.fromkeys(agent_cost.SUBJECTS, cost), "nvitop": slow}
    names = [row.name for row in (*agent_cost.rows_of(costs), *agent_cost.rows_of_slower(costs))]
    assert len(set(names)) == len(names)
    assert {
        "core_share",
        "over_driver_share",
        "resident_mib",
        "core_us_per_gpu_nvitop",
        "core_share_waking_20hz",
    } <= set(names)
    assert "core_us_per_gpu_pynvml" not in names


def test_the_frame_to_be_written_is_cut_without_loss() -> None:
    frame = bench_frame(1300, 1_769_860_800 * 10**9)
    cut = list(parts(frame))
    assert sum(len(part) for part in cut) == 1300
    assert all(len(part) * 8 <= 5000 for part in cut)


def test_stamps_are_seen_by_another_process_that_maps_them(tmp_path: Path) -> None:
    writer, clock = Stamps(tmp_path / "stamps", create=True), FakeClock()
    reader = Stamps(tmp_path / "stamps")
    writer.add(7.0)
    writer.add(8.0)
    assert reader.wait_for(2, clock, 1.0) == 8.0
    with pytest.raises(TransientError):
        reader.wait_for(3, clock, 0.01)
    writer.clear()
    with pytest.raises(TransientError):
        reader.wait_for(1, clock, 0.01)
    writer.close()
    reader.close()


def test_reaction_is_measured_through_guard_and_actuator_again_and_again(tmp_path: Path) -> None:
    taken_ms, unconfirmed = reaction.measure(tmp_path / "scene", 3)
    assert len(taken_ms) == 3
    assert all(0.0 < taken < 1000.0 for taken in taken_ms)
    assert unconfirmed == 0


@pytest.mark.integration
@pytest.mark.alone  # it measures times
def test_the_sampler_and_a_plain_loop_can_be_measured(tmp_path: Path) -> None:
    if find_compiler() is None:
        pytest.skip("no C compiler on this machine")
    with served_plant(tmp_path, 8) as served:
        for name, ticks in (("agent", 10), ("pynvml", 10)):
            cost = agent_cost.measure(name, 20.0, 1.0, served=served)
            assert cost.ticks > ticks
            assert 0.0 < cost.core_share < 1.0
            assert cost.resident_mib > 1.0


@pytest.mark.integration
def test_what_the_writers_sent_is_what_the_server_holds() -> None:
    require("influxd")
    rows = {row.name: row for row in ingest.run(times=200)}
    assert rows["values_per_cpu_s"].ratio is not None
    assert rows["values_per_cpu_s"].ratio > 1.0


def test_the_cost_of_a_node_is_the_sum_of_its_processes_without_the_plant() -> None:
    before = {
        1: whole_node.Use(name="sampler", cpu_s=1.0, pss_mib=30.0),
        2: whole_node.Use(name="service", cpu_s=2.0, pss_mib=60.0),
    }
    after = {1: replace(before[1], cpu_s=1.5), 2: replace(before[2], cpu_s=2.3)}
    poll = agent_cost.Cost(wall_s=10.0, cpu_s=0.1, resident_mib=40.0, ticks=10, driver_s=None, pss_mib=20.0)
    rows = {row.name: row for row in whole_node.rows_of(before, after, 10.0, dict.fromkeys(whole_node.AGAINST, poll))}
    assert rows["whole_node_core_share"].value == pytest.approx(0.08)
    assert rows["whole_node_core_share"].ratio == pytest.approx(8.0)
    assert rows["whole_node_pss_mib"].value == pytest.approx(90.0)
    assert rows["core_share_sampler"].value == pytest.approx(0.05)


def test_the_plant_of_a_run_does_not_count_and_each_process_has_its_name() -> None:
    code = "import sys, time; print('ready', flush=True); time.sleep(60)"
    names = ("railwatch.processes.plant", "railwatch.processes.sampler", "other")
    children = [subprocess.Popen([sys.executable, "-c", code, name], stdout=subprocess.PIPE) for name in names]
    try:
        for child in children:
            assert child.stdout is not None
            assert child.stdout.readline() == b"ready\n"
        found = whole_node.uses(psutil.Process())
        assert {child.pid: found[child.pid].name for child in children[1:]} == {
            children[1].pid: "sampler",
            children[2].pid: "supervisor",
        }
        assert children[0].pid not in found
    finally:
        for child in children:
            child.kill()
            child.communicate()
