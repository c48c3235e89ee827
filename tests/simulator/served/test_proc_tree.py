"""The proc tree, read by psutil in a process of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from agent.collectors.gpu.process_owner import owner_of
from simulator.plant.state import PlantNodeState
from simulator.served.proc_tree import IRQ_PID, QUEUE_PID, RANK_PID, TICKS_PER_S
from tests.simulator.served_plant import served_plant

_PROGRAM = """
import json, sys
import psutil
psutil.PROCFS_PATH = sys.argv[1]
rows = [
    {"pid": p.pid, "name": p.name(), "cmdline": p.cmdline(), "parent": p.ppid(), "rss": p.memory_info().rss,
     "system_s": p.cpu_times().system, "user_s": p.cpu_times().user, "threads": p.num_threads()}
    for p in psutil.process_iter()
]
print(json.dumps({"rows": rows, "memory": psutil.virtual_memory().total, "boot_s": psutil.boot_time()}))
"""


def read(proc_root: Path) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", _PROGRAM, str(proc_root)],
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    reported: dict[str, Any] = json.loads(done.stdout)
    return reported


def hang(state: PlantNodeState) -> None:
    state.nv_queue_ratio, state.nv_irq_ratio = 0.97, 0.9


def test_psutil_finds_the_ranks_and_the_drivers_threads(tmp_path: Path) -> None:
    with served_plant(tmp_path) as plant:
        plant.advance(1000)
        reported = read(plant.served.proc_root)
    rows = {row["pid"]: row for row in reported["rows"]}
    assert rows[QUEUE_PID]["name"] == "nv_queue"
    assert rows[IRQ_PID]["name"] == "irq/57-nvidia"
    assert rows[QUEUE_PID]["cmdline"] == []
    assert rows[QUEUE_PID]["parent"] == 2
    for gpu in range(4):
        rank = rows[RANK_PID + gpu]
        assert rank["name"] == "python3"
        assert rank["cmdline"] == ["python3", "train.py", f"--local-rank={gpu}"]
        assert rank["user_s"] > 0.5
        assert rank["rss"] > 2**30
    assert reported["memory"] > 2**38
    assert reported["boot_s"] == 1_700_000_000


def test_in_a_hang_the_drivers_threads_take_a_processor(tmp_path: Path) -> None:
    with served_plant(tmp_path) as plant:
        plant.advance(1000)
        before = {row["pid"]: row["system_s"] for row in read(plant.served.proc_root)["rows"]}
        state = plant.plant.state
        hang(state)
        for _ in range(10):  # the tree alone: the plant would take its own shares again
            state.now_ms += 200
            plant._proc.show(state)
        after = {row["pid"]: row["system_s"] for row in read(plant.served.proc_root)["rows"]}
    assert abs(after[QUEUE_PID] - before[QUEUE_PID] - 2.0 * 0.97) <= 2 / TICKS_PER_S
    assert abs(after[IRQ_PID] - before[IRQ_PID] - 2.0 * 0.9) <= 2 / TICKS_PER_S


def test_the_processors_time_never_goes_back_when_a_job_ends(tmp_path: Path) -> None:
    def busy_ticks() -> int:
        line = (plant.served.proc_root / "stat").read_text(encoding="ascii").splitlines()[0]
        return int(line.split()[1])

    with served_plant(tmp_path) as plant:
        plant.advance(1000)
        before = busy_ticks()
        state = plant.plant.state
        state.gpus.memory_used_bytes[:] = 0.0
        for _ in range(2):
            state.now_ms += 1000
            plant._proc.show(state)
        assert busy_ticks() >= before > 0


def test_only_who_works_now_is_running(tmp_path: Path) -> None:
    with served_plant(tmp_path) as plant:
        plant.advance(1000)
        state, proc = plant.plant.state, plant.served.proc_root
        letters = []
        for ratio in (0.97, 0.0):
            state.nv_queue_ratio = ratio
            state.now_ms += 1000
            plant._proc.show(state)
            stat = (proc / str(QUEUE_PID) / "stat").read_text(encoding="ascii")
            status = (proc / str(QUEUE_PID) / "status").read_text(encoding="ascii")
            letters.append((stat.split()[2], status.partition("State:\t")[2][0]))
        assert letters == [("R", "R"), ("S", "S")]


def test_without_a_job_there_are_no_ranks(tmp_path: Path) -> None:
    with served_plant(tmp_path) as plant:
        plant.advance(1000)
        state = plant.plant.state
        state.gpus.memory_used_bytes[:] = 0.0
        state.now_ms += 1000
        plant._proc.show(state)
        assert sorted(path.name for path in plant.served.proc_root.iterdir() if path.name.isdigit()) == [
            "1",
            "2",
            str(QUEUE_PID),
            str(IRQ_PID),
        ]


def test_no_half_written_file_is_left_beside_the_others(tmp_path: Path) -> None:
    with served_plant(tmp_path) as plant:
        plant.advance(1000)
        names = {name for _, _, files in os.walk(plant.served.proc_root) for name in files}
    assert not any(name.startswith(".") for name in names)


def test_the_ranks_are_tasks_of_a_slurm_job_and_the_next_job_has_the_next_number(tmp_path: Path) -> None:
    with served_plant(tmp_path) as plant:
        plant.advance(1000)
        state, proc = plant.plant.state, plant.served.proc_root
        owners = []
        for _ in range(2):
            owners.append([owner_of(RANK_PID + gpu, proc) for gpu in range(4)])
            state.job_number += 1
            state.now_ms += 1000
            plant._proc.show(state)
        assert [{owner.job for owner in of_job} for of_job in owners] == [{"slurm:1000"}, {"slurm:1001"}]
        assert owners[0][0].start_ticks != owners[1][0].start_ticks, "they are other processes"
        (proc / str(RANK_PID) / "environ").unlink()
        assert owner_of(RANK_PID, proc).job == "slurm:1002", "the control group says the same"
        assert owner_of(1, proc).job is None
