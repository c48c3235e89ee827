"""A ``/proc`` as the kernel would show it: the driver's kernel threads, the ranks of the job, and the node's totals.

The fields are those of proc(5). What programs that look for a hang read there is what the plant says of it.
"""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from simulator.files.node import NodeFile
from simulator.plant.state import NodeState
from simulator.publish import PROCESS_BYTES, RANK_PID

TICKS_PER_S = 100  # USER_HZ, proc(5)
SHOWN_EVERY_MS = 200  # assumption: nobody looks more often
QUEUE_PID, IRQ_PID = 812, 813
CPUS = 64  # assumption: two sockets
MEMORY_KB = 512 * 1024 * 1024  # assumption
_KERNEL_THREAD = 0x00200000  # PF_KTHREAD, include/linux/sched.h
_RANK_THREADS = 40  # assumption: data loaders and the libraries' own threads
_RANK_RSS_KB = 6 * 1024 * 1024  # assumption: what a training rank holds of the host's memory
_PAGE_KB = 4


@dataclass(slots=True, kw_only=True)
class _Task:
    pid: int
    comm: str
    parent: int
    user_s: float = 0.0
    system_s: float = 0.0
    start_ticks: int = 0

    @property
    def is_kernel_thread(self) -> bool:
        return self.parent in (0, 2) and self.pid != 1


class ProcTree:
    """The tree under a folder.

    Parameters
    ----------
    start_s
        UTC time of the boot, in seconds.
    """

    def __init__(self, root: Path, node: NodeFile, *, start_s: int) -> None:
        self.root = root
        self._node = node
        self._start_s = start_s
        self._queue = _Task(pid=QUEUE_PID, comm="nv_queue", parent=2)
        self._irq = _Task(pid=IRQ_PID, comm="irq/57-nvidia", parent=2)
        self._ranks: dict[int, _Task] = {}
        self._now_ms = 0
        self._shown_ms: int | None = None
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir(parents=True)
        for task in (_Task(pid=1, comm="systemd", parent=0), _Task(pid=2, comm="kthreadd", parent=0)):
            self._add(task)
        self._add(self._queue)
        self._add(self._irq)
        self._show_node()

    def show(self, state: NodeState) -> None:
        """Let time pass up to the state's, and show what came of it five times a second."""
        self._work(state, (state.now_ms - self._now_ms) / 1000.0)
        self._now_ms = state.now_ms
        if self._shown_ms is not None and state.now_ms - self._shown_ms < SHOWN_EVERY_MS:
            return
        self._shown_ms = state.now_ms
        self._start_and_end(state)
        for task in (self._queue, self._irq, *self._ranks.values()):
            _write_times(self.root / str(task.pid), task)
        self._show_node()

    def close(self) -> None:
        """Nothing is held open."""

    def _work(self, state: NodeState, elapsed_s: float) -> None:
        self._queue.system_s += elapsed_s * state.nv_queue_ratio
        self._irq.system_s += elapsed_s * state.nv_irq_ratio
        for task in self._ranks.values():
            task.user_s += 0.8 * elapsed_s  # assumption: a rank spins, mostly in its own code
            task.system_s += 0.2 * elapsed_s

    def _start_and_end(self, state: NodeState) -> None:
        own = self._node.gpu.memory_reserved_bytes + PROCESS_BYTES
        busy = {gpu for gpu, used in enumerate(state.gpus.memory_used_bytes) if used > own and state.powered}
        # A rank whose GPU is lost waits in the driver until the job dies.
        waiting = {gpu for gpu in self._ranks if not state.gpus.present[gpu]} if busy else set()
        for gpu in set(self._ranks) - busy - waiting:
            shutil.rmtree(self.root / str(self._ranks.pop(gpu).pid))
        for gpu in busy - set(self._ranks):
            ticks = state.now_ms * TICKS_PER_S // 1000
            task = _Task(pid=RANK_PID + gpu, comm="python3", parent=1, start_ticks=ticks)
            self._ranks[gpu] = task
            self._add(task)

    def _add(self, task: _Task) -> None:
        folder = self.root / f"new-{task.pid}"
        folder.mkdir()
        rank = task.pid - RANK_PID
        command = "" if task.is_kernel_thread else task.comm
        if rank >= 0:
            command = f"python3\0train.py\0--local-rank={rank}\0"
            (folder / "exe").symlink_to("/usr/bin/python3")
            (folder / "cwd").symlink_to("/")
        (folder / "cmdline").write_text(command, encoding="ascii")
        (folder / "comm").write_text(f"{task.comm}\n", encoding="ascii")
        (folder / "environ").write_text("", encoding="ascii")
        (folder / "task" / str(task.pid)).mkdir(parents=True)
        pages = 0 if task.is_kernel_thread else _RANK_RSS_KB // _PAGE_KB
        (folder / "statm").write_text(f"{4 * pages} {pages} 20000 1 0 {2 * pages} 0\n", encoding="ascii")
        (folder / "status").write_text(_status(task), encoding="ascii")
        _write_times(folder, task)
        folder.rename(self.root / str(task.pid))

    def _show_node(self) -> None:
        elapsed = self._now_ms * TICKS_PER_S // 1000
        tasks = (self._queue, self._irq, *self._ranks.values())
        user, system = (int(TICKS_PER_S * sum(getattr(t, key) for t in tasks)) for key in ("user_s", "system_s"))
        idle = max(0, CPUS * elapsed - user - system)
        line = f"cpu  {user} 0 {system} {idle} 0 0 0 0 0 0"
        each = [f"cpu{n} {user // CPUS} 0 {system // CPUS} {idle // CPUS} 0 0 0 0 0 0" for n in range(CPUS)]
        rest = ["intr 0", "ctxt 0", f"btime {self._start_s}", "processes 5000", "procs_running 1", "procs_blocked 0"]
        _replace(self.root / "stat", "\n".join([line, *each, *rest, ""]))
        _replace(self.root / "uptime", f"{self._now_ms / 1000:.2f} {idle / TICKS_PER_S:.2f}\n")
        _replace(self.root / "loadavg", f"{len(tasks) - 2}.00 {len(tasks) - 2}.00 {len(tasks) - 2}.00 1/800 5000\n")
        _replace(self.root / "meminfo", _meminfo(len(self._ranks) * _RANK_RSS_KB))
        _replace(self.root / "vmstat", "pswpin 0\npswpout 0\n")


def _write_times(folder: Path, task: _Task) -> None:
    stat = _stat(task)
    _replace(folder / "stat", stat)
    _replace(folder / "task" / str(task.pid) / "stat", stat)


def _replace(path: Path, text: str) -> None:
    """Write a file so that a reader sees the old text or the new one."""
    fresh = path.with_name(f".{path.name}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)
    fresh.replace(path)


def _stat(task: _Task) -> str:
    kernel = task.is_kernel_thread
    letter = "R" if task.user_s + task.system_s > 0 else "S"
    flags = _KERNEL_THREAD if kernel else 0
    ticks = (int(task.user_s * TICKS_PER_S), int(task.system_s * TICKS_PER_S))
    priority = -51 if task.comm.startswith("irq/") else 20  # threaded interrupts run SCHED_FIFO 50
    threads = 1 if kernel else _RANK_THREADS
    pages = 0 if kernel else _RANK_RSS_KB // _PAGE_KB
    group = 0 if kernel else task.pid
    head = f"{task.pid} ({task.comm}) {letter} {task.parent} {group} {group} 0 -1 {flags} 0 0 0 0"
    times = f"{ticks[0]} {ticks[1]} 0 0 {priority} 0 {threads} 0 {task.start_ticks}"
    return f"{head} {times} {4 * pages * _PAGE_KB * 1024} {pages}{' 0' * 28}\n"


def _status(task: _Task) -> str:
    memory = [] if task.is_kernel_thread else [f"VmSize:\t{4 * _RANK_RSS_KB} kB", f"VmRSS:\t{_RANK_RSS_KB} kB"]
    lines = [
        f"Name:\t{task.comm}",
        "Umask:\t0022",
        "State:\tS (sleeping)",
        f"Tgid:\t{task.pid}",
        f"Pid:\t{task.pid}",
        f"PPid:\t{task.parent}",
        "TracerPid:\t0",
        "Uid:\t0\t0\t0\t0",
        "Gid:\t0\t0\t0\t0",
        *memory,
        f"Threads:\t{1 if task.is_kernel_thread else _RANK_THREADS}",
        "Cpus_allowed_list:\t0-63",
        "voluntary_ctxt_switches:\t1",
        "nonvoluntary_ctxt_switches:\t1",
    ]
    return "\n".join([*lines, ""])


def _meminfo(used_kb: int) -> str:
    free = MEMORY_KB - used_kb
    values = {"MemTotal": MEMORY_KB, "MemFree": free, "MemAvailable": free}
    zeros = ("Buffers", "Cached", "SwapCached", "Active", "Inactive", "SwapTotal", "SwapFree", "Shmem", "Slab")
    rows = values | dict.fromkeys((*zeros, "SReclaimable"), 0)
    return "".join(f"{name}:{value:>16d} kB\n" for name, value in rows.items())
