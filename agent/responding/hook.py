"""Hook programs from an allow-list: each gets incident and decision as JSON and runs under a time limit."""

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field

from agent.responding.port import MessageRequest, Receipt
from agent.responding.program import run_program
from telemetry.clock import Clock
from telemetry.errors import ActionRefusedError, NotPermittedError, NotSupportedError, TransientError
from telemetry.json_text import json_bytes
from telemetry.record_json import to_json

# The parameter of a decision that names the program.
PROGRAM = "program"
# sysexits.h: temporary failure, retry later.
EX_TEMPFAIL = 75
# heuristic: length of its first output line in the journal.
REASON_MAX = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class HookProgram:
    """Program that may be run: argument vector, time limit, environment."""

    command: tuple[str, ...]
    timeout_s: float
    environment: Mapping[str, str] = field(default_factory=dict)


class Hook:
    """Runs the program that a decision names; no part of the decision is on its command line."""

    name = "hook"

    def __init__(self, programs: Mapping[str, HookProgram], clock: Clock) -> None:
        self._programs = programs
        self._clock = clock

    def check(self, order: MessageRequest) -> str:
        """Return which program would run; raise if it may not be run."""
        name, program = self._program(order)
        try:
            check_program(program.command[0])
        except (NotSupportedError, NotPermittedError) as err:
            raise type(err)(f"hook {name}: {err}") from err
        return f"would run hook {name}: {' '.join(program.command)}"

    def send(self, order: MessageRequest) -> Receipt:
        """Run the program with the request on standard input, and wait for its end."""
        name, program = self._program(order)
        ran = run_program(
            program.command,
            self._clock,
            timeout_s=program.timeout_s,
            stdin=request_json(order),
            environment={**program.environment, "RAILWATCH_TOKEN": order.token},
        )
        output = f": {ran.first_line[:REASON_MAX]}" if ran.first_line else ""
        if ran.status is None:
            return Receipt(summary=f"hook {name} killed after {program.timeout_s:g} s{output}", done=False)
        if ran.status == EX_TEMPFAIL:
            raise TransientError(f"hook {name}: temporary failure (exit status {EX_TEMPFAIL}){output}")
        how = f"exit status {ran.status}" if ran.status >= 0 else f"ended by signal {-ran.status}"
        return Receipt(summary=f"hook {name}: {how} after {ran.took_s:.1f} s{output}", done=ran.status == 0)

    def _program(self, order: MessageRequest) -> tuple[str, HookProgram]:
        name = dict(order.decision.parameters).get(PROGRAM, "")
        program = self._programs.get(name)
        if program is None:
            known = ", ".join(sorted(self._programs)) or "none"
            raise ActionRefusedError(f"no hook {name!r} in actuators.hooks; expected one of: {known}")
        return name, program


def check_program(path: str) -> None:
    """Check that a program may be run.

    NotSupportedError where there is none, NotPermittedError where it is not executable or is world-writable.
    """
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116 -- beside os.access
    except OSError as err:
        raise NotSupportedError(f"{path}: {err.strerror}") from err
    if not stat.S_ISREG(mode) or not os.access(path, os.X_OK):
        raise NotPermittedError(f"{path} is not an executable file")
    if mode & stat.S_IWOTH:
        raise NotPermittedError(f"{path} is world-writable; not run")


def request_json(order: MessageRequest) -> bytes:
    """Return the request for a program or a job as one line of JSON."""
    fields = {
        "token": order.token,
        "recovery": order.recovery,
        "decision": to_json(order.decision),
        "incident": None if order.incident is None else to_json(order.incident),
    }
    return json_bytes(fields) + b"\n"
