"""What the GPU driver's own kernel threads take of a processor: a thread that spins is the signature of a hang.

The driver runs its bottom halves in threads named ``irq/<number>-nvidia`` (or ``-s-nvidia``, the second of two
handlers: kernel/irq/manage.c) and its deferred work in ``nv_queue`` (open-gpu-kernel-modules, kernel-open/nvidia/nv.c).
Times are those of proc(5) ``/proc/PID/stat``: ticks of USER_HZ, so over one second a share has steps of 0.01.
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from agent.collectors.sysfs.text_file import TextFile
from telemetry.clock import Clock
from telemetry.entities import Entity, EntityKind
from telemetry.frames import FloatArray, TableSpec
from telemetry.signals import RateClass, Source, signals_of

_QUEUE = re.compile(rb"nv_queue")
# Before Linux 5.17 a thread's name ends after 15 characters (kernel/kthread.c): irq/1057-s-nvidia is irq/1057-s-nvid.
_IRQ = re.compile(rb"irq/\d+-(?:s-)?nvid.*")
_NAN = float("nan")
# heuristic: threads come and go with the driver; a look at every process of a busy node costs some milliseconds.
_SCAN_EVERY_S = 30.0
# Places behind the name's closing bracket (proc(5)): ppid is field 4, utime and stime are 14 and 15, starttime is 22.
_PARENT, _UTIME, _STIME, _START = 1, 11, 12, 19
_KTHREADD = b"2"  # the parent of every kernel thread (kernel/kthread.c, init/main.c)


@dataclass(slots=True, kw_only=True)
class _Thread:
    """One kernel thread, and its ticks when it was read last; `start` tells it from another one of its number."""

    stat: TextFile
    column: int
    start: int | None = None
    ticks: int | None = None


class DriverThreads:
    """One row: the share of one processor that all queue threads take together, and all interrupt threads.

    NaN where the driver has no such thread, and until two reads have seen one.
    """

    name = "node_driver_threads"
    rate = RateClass.SLOW

    def __init__(self, node: str, clock: Clock, proc_root: Path = Path("/proc")) -> None:
        self.spec = TableSpec(
            name=self.name,
            kind=EntityKind.NODE,
            entities=(Entity(kind=EntityKind.NODE, key=node, name=node),),
            signals=tuple(s.name for s in signals_of(EntityKind.NODE, source=Source.PROC)),
        )
        self._clock = clock
        self._root = str(proc_root)
        self._ticks_per_s = os.sysconf("SC_CLK_TCK")
        self._threads: dict[str, _Thread] = {}
        self._read_s: float | None = None
        self._scan_at_s = 0.0

    def count(self) -> int:
        """Return how many such threads there are now, for doctor; nothing is left open."""
        self._scan(self._clock.monotonic_s())
        count = len(self._threads)
        self.close()
        return count

    def open(self) -> None:
        """Look for the threads."""
        self._scan(self._clock.monotonic_s())

    def read(self, values: FloatArray) -> None:
        """Fill ``(1, 2)``: queue threads and interrupt threads."""
        now_s = self._clock.monotonic_s()
        if now_s >= self._scan_at_s:
            self._scan(now_s)
        elapsed_s = _NAN if self._read_s is None else now_s - self._read_s
        self._read_s = now_s
        ticks: list[int | None] = [None, None]
        for pid, thread in tuple(self._threads.items()):
            fields = _fields(thread.stat)
            if len(fields) <= _START:  # it ended: whatever took its place is found by the next look
                self._forget(pid)
                self._scan_at_s = now_s
                continue
            now_ticks = int(fields[_UTIME]) + int(fields[_STIME])
            if thread.ticks is not None and thread.start == int(fields[_START]):
                ticks[thread.column] = (ticks[thread.column] or 0) + now_ticks - thread.ticks
            thread.ticks, thread.start = now_ticks, int(fields[_START])
        values[0] = [
            _NAN if count is None or not elapsed_s > 0 else count / self._ticks_per_s / elapsed_s for count in ticks
        ]

    def close(self) -> None:
        """Let all files go; closing twice is harmless."""
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
            column = self._column(pid)
            if column is None:
                continue
            thread = _Thread(stat=TextFile(f"{self._root}/{pid}/stat"), column=column)
            if _fields(thread.stat)[_PARENT : _PARENT + 1] == [_KTHREADD]:
                self._threads[pid] = thread
            else:  # any program may call itself nv_queue
                thread.stat.close()

    def _column(self, pid: str) -> int | None:
        """Return the column that a process counts in, None for what is none of the driver's threads."""
        try:
            fd = os.open(f"{self._root}/{pid}/comm", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            name = os.read(fd, 64).rstrip(b"\n")
        except OSError:
            return None
        finally:
            os.close(fd)
        if _QUEUE.fullmatch(name):
            return 0
        return 1 if _IRQ.fullmatch(name) else None

    def _forget(self, pid: str) -> None:
        self._threads.pop(pid).stat.close()


def _fields(stat: TextFile) -> list[bytes]:
    """Return the fields behind the name, which may hold anything; none where the thread ended."""
    return (stat.read() or b"").rpartition(b")")[2].split()
