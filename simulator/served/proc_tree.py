"""A ``/proc`` as the kernel would show it: the driver's kernel threads, the ranks of the job, and the node's totals.

The fields are those of proc(5). Programs that look for a hang read the state of the plant there.
"""

import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from simulator.files.node import NodeFile
from simulator.plant.state import GpuState, PlantNodeState
from telemetry.atomic_files import replace_file
from telemetry.frames import MaskArray

# Of the rank on GPU 0. Beyond PID_MAX_LIMIT (2^22 on 64 bit, include/linux/threads.h of the Linux kernel): no process
# of the machine that the node is served on can have it, so no program takes one for the other, or signals it.
RANK_PID = 5_000_000
_RANK_BYTES = 64 * 2**20  # assumption: with more than this in use, a process holds memory on the GPU
TICKS_PER_S = 100  # USER_HZ, proc(5)
SHOWN_EVERY_MS = 200  # assumption: no reader polls more often
QUEUE_PID, IRQ_PID = 812, 813
CPUS = 64  # assumption: two sockets
MEMORY_KB = 512 * 1024 * 1024  # assumption
_KERNEL_THREAD = 0x00200000  # PF_KTHREAD, include/linux/sched.h
_RANK_THREADS = 40  # assumption: data loaders and the libraries' own threads
_RANK_RSS_KB = 6 * 1024 * 1024  # assumption: what a training rank holds of the host's memory
_INIT_RSS_KB = 12 * 1024  # assumption
_SHARED_PAGES = 20_000  # assumption: what ranks share, libraries
_PAGE_KB = 4
FIRST_JOB = 1000  # assumption: the number that Slurm gave the first job
# Control group v2 of a task of a job (slurm.schedmd.com/cgroup_v2.html), and of what belongs to no job.
_RANK_GROUP = "0::/system.slice/slurmstepd.scope/job_{job}/step_0/user/task_{rank}"
_NO_GROUP = "0::/"


def ranks_running(node: NodeFile, gpus: GpuState) -> MaskArray:
    """Return a mask of the GPUs on which a rank holds memory, shape ``(n_gpus,)``."""
    running: MaskArray = np.asarray(gpus.memory_used_bytes > node.gpu.memory_reserved_bytes + _RANK_BYTES)
    return running


@dataclass(slots=True, kw_only=True)
class _Task:
    """Process; a kernel thread has no command and holds no memory."""

    pid: int
    comm: str
    parent: int
    command: tuple[str, ...] = ()
    environ: tuple[str, ...] = ()
    group: str = _NO_GROUP
    rss_kb: int = 0
    threads: int = 1
    start_ticks: int = 0
    user_s: float = 0.0
    system_s: float = 0.0
    runs: bool = False

    @property
    def is_kernel_thread(self) -> bool:
        return not self.command

    @property
    def state(self) -> tuple[str, str]:
        """Return the state as a letter and as a word, proc(5)."""
        return ("R", "running") if self.runs else ("S", "sleeping")

    @property
    def virtual_kb(self) -> int:
        """Return the address space; assumption: four times what is resident."""
        return 4 * self.rss_kb

    def work(self, *, user_s: float, system_s: float) -> None:
        """Account processor time."""
        self.user_s += user_s
        self.system_s += system_s
        self.runs = user_s + system_s > 0.0


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
        self._job_number = 0
        self._user_s = self._system_s = 0.0  # of all, those that ended too
        self._now_ms = 0
        self._shown_ms: int | None = None
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir(parents=True)
        init = _Task(pid=1, comm="systemd", parent=0, command=("/sbin/init",), rss_kb=_INIT_RSS_KB)
        for task in (init, _Task(pid=2, comm="kthreadd", parent=0), self._queue, self._irq):
            self._add(task)
        self._show_node()

    def show(self, state: PlantNodeState) -> None:
        """Advance to the time of the state, and rewrite the files five times a second."""
        self._work(state, (state.now_ms - self._now_ms) / 1000.0)
        self._now_ms = state.now_ms
        if self._shown_ms is not None and state.now_ms - self._shown_ms < SHOWN_EVERY_MS:
            return
        self._shown_ms = state.now_ms
        self._start_and_end(state)
        for task in (self._queue, self._irq, *self._ranks.values()):
            _write_task(self.root / str(task.pid), task)
        self._show_node()

    def _work(self, state: PlantNodeState, elapsed_s: float) -> None:
        shares = [(self._queue, 0.0, state.nv_queue_ratio), (self._irq, 0.0, state.nv_irq_ratio)]
        shares += [
            (task, 0.8, 0.2) for task in self._ranks.values()
        ]  # assumption: a rank spins, mostly in its own code
        for task, user_ratio, system_ratio in shares:
            user_s, system_s = user_ratio * elapsed_s, system_ratio * elapsed_s
            task.work(user_s=user_s, system_s=system_s)
            self._user_s += user_s
            self._system_s += system_s

    def _start_and_end(self, state: PlantNodeState) -> None:
        running = ranks_running(self._node, state.gpus) & state.powered
        busy = {gpu for gpu, runs in enumerate(running) if runs}
        # A rank whose GPU is lost waits in the driver until the job dies.
        waiting = {gpu for gpu in self._ranks if not state.gpus.present[gpu]} if busy else set()
        if state.job_number != self._job_number:  # all ranks of the job before have ended
            self._job_number = state.job_number
            waiting, over = set(), set(self._ranks)
        else:
            over = set(self._ranks) - busy - waiting
        for gpu in over:
            shutil.rmtree(self.root / str(self._ranks.pop(gpu).pid))
        for gpu in busy - set(self._ranks):
            job = FIRST_JOB + state.job_number
            self._ranks[gpu] = _Task(
                pid=RANK_PID + gpu,
                comm="python3",
                parent=1,
                command=("python3", "train.py", f"--local-rank={gpu}"),
                environ=(f"SLURM_JOB_ID={job}", f"SLURM_LOCALID={gpu}"),
                group=_RANK_GROUP.format(job=job, rank=gpu),
                rss_kb=_RANK_RSS_KB,
                threads=_RANK_THREADS,
                start_ticks=state.now_ms * TICKS_PER_S // 1000,
            )
            self._add(self._ranks[gpu])

    def _add(self, task: _Task) -> None:
        folder = self.root / f"new-{task.pid}"
        folder.mkdir()
        if not task.is_kernel_thread:
            (folder / "exe").symlink_to(f"/usr/bin/{task.comm}")
            (folder / "cwd").symlink_to("/")
        (folder / "cmdline").write_text("".join(f"{argument}\0" for argument in task.command), encoding="ascii")
        (folder / "comm").write_text(f"{task.comm}\n", encoding="ascii")
        (folder / "environ").write_text("".join(f"{line}\0" for line in task.environ), encoding="ascii")
        (folder / "cgroup").write_text(f"{task.group}\n", encoding="ascii")
        (folder / "task" / str(task.pid)).mkdir(parents=True)
        (folder / "statm").write_text(_statm(task), encoding="ascii")
        _write_task(folder, task)
        folder.rename(self.root / str(task.pid))

    def _show_node(self) -> None:
        elapsed = self._now_ms * TICKS_PER_S // 1000
        user, system = int(TICKS_PER_S * self._user_s), int(TICKS_PER_S * self._system_s)
        idle = max(0, CPUS * elapsed - user - system)
        line = f"cpu  {user} 0 {system} {idle} 0 0 0 0 0 0"
        each = [f"cpu{n} {user // CPUS} 0 {system // CPUS} {idle // CPUS} 0 0 0 0 0 0" for n in range(CPUS)]
        rest = ["intr 0", "ctxt 0", f"btime {self._start_s}", "processes 5000", "procs_running 1", "procs_blocked 0"]
        _replace(self.root / "stat", "\n".join([line, *each, *rest, ""]))
        _replace(self.root / "uptime", f"{self._now_ms / 1000:.2f} {idle / TICKS_PER_S:.2f}\n")
        load = f"{len(self._ranks)}.00"
        _replace(self.root / "loadavg", f"{load} {load} {load} 1/800 5000\n")
        _replace(self.root / "meminfo", _meminfo(len(self._ranks) * _RANK_RSS_KB))
        _replace(self.root / "vmstat", "pswpin 0\npswpout 0\n")


def _write_task(folder: Path, task: _Task) -> None:
    """Write what changes of a process: its times and its state."""
    stat = _stat(task)
    _replace(folder / "stat", stat)
    _replace(folder / "task" / str(task.pid) / "stat", stat)
    _replace(folder / "status", _status(task))


def _replace(path: Path, text: str) -> None:
    """Write a file so that a reader sees the old text or the new one."""
    replace_file(path, text.encode(), synced=False)


def _stat(task: _Task) -> str:
    kernel = task.is_kernel_thread
    flags = _KERNEL_THREAD if kernel else 0
    user, system = int(task.user_s * TICKS_PER_S), int(task.system_s * TICKS_PER_S)
    priority = -51 if task.comm.startswith("irq/") else 20  # threaded interrupts run SCHED_FIFO 50
    group = 0 if kernel else task.pid
    head = f"{task.pid} ({task.comm}) {task.state[0]} {task.parent} {group} {group} 0 -1 {flags} 0 0 0 0"
    times = f"{user} {system} 0 0 {priority} 0 {task.threads} 0 {task.start_ticks}"
    return f"{head} {times} {task.virtual_kb * 1024} {task.rss_kb // _PAGE_KB}{' 0' * 28}\n"


def _statm(task: _Task) -> str:
    total, resident = task.virtual_kb // _PAGE_KB, task.rss_kb // _PAGE_KB
    return f"{total} {resident} {min(resident, _SHARED_PAGES)} 1 0 {total // 2} 0\n"


def _status(task: _Task) -> str:
    letter, name = task.state
    memory = [] if task.is_kernel_thread else [f"VmSize:\t{task.virtual_kb} kB", f"VmRSS:\t{task.rss_kb} kB"]
    lines = [
        f"Name:\t{task.comm}",
        "Umask:\t0022",
        f"State:\t{letter} ({name})",
        f"Tgid:\t{task.pid}",
        f"Pid:\t{task.pid}",
        f"PPid:\t{task.parent}",
        "TracerPid:\t0",
        "Uid:\t0\t0\t0\t0",
        "Gid:\t0\t0\t0\t0",
        *memory,
        f"Threads:\t{task.threads}",
        f"Cpus_allowed_list:\t0-{CPUS - 1}",
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
