"""Processor time of the GPU driver's kernel threads: a thread that spins is the signature of a hang.

The driver runs its bottom halves in threads named ``irq/<number>-nvidia`` (or ``-s-nvidia``, the second of two
handlers: kernel/irq/manage.c) and its deferred work in ``nv_queue`` (open-gpu-kernel-modules, kernel-open/nvidia/nv.c).
Times are those of proc(5) ``/proc/PID/stat``: ticks of USER_HZ, so over one second a share has steps of 0.01.
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from agent.collectors.sysfs.proc_file import ProcessStat, TextFile, parse_process_stat
from agent.collectors.tables import node_table
from telemetry.clock import Clock
from telemetry.frames import FloatArray
from telemetry.signals import RateClass, Source

QUEUE, IRQ = "nv_queue_ratio", "nv_irq_ratio"
_QUEUE_NAME = re.compile(rb"nv_queue")
# Before Linux 5.17 a thread's name ends after 15 characters (kernel/kthread.c): irq/1057-s-nvidia is irq/1057-s-nvid.
_IRQ_NAME = re.compile(rb"irq/\d+-(?:s-)?nvid.*")
_NAN = float("nan")
# heuristic: threads come and go with the driver; a scan of every process of a busy node costs some milliseconds.
_SCAN_EVERY_S = 30.0
_KTHREADD = 2  # the parent of every kernel thread (kernel/kthread.c, init/main.c)


@dataclass(slots=True, kw_only=True)
class _Thread:
    """A kernel thread, the signal it counts in, and its newest reading."""

    stat: TextFile
    signal: str
    last: ProcessStat | None = None


class DriverThreads:
    """Collector of one row: the share of a processor that all queue threads use, and all interrupt threads.

    NaN where the driver has no such thread, and until two reads have seen one.
    """

    name = "node_driver_threads"
    rate = RateClass.SLOW

    def __init__(self, node: str, clock: Clock, proc_root: Path = Path("/proc")) -> None:
        self.spec = node_table(self.name, node, Source.PROC)
        self._clock = clock
        self._root = str(proc_root)
        self._ticks_per_s = os.sysconf("SC_CLK_TCK")
        self._threads: dict[str, _Thread] = {}
        self._read_s: float | None = None
        self._scan_at_s = 0.0

    def count(self) -> int:
        """Return the number of such threads now; leaves no file open."""
        self._scan(self._clock.monotonic_s())
        count = len(self._threads)
        self.close()
        return count

    def open(self) -> None:
        """Find the threads."""
        self._scan(self._clock.monotonic_s())

    def read(self, values: FloatArray) -> None:
        """Fill ``(1, 2)``: queue threads and interrupt threads."""
        now_s = self._clock.monotonic_s()
        if now_s >= self._scan_at_s:
            self._scan(now_s)
        elapsed_s = _NAN if self._read_s is None else now_s - self._read_s
        self._read_s = now_s
        ticks: dict[str, int] = {}
        for pid, thread in tuple(self._threads.items()):
            now = _read_stat(thread.stat)
            if now is None:  # it ended: the next scan finds a thread that replaced it
                self._forget(pid)
                self._scan_at_s = now_s
                continue
            if thread.last is not None and thread.last.start_ticks == now.start_ticks:
                ticks[thread.signal] = ticks.get(thread.signal, 0) + used_ticks(thread.last, now)
            thread.last = now
        values[0] = [
            ticks[name] / self._ticks_per_s / elapsed_s if name in ticks and elapsed_s > 0 else _NAN
            for name in self.spec.signals
        ]

    def close(self) -> None:
        """Close all files; closing twice is harmless."""
        for pid in tuple(self._threads):
            self._forget(pid)
        self._read_s = None
        self._scan_at_s = 0.0

    def _scan(self, now_s: float) -> None:
        """Find the driver's threads among all processes."""
        self._scan_at_s = now_s + _SCAN_EVERY_S
        try:
            names = os.listdir(self._root)  # noqa: PTH208 -- thousands of names, no Path object wanted
        except OSError:
            names = []
        for pid in names:
            if not pid.isdecimal() or pid in self._threads:
                continue
            signal = signal_of(_read_name(f"{self._root}/{pid}/comm"))
            if signal is None:
                continue
            stat = TextFile(f"{self._root}/{pid}/stat")
            found = _read_stat(stat)
            if found is not None and found.parent == _KTHREADD:
                self._threads[pid] = _Thread(stat=stat, signal=signal)
            else:  # any program may call itself nv_queue
                stat.close()

    def _forget(self, pid: str) -> None:
        self._threads.pop(pid).stat.close()


def signal_of(name: bytes) -> str | None:
    """Return the signal that a thread of this name counts in, None where it is no thread of the driver."""
    if _QUEUE_NAME.fullmatch(name):
        return QUEUE
    return IRQ if _IRQ_NAME.fullmatch(name) else None


def used_ticks(before: ProcessStat, now: ProcessStat) -> int:
    """Return the processor time between two readings of one process, in ticks."""
    return now.user_ticks + now.system_ticks - before.user_ticks - before.system_ticks


def _read_stat(file: TextFile) -> ProcessStat | None:
    return parse_process_stat(file.read() or b"")


def _read_name(path: str) -> bytes:
    """Read the name of a process; empty where it has ended."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(fd, 64).rstrip(b"\n")
    except OSError:
        return b""
    finally:
        os.close(fd)
