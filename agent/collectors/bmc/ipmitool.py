"""IPMI through one ``ipmitool`` process that is kept running: over LAN and through the kernel's device.

``ipmitool exec /dev/stdin`` runs one line after the other. Each request is one ``raw`` line, followed by an ``echo``
that marks the end of its response. It writes to a pseudo terminal, since it would buffer responses in a pipe. A process
that does not respond is killed, so a controller that hangs leaves nothing behind.

The interactive ``ipmitool shell`` echoes its input and does not exit at its end. ``pyghmi``, which needs no process,
was tried: some runs paused for 50 ms at every second response, and its sessions are global to the process.
"""

import contextlib
import os
import re
import select
import shutil
import subprocess
import tty
from collections.abc import Sequence
from pathlib import Path

from agent.collectors.bmc.ipmi_port import IpmiRequest, IpmiResponse
from agent.collectors.bmc.settings import IPMI_PORT, BmcKind, BmcSettings
from telemetry.clock import Clock
from telemetry.errors import EnvironmentLacksError, NotPermittedError, TransientError

PROGRAM = "ipmitool"
# Where the kernel's IPMI driver (ipmi_devintf) shows itself; the list is that of ipmitool.
DEVICES = (Path("/dev/ipmi0"), Path("/dev/ipmi/0"), Path("/dev/ipmidev/0"))

# heuristic: below the five seconds after which a slow read counts as hung; assumes that no healthy controller needs
# more for one command.
_RESPONSE_LIMIT_S = 4.0
# heuristic: time limit for all requests of one call, even while output arrives.
_CALL_LIMIT_S = 20.0
# One second per response, two retries; ipmitool's own numbers for lanplus, 1 and 4, lie beyond _SILENT_S.
_LAN_PATIENCE = ("-N", "1", "-R", "2")
# heuristic: few enough that no request waits long for its batch, and far below the capacity of a pipe.
_BATCH = 32
_READ_BYTES = 65536
_LOOK_S = 0.05
_END_S = 0.5
_MARK = "railwatch-end"
_MARK_LINE = re.compile(rf"^{_MARK} (\d+)\s*$")
_BYTES_LINE = re.compile(r"^(?: [0-9a-f]{2})+\s*$")
_CODE = re.compile(r"Unable to send RAW command .*rsp=0x([0-9a-f]+)")
# Output of ipmitool when the request or its response was lost; the code is its own, not the controller's.
_LOST = re.compile(
    r"Unable to send RAW command(?!.*rsp=)|Unable to establish|Could not open device"
    r"|Error.*(?:session|connect|address)",
    re.IGNORECASE,
)
_NO_DEVICE, _NO_SESSION = "Could not open device", "Unable to establish"
_MAX_OUTPUT_CHARS = 300
# Both are read by ipmitool, the first one first: one that the user has set for another controller must not win.
_PASSWORD_VARIABLES = ("IPMITOOL_PASSWORD", "IPMI_PASSWORD")


class IpmitoolPort:
    """An `IpmiPort` over one ipmitool process.

    EnvironmentLacksError at the first request where ipmitool is not installed.
    """

    def __init__(self, settings: BmcSettings, *, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._process: subprocess.Popen[bytes] | None = None
        # Both ends of the terminal: closing the process's end would lose its last output.
        self._terminal = self._its_end = -1
        self._pending = b""
        self._count = 0
        self._call_end_s = 0.0
        lan = settings.kind is BmcKind.IPMI
        self.name = (
            f"IPMI at {settings.address}:{settings.port or IPMI_PORT}" if lan else "IPMI through the kernel's device"
        )

    @property
    def pid(self) -> int | None:
        """Number of the process, None while there is none."""
        return None if self._process is None else self._process.pid

    def send(self, requests: Sequence[IpmiRequest]) -> tuple[IpmiResponse, ...]:
        """Send requests and return their responses in order."""
        if self._process is None:
            self._start()
        self._call_end_s = self._clock.monotonic_s() + _CALL_LIMIT_S
        responses: list[IpmiResponse] = []
        try:
            for start in range(0, len(requests), _BATCH):
                responses += self._batch(requests[start : start + _BATCH])
        except TransientError:
            self.close()
            raise
        return tuple(responses)

    def close(self) -> None:
        """Stop the process and wait for it."""
        process, self._process = self._process, None
        if process is None:
            return
        if process.stdin is not None:
            with contextlib.suppress(OSError):
                process.stdin.close()  # at the end of its input it closes its session and exits
        try:
            process.wait(_END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for end in (self._terminal, self._its_end):
            os.close(end)
        self._terminal, self._its_end, self._pending = -1, -1, b""

    def _start(self) -> None:
        program = shutil.which(PROGRAM)
        if program is None:
            raise EnvironmentLacksError(f"{PROGRAM} is not installed")
        if self._settings.kind is not BmcKind.IPMI:
            _check_device()
        # The password is passed in the environment of this one process: any user can read a command line.
        environment = {**os.environ, **dict.fromkeys(_PASSWORD_VARIABLES, self._settings.password())}
        try:
            ours, its = os.openpty()
        except OSError as err:
            raise EnvironmentLacksError(f"no pseudo terminal for {PROGRAM}: {err.strerror}") from err
        tty.setraw(its)
        try:
            self._process = subprocess.Popen(
                [program, *self._arguments(), "exec", "/dev/stdin"],
                stdin=subprocess.PIPE,
                stdout=its,
                stderr=its,
                env=environment,
                start_new_session=True,
            )
        except OSError as err:
            os.close(ours)
            os.close(its)
            raise EnvironmentLacksError(f"{program} cannot be started: {err.strerror}") from err
        self._terminal, self._its_end = ours, its

    def _arguments(self) -> list[str]:
        settings = self._settings
        if settings.kind is not BmcKind.IPMI:
            return ["-I", "open"]
        port = str(settings.port or IPMI_PORT)
        suite = [] if settings.cipher_suite is None else ["-C", str(settings.cipher_suite)]
        # User level is enough for sensors, records and log (IPMI 2.0 appendix G).
        login = ["-H", settings.address, "-p", port, "-U", settings.user, "-E", "-L", "USER"]
        return ["-I", "lanplus", *_LAN_PATIENCE, *suite, *login]

    def _batch(self, requests: Sequence[IpmiRequest]) -> list[IpmiResponse]:
        process = self._process
        if process is None or process.stdin is None:
            raise TransientError(f"{self.name}: the connection is closed")
        lines = []
        for request in requests:
            self._count += 1
            raw = " ".join(f"{number:#04x}" for number in (request.function, request.command, *request.data))
            lines.append(f"raw {raw}\necho {_MARK} {self._count}\n")
        first = self._count - len(requests) + 1
        with contextlib.suppress(BrokenPipeError):  # it has exited; its last output is read below
            process.stdin.write("".join(lines).encode("ascii"))
            process.stdin.flush()
        return [self._response(number) for number in range(first, self._count + 1)]

    def _response(self, number: int) -> IpmiResponse:
        data, output, code = bytearray(), "", 0
        while True:
            line = self._line(output)
            mark = _MARK_LINE.match(line)
            if mark is not None:
                if int(mark[1]) != number:
                    raise TransientError(f"{self.name}: {PROGRAM} responses out of order")
                return IpmiResponse(code=code, data=bytes(data))
            refused = _CODE.search(line)
            if refused is not None:
                code = int(refused[1], 16)
            elif _BYTES_LINE.match(line):
                data += bytes.fromhex(line)
            elif _LOST.search(line):
                raise TransientError(f"{self.name}: {_reason(line)}")
            elif line.strip():
                output = (output + " " + line.strip())[-_MAX_OUTPUT_CHARS:]

    def _line(self, output: str) -> str:
        """Return the next line of output; TransientError after too long without output."""
        end_s = self._clock.monotonic_s() + _RESPONSE_LIMIT_S
        if self._clock.monotonic_s() > self._call_end_s:
            raise TransientError(f"{self.name}: requests not finished within {_CALL_LIMIT_S:g} s")
        while b"\n" not in self._pending:
            ready, _, _ = select.select([self._terminal], [], [], _LOOK_S)
            chunk = os.read(self._terminal, _READ_BYTES) if ready else b""
            self._pending += chunk
            if not chunk and (self._process is None or self._process.poll() is not None):
                rest = " ".join((output + " " + self._pending.decode(errors="replace")).split())
                raise TransientError(f"{self.name}: {_reason(rest) if rest else f'{PROGRAM} has exited'}")
            if self._clock.monotonic_s() > end_s:
                raise TransientError(f"{self.name}: no response within {_RESPONSE_LIMIT_S:g} s")
        line, _, self._pending = self._pending.partition(b"\n")
        return line.decode("ascii", errors="replace").rstrip("\r")


def device() -> Path | None:
    """Return the kernel's IPMI device, None where it has none."""
    return next((path for path in DEVICES if path.exists()), None)


def _check_device() -> None:
    path = device()
    if path is None:
        raise EnvironmentLacksError(f"none of {', '.join(map(str, DEVICES))} exists")
    if not os.access(path, os.R_OK | os.W_OK):
        raise NotPermittedError(f"{path}: permission denied")


def _reason(output: str) -> str:
    """Return the reason of a failure from ipmitool's output, which is the same for a wrong password and address."""
    if _NO_SESSION in output:
        return "no session: no response from that address, or wrong user or password"
    if _NO_DEVICE in output:
        return "the kernel's IPMI device cannot be opened"
    if "Unable to send RAW command" in output:
        return "no response to a command"
    return output[-_MAX_OUTPUT_CHARS:]
