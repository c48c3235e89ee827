"""Signal to one process, after checks that it is the intended one."""

import os
import signal
from dataclasses import dataclass
from pathlib import Path

from telemetry.errors import ActionRefusedError, NotPermittedError, NotSupportedError

# proc(5), /proc/PID/stat: fields behind the closing bracket of the name; 22 is the start in ticks since the boot.
_START_FIELD = 22 - 3
# A file system may round the time of a file down to this. ext4 and tmpfs keep nanoseconds in steps of a timer tick.
_ROUNDING_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalledProcess:
    """Process that a PID file names, and the signal to send.

    The signal is sent only if the process belongs to the owner of the file, began before the file was written, so that
    the id is not that of a later process, and is in the control group, if one is set.
    """

    pid_file: Path
    signal_name: str
    cgroup: str = ""
    proc: Path = Path("/proc")

    def check(self) -> str:
        """Return what would be signalled; ActionRefusedError if the process is not the intended one."""
        os.close(self._opened())
        return f"{self.signal_name} to the process of {self.pid_file}"

    def signal(self) -> None:
        """Send the signal to the checked process by its descriptor, which no later process can get."""
        descriptor = self._opened()
        try:
            signal.pidfd_send_signal(descriptor, signal.Signals[self.signal_name])
        except PermissionError as err:
            raise NotPermittedError(f"{self.pid_file}: not permitted to signal its process") from err
        except ProcessLookupError as err:
            raise ActionRefusedError(f"{self.pid_file}: its process has ended") from err
        finally:
            os.close(descriptor)

    def _opened(self) -> int:
        """Return a descriptor of the process after all checks."""
        try:
            status = self.pid_file.stat()
            pid = int(self.pid_file.read_text(encoding="ascii")[:20])
        except OSError as err:
            raise NotSupportedError(f"{self.pid_file}: {err.strerror}") from err
        except ValueError as err:
            raise NotSupportedError(f"{self.pid_file}: expected a process id") from err
        if pid <= 1:
            raise ActionRefusedError(f"{self.pid_file}: process id {pid} is not a job")
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError as err:
            raise ActionRefusedError(f"{self.pid_file}: process {pid} has ended") from err
        try:
            wrong = self._wrong(pid, owner=status.st_uid, written_s=status.st_mtime)
        except OSError as err:
            wrong = err.strerror or str(err)
        if wrong:
            os.close(descriptor)
            raise ActionRefusedError(f"{self.pid_file}: process {pid} {wrong}")
        return descriptor

    def _wrong(self, pid: int, *, owner: int, written_s: float) -> str:
        """Return why the process is not the intended one; empty if it is."""
        folder = self.proc / str(pid)
        if folder.stat().st_uid != owner:
            return "belongs to another user than its PID file"
        if started_s(folder) > written_s + _ROUNDING_S:
            return "began after its PID file was written: it is another process"
        if self.cgroup and not _is_in(folder / "cgroup", self.cgroup):
            return f"is not in the control group {self.cgroup}"
        return ""


def started_s(folder: Path) -> float:
    """Return the start of the process of a folder of ``/proc``, in seconds since 1970."""
    fields = (folder / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    ticks = int(fields[_START_FIELD])
    boot_s = next(
        int(line.split()[1])
        for line in (folder.parent / "stat").read_text(encoding="ascii").splitlines()
        if line.startswith("btime")
    )
    return boot_s + ticks / os.sysconf("SC_CLK_TCK")


def _is_in(path: Path, group: str) -> bool:
    """Return True if a line of ``/proc/PID/cgroup`` names that group or one below it."""
    wanted = group.rstrip("/")
    held = (line.split(":", 2)[-1] for line in path.read_text(encoding="utf-8").splitlines())
    return any(name == wanted or name.startswith(f"{wanted}/") for name in held)
