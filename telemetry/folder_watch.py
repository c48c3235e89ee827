"""Waits for changes of files in folders, by inotify(7): a process that follows files need not look at them often."""

import contextlib
import ctypes
import os
import select
import threading
from collections.abc import Iterable
from pathlib import Path

from telemetry.clock import Clock

# From linux/inotify.h, of a folder: a file is written to, gets its name, is created.
_FOLDER_CHANGES = 0x002 | 0x080 | 0x100
# Of a file: it is written to, or its attributes change, among them the number of its links when it is deleted or
# replaced. IN_DELETE_SELF comes only after the last reader closed it.
FILE_CHANGES = 0x002 | 0x004
_READ_BYTES = 1 << 16


class FolderWatch:
    """Wait of one thread for a change of a file in some folders, for a call of `wake`, or for a stop.

    A change that is made after a wait returned ends the next one. Without inotify, as where the limit of its instances
    is reached, a wait ends after `gap_s`.

    Parameters
    ----------
    stop
        Ends a wait, whichever thread or signal handler sets it.
    gap_s
        Least time between two waits that changes end: many changes in a row are read together.
    """

    def __init__(self, folders: Iterable[Path], stop: threading.Event, clock: Clock, *, gap_s: float) -> None:
        self._stop = stop
        self._clock = clock
        self._gap_s = gap_s
        self._last_s = clock.monotonic_s() - gap_s
        self._lock = threading.Lock()
        self._change_fd = inotify_fd(folders)
        self._wake_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._woken, self._any = select.poll(), select.poll()
        self._woken.register(self._wake_fd, select.POLLIN)
        for descriptor in self._open_fds():
            self._any.register(descriptor, select.POLLIN)
        threading.Thread(target=self._wake_at_stop, name="wake-at-stop", daemon=True).start()

    def wait(self, timeout_s: float) -> bool:
        """Return True once the stop is requested; False after a change or a `wake`, or when the time is over."""
        if self._change_fd < 0:
            timeout_s = min(timeout_s, self._gap_s)
        ready = [descriptor for descriptor, _ in self._any.poll(1000.0 * max(0.0, timeout_s))]
        if ready == [self._change_fd]:
            rest_s = self._last_s + self._gap_s - self._clock.monotonic_s()
            self._woken.poll(1000.0 * min(max(0.0, rest_s), self._gap_s))
        for descriptor in self._open_fds():
            with contextlib.suppress(BlockingIOError):
                os.read(descriptor, _READ_BYTES)
        self._last_s = self._clock.monotonic_s()
        return self._stop.is_set()

    def wake(self) -> None:
        """End the wait that runs now, else the next one; for any thread."""
        with self._lock:
            if self._wake_fd >= 0:
                os.eventfd_write(self._wake_fd, 1)

    def close(self) -> None:
        """Release the descriptors; there is no wait after this."""
        with self._lock:
            for descriptor in self._open_fds():
                os.close(descriptor)
            self._wake_fd = self._change_fd = -1

    def _open_fds(self) -> list[int]:
        return [descriptor for descriptor in (self._wake_fd, self._change_fd) if descriptor >= 0]

    def _wake_at_stop(self) -> None:
        self._stop.wait()
        self.wake()


def inotify_fd(paths: Iterable[Path], changes: int = _FOLDER_CHANGES) -> int:
    """Return a descriptor that is readable after a change of a file or in a folder; -1 where the kernel refuses it."""
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor: int = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    for path in paths:
        if descriptor >= 0 and libc.inotify_add_watch(descriptor, os.fsencode(path), changes) < 0:
            os.close(descriptor)
            descriptor = -1
    return descriptor
