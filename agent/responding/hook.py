"""Programs of the operator's own, from an allow-list: told of an incident and a decision, and watched to their end."""

import json
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field

from agent.responding.port import MessageRequest, Receipt
from agent.responding.program import run_program
from telemetry.clock import Clock
from telemetry.errors import ActionRefusedError, NotPermittedError, NotSupportedError, TransientError
from telemetry.records import to_json

# The parameter of a decision that names the program.
PROGRAM = "program"
# sysexits.h: the program says that it failed now and is to be started again.
EX_TEMPFAIL = 75
# How much of its first line stands in the journal. Heuristic.
REASON_MAX = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class HookProgram:
    """One program that may be started: its argument vector, how long it may take, what it finds in its environment."""

    command: tuple[str, ...]
    timeout_s: float
    environment: Mapping[str, str] = field(default_factory=dict)


class Hook:
    """Starts the program that a decision names; nothing of the decision becomes a part of its command line."""

    name = "hook"

    def __init__(self, programs: Mapping[str, HookProgram], clock: Clock) -> None:
        self._programs = programs
        self._clock = clock

    def check(self, order: MessageRequest) -> str:
        """Return which program it would be; raises where it may not be started."""
        name, program = self._program(order)
        try:
            check_program(program.command[0])
        except (NotSupportedError, NotPermittedError) as err:
            raise type(err)(f"hook {name}: {err}") from err
        return f"would run hook {name}: {' '.join(program.command)}"

    def send(self, order: MessageRequest) -> Receipt:
        """Start it, give it the order on standard input, and wait for its end."""
        name, program = self._program(order)
        ran = run_program(
            program.command,
            self._clock,
            timeout_s=program.timeout_s,
            stdin=told(order),
            environment={**program.environment, "RAILWATCH_TOKEN": order.token},
        )
        said = f": {ran.first_line[:REASON_MAX]}" if ran.first_line else ""
        if ran.status is None:
            return Receipt(words=f"hook {name} killed after {program.timeout_s:g} s{said}", done=False)
        if ran.status == EX_TEMPFAIL:
            raise TransientError(f"hook {name} asks to be run again (exit status {EX_TEMPFAIL}){said}")
        how = f"exit status {ran.status}" if ran.status >= 0 else f"ended by signal {-ran.status}"
        return Receipt(words=f"hook {name}: {how} after {ran.took_s:.1f} s{said}", done=ran.status == 0)

    def _program(self, order: MessageRequest) -> tuple[str, HookProgram]:
        name = dict(order.decision.parameters).get(PROGRAM, "")
        program = self._programs.get(name)
        if program is None:
            known = ", ".join(sorted(self._programs)) or "none"
            raise ActionRefusedError(f"hook {name!r} is not in actuators.hooks; there is {known}")
        return name, program


def check_program(path: str) -> None:
    """Look whether a program may be started.

    Raises
    ------
    NotSupportedError
        There is none.
    NotPermittedError
        It may not be run, or everybody can write it.
    """
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116 -- beside os.access
    except OSError as err:
        raise NotSupportedError(f"{path}: {err.strerror}") from err
    if not stat.S_ISREG(mode) or not os.access(path, os.X_OK):
        raise NotPermittedError(f"{path} is no program that may be run")
    if mode & stat.S_IWOTH:
        raise NotPermittedError(f"{path} can be written by everybody; it is not run")


def told(order: MessageRequest) -> bytes:
    """Return what a program or a job is told, as one line of JSON."""
    fields = {
        "token": order.token,
        "recovery": order.recovery,
        "decision": to_json(order.decision),
        "incident": None if order.incident is None else to_json(order.incident),
    }
    return json.dumps(fields).encode() + b"\n"
