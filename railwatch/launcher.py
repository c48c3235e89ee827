"""Starts the processes of a node by fork from a parent that has loaded what they share.

Six Python processes that each load the same modules cost 40 MiB and half a second apiece. The launcher loads the
modules once; a process that it forks shares their memory until it writes to it, and is ready at once. The supervisor
requests each process over a socket, and holds its standard input and output, its status and its signals as
`subprocess.Popen` does: it starts, watches and stops forked and executed processes alike.
"""

import contextlib
import ctypes
import gc
import importlib
import json
import logging
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import traceback
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NoReturn, Protocol

from agent.scheduling import freeze_loaded_objects
from railwatch.processes.child import run_child
from telemetry.json_text import json_bytes

logger = logging.getLogger(__name__)

# What most processes of a node use. A module that one process alone uses is loaded there.
SHARED_MODULES = (
    "railwatch.processes.sampler",
    "railwatch.processes.actuator",
    "railwatch.processes.slow",
    "railwatch.processes.recorder",
)
# Status of a process whose launcher ended before it, or that was closed while it ran: only the launcher could have
# read the real one.
STATUS_UNKNOWN = -1001
_STATUS = struct.Struct("<i")
_MAX_REQUEST_BYTES = 1 << 20
# heuristic: the request for a simulated node comes 20 ms after the fork; a real node's first one after NVML was probed.
_FIRST_REQUEST_WITHIN_MS = 100
# Parameter of mallopt(3). Threads of Python allocate one at a time, so that arenas of their own only cost memory:
# 9 MiB over all processes of a node.
_M_ARENA_MAX = -8
_REPLY_BYTES = 64
# heuristic: a fork takes milliseconds, and loading all shared modules on a slow node a few seconds. A launcher that is
# later than this is stopped or stuck.
ANSWER_S = 10.0


# Fields of /proc/PID/stat behind the name's closing bracket, see proc(5): field 48 is arg_start, 51 is env_end.
_ARG_START, _ENV_END = 48 - 3, 51 - 3


def set_command_line(arguments: Sequence[str]) -> None:
    """Overwrite the arguments that this process was started with.

    The kernel keeps arguments and environment in one piece of memory. Where the last byte of the arguments is not NUL,
    it shows the text up to the first NUL (fs/proc/base.c, `get_mm_proctitle`), hence the blanks between arguments.
    """
    fields = Path("/proc/self/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
    start, arg_end, env_start, end = (int(field) for field in fields[_ARG_START : _ENV_END + 1])
    text = " ".join(arguments).encode() + b"\0"
    if not start or arg_end != env_start or end - start < len(text):
        logger.debug("this process keeps the command line of its parent")
        return
    for name, value in os.environ.items():
        os.putenv(name, value)  # out of the memory that is overwritten
    ctypes.memset(start, 0, end - start)
    ctypes.memset(arg_end - 1, ord(" "), 1)
    ctypes.memmove(start, text, len(text))


class ChildProcess(Protocol):
    """A started process as the supervisor uses it; `subprocess.Popen` is one."""

    stdin: IO[bytes] | None
    stdout: IO[bytes] | None

    @property
    def pid(self) -> int:
        """Its number."""
        ...

    @property
    def returncode(self) -> int | Any:
        """The exit status, None while it runs."""
        ...

    def poll(self) -> int | None:
        """Return the exit status, None while it runs."""
        ...

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end and return the exit status; subprocess.TimeoutExpired where it does not come in time."""
        ...

    def terminate(self) -> None:
        """Send SIGTERM."""
        ...

    def kill(self) -> None:
        """Send SIGKILL."""
        ...


class ForkedProcess:
    """A process that the launcher forked."""

    def __init__(self, name: str, pid: int, pidfd: int, *, status_fd: int, stdin_fd: int, stdout_fd: int) -> None:
        self.pid = pid
        self.stdin: IO[bytes] | None = os.fdopen(stdin_fd, "wb", 0)
        self.stdout: IO[bytes] | None = os.fdopen(stdout_fd, "rb", 0)
        self.returncode: int | None = None
        self._pidfd = pidfd
        self._status_fd = status_fd
        self._name = name

    def poll(self) -> int | None:
        """Return the exit status, None while it runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0.0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end and return the exit status; subprocess.TimeoutExpired where it does not come in time."""
        if self.returncode is None:
            # The launcher writes the status once it has reaped the process; the pipe also ends with the launcher.
            if not _readable(self._status_fd, timeout):
                raise subprocess.TimeoutExpired(self._name, timeout or 0.0)
            data = os.read(self._status_fd, _STATUS.size)
            if len(data) < _STATUS.size and not _readable(self._pidfd, timeout):
                raise subprocess.TimeoutExpired(self._name, timeout or 0.0)
            self.returncode = _STATUS.unpack(data)[0] if len(data) == _STATUS.size else STATUS_UNKNOWN
            self.close()
        return self.returncode

    def close(self) -> None:
        """Close the descriptors that watch the process; one that still runs then has the status `STATUS_UNKNOWN`.

        Signals no longer reach it. The owners of its standard input and output close those.
        """
        if self.returncode is None:
            self.returncode = STATUS_UNKNOWN
        open_fds, self._status_fd, self._pidfd = (self._status_fd, self._pidfd), -1, -1
        for descriptor in open_fds:
            if descriptor >= 0:
                os.close(descriptor)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self._send(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL."""
        self._send(signal.SIGKILL)

    def _send(self, number: signal.Signals) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, number)


class Launcher:
    """The supervisor's end of the launcher process."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    @classmethod
    def fork(cls, modules: Sequence[str] = SHARED_MODULES) -> "Launcher | None":
        """Fork the launcher from this process, which must have one thread; None where the kernel has no pidfds.

        It shares what is loaded here, and loads `modules` once the first process is requested. It ends with this
        process.
        """
        try:
            os.close(os.pidfd_open(os.getpid()))
        except (AttributeError, OSError):  # Python, the kernel or a filter of system calls is without it
            return None
        with contextlib.suppress(AttributeError):  # a C library without it
            ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        freeze_loaded_objects()
        sys.stdout.flush()
        sys.stderr.flush()
        if os.fork() == 0:
            ours.close()
            _end_with(_Server(theirs, modules).serve)
        theirs.close()
        ours.settimeout(ANSWER_S)
        return cls(ours)

    def start(self, module: str, arguments: Sequence[str], environ: Mapping[str, str]) -> ForkedProcess:
        """Start a process that runs `main` of a module; OSError where the launcher does not answer within `ANSWER_S`.

        After an OSError the launcher is closed, and a later start fails at once. A process that is forked too late
        finds the end of its standard input, and ends.
        `module` names a process of the node, whose `main` is called as `railwatch.processes.child.run_child` does.
        """
        stdin_read, stdin_write = os.pipe2(os.O_CLOEXEC)
        stdout_read, stdout_write = os.pipe2(os.O_CLOEXEC)
        status_read, status_write = os.pipe2(os.O_CLOEXEC)
        theirs = (stdin_read, stdout_write, status_write)
        request = json_bytes({"module": module, "arguments": list(arguments), "environ": dict(environ)})
        try:
            socket.send_fds(self._connection, [request], theirs)
            reply, fds, _, _ = socket.recv_fds(self._connection, _REPLY_BYTES, 1)
            if not fds:
                raise ConnectionResetError("the launcher has ended")
        except OSError:
            self.close()  # a late reply must not be taken for that to the next request
            for descriptor in (stdin_write, stdout_read, status_read):
                os.close(descriptor)
            raise
        finally:
            for descriptor in theirs:
                os.close(descriptor)
        return ForkedProcess(
            module, int(reply), fds[0], status_fd=status_read, stdin_fd=stdin_write, stdout_fd=stdout_read
        )

    def close(self) -> None:
        """End the launcher; the processes that it started go on."""
        self._connection.close()


def _readable(descriptor: int, timeout_s: float | None) -> bool:
    poller = select.poll()
    poller.register(descriptor, select.POLLIN)
    return bool(poller.poll(None if timeout_s is None else 1000.0 * max(timeout_s, 0.0)))


class _Server:
    """The launcher process: forks what is requested and reports how each process ended."""

    def __init__(self, connection: socket.socket, modules: Sequence[str]) -> None:
        self._connection = connection
        self._to_load = deque(modules)
        self._running: dict[int, tuple[int, int]] = {}  # pid and status pipe, by pidfd
        self._poller = select.poll()

    def serve(self) -> None:
        """Run until the supervisor is gone."""
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # if it is ignored, as exec passes on, no status can be read
        os.setsid()
        with Path(os.devnull).open("r+b", 0) as nowhere:  # output of the supervisor must end with the supervisor
            os.dup2(nowhere.fileno(), 0)
            os.dup2(nowhere.fileno(), 1)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # systemd sends it to every process; the supervisor ends us
        set_command_line([sys.executable, "-m", __name__])
        gc.disable()  # loading leaves hardly any garbage
        self._poller.register(self._connection, select.POLLIN)
        # A first process that shares no more than is loaded, such as the plant, starts meanwhile.
        wait_ms = _FIRST_REQUEST_WITHIN_MS
        while True:
            ready = self._poller.poll(wait_ms if self._to_load else None)
            wait_ms = 0
            if not ready:
                self._load_next()
            for descriptor, _ in ready:
                if descriptor in self._running:
                    self._report_status(descriptor)
                elif not self._receive():
                    return

    def _receive(self) -> bool:
        """Fork the process that is requested; False where the supervisor is gone."""
        try:
            body, fds, _, _ = socket.recv_fds(self._connection, _MAX_REQUEST_BYTES, 3)
        except ConnectionResetError:  # it closed the connection before it read the last reply
            return False
        if not body:
            return False
        request = json.loads(body)
        while request["module"] in self._to_load:
            self._load_next()
        stdin, stdout, status = fds
        # The forked process ignores SIGTERM, as this one does, until it sets the default: block it for as long.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        pid = os.fork()
        if pid == 0:
            others = (one for pidfd, (_, pipe) in self._running.items() for one in (pidfd, pipe))
            _end_with(lambda: _run(request, fds, (self._connection.fileno(), *others)))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        os.close(stdin)
        os.close(stdout)
        pidfd = os.pidfd_open(pid)
        self._running[pidfd] = pid, status
        self._poller.register(pidfd, select.POLLIN)
        with contextlib.suppress(OSError):  # the supervisor is gone, which the next look finds
            socket.send_fds(self._connection, [str(pid).encode()], [pidfd])
        return True

    def _load_next(self) -> None:
        importlib.import_module(self._to_load.popleft())
        freeze_loaded_objects()

    def _report_status(self, pidfd: int) -> None:
        """Reap a process that has ended and write its status for the supervisor."""
        pid, pipe = self._running.pop(pidfd)
        self._poller.unregister(pidfd)
        os.close(pidfd)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        with contextlib.suppress(OSError):  # the supervisor has closed it, or is gone
            os.write(pipe, _STATUS.pack(status))
        os.close(pipe)


def _run(request: dict[str, Any], fds: Sequence[int], to_close: Sequence[int]) -> None:
    """Become the requested process."""
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    os.dup2(fds[0], 0)
    os.dup2(fds[1], 1)
    for descriptor in (*fds, *to_close):
        os.close(descriptor)
    module, arguments, environ = request["module"], request["arguments"], request["environ"]
    os.environ.clear()
    os.environ.update(environ)
    sys.argv = [module, *arguments]
    set_command_line([sys.executable, "-m", *sys.argv])
    gc.enable()
    run_child(importlib.import_module(module).main)


def _end_with(work: Callable[[], None]) -> NoReturn:
    """Do the work of a forked process and end it there: what its parent had begun is not its own to finish."""
    status = 1
    try:
        work()
        status = 0
    except SystemExit as err:
        status = err.code if isinstance(err.code, int) else 0 if err.code is None else 1
    except BaseException:  # noqa: BLE001 -- as the interpreter does at the end of a program
        traceback.print_exc()
    finally:
        logging.shutdown()
        sys.stderr.flush()
        os._exit(status)
