"""Slurm through its own commands: taking a node out and giving it back, and putting its job into the queue again.

What is read is the one-line form of ``scontrol show``, since ``--json`` for a node came with Slurm 23.02 (its release
notes) and 22.05 is what Debian 12 has. Who drained a node is told by the reason: ours begins with ``railwatch:`` and
a token.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from agent.responding.port import Held, MessageRequest, Receipt, SwitchState
from agent.responding.program import run_program
from telemetry.clock import Clock
from telemetry.errors import ActionRefusedError, NotPermittedError, NotSupportedError, TransientError

# Heuristic: more than a reason that a person reads in a table of nodes.
REASON_MAX = 200
MARK = "railwatch:"
# The program answers within 9 s where no controller does (Slurm 22.05 as Debian packages it); a busy one takes seconds.
TIMEOUT_S = 20.0
JOB = "job"
# What scontrol says on standard error, by consequence (Slurm's src/common/slurm_errno.c).
_AWAY = re.compile(r"unable to contact|connection|timed out|communication|try again|munge|protocol auth", re.IGNORECASE)
_FORBIDDEN = re.compile(r"invalid user id|permission denied|access/permission", re.IGNORECASE)
_NO_SUCH = re.compile(r"invalid node name|not found|invalid job id|unknown node", re.IGNORECASE)
# Flags of a node that a person set to keep jobs away (scontrol(1)); DOWN, too, unless the controller did it.
_TAKEN_OUT = frozenset({"DRAIN", "FAIL", "MAINT", "RESERVED_MAINT"})
# The reasons that slurmctld itself gives for DOWN (src/slurmctld/ping_nodes.c, node_mgr.c).
_BY_CONTROLLER = ("Not responding", "Node unexpectedly rebooted", "")
# Behind the base state of a node: not responding, powering and the like (sinfo(1), NODE STATE CODES).
_SUFFIXES = "*~#!%$@^-+"


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmSettings:
    """Which node this is in Slurm, and how its commands are called."""

    node: str
    folder: str = ""
    conf: str = ""
    timeout_s: float = TIMEOUT_S


class SlurmCommands:
    """The two programs of Slurm that are needed, each answer checked."""

    def __init__(self, settings: SlurmSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock

    def ask(self, program: str, *arguments: str) -> str:
        """Run one of them and give its output; raises by what its answer means."""
        settings = self._settings
        path = f"{settings.folder}/{program}" if settings.folder else program
        environment = {"SLURM_CONF": settings.conf} if settings.conf else {}
        ran = run_program(
            (path, *arguments),
            self._clock,
            timeout_s=settings.timeout_s,
            environment=environment,
            output_bytes_max=1 << 20,
        )
        if ran.status == 0:
            return ran.output
        if ran.status is None:
            raise TransientError(f"{program}: no answer within {settings.timeout_s:g} s")
        words = f"{program}: {ran.first_line or f'exit status {ran.status}'}"
        if _AWAY.search(ran.output):
            raise TransientError(words)
        if _FORBIDDEN.search(ran.output):
            raise NotPermittedError(words)
        if _NO_SUCH.search(ran.output):
            raise NotSupportedError(words)
        raise ActionRefusedError(words)


class SlurmDrain:
    """A node of Slurm taken out: running jobs end, no new ones begin."""

    name = "slurm_drain"

    def __init__(self, commands: SlurmCommands) -> None:
        self._commands = commands

    def read(self, target: str) -> SwitchState:
        """Return who has taken the node out."""
        return switch_state_of(self._commands.ask("scontrol", "show", "node", target, "-o"))

    def engage(self, target: str, *, token: str, reason: str) -> None:
        """Drain the node."""
        words = " ".join(f"{MARK}{token} {reason}".split())[:REASON_MAX]
        self._update(target, "state=drain", f"reason={words}")

    def release(self, target: str, *, token: str) -> None:
        """Undrain the node, if its reason still carries the token; a node that is down stays down.

        Slurm has no compare-and-set: somebody who changes the reason between this look and the update a few
        milliseconds later is not seen.
        """
        standing = self.read(target)
        if standing.held is not Held.OURS or standing.token != token:
            raise ActionRefusedError(f"{target} is {standing.words}; left as is")
        self._update(target, "state=undrain")

    def _update(self, target: str, *changes: str) -> None:
        self._commands.ask("scontrol", "update", f"nodename={target}", *changes)


def switch_state_of(line: str) -> SwitchState:
    """Read what ``scontrol show node -o`` says of one node; ActionRefusedError where it says no state."""
    state = re.search(r"\bState=(\S+)", line)
    if state is None:
        raise ActionRefusedError("scontrol says no state of the node")
    reason, who = _reason(line)
    flags = {flag.rstrip(_SUFFIXES) for flag in state[1].split("+")}
    words = state[1].lower() + (f", {reason!r} by {who}" if reason else "")
    mark = re.match(rf"{MARK}([0-9a-f]+)\b", reason)
    taken_out = flags & _TAKEN_OUT
    if "DRAIN" in flags and mark is not None:
        return SwitchState(held=Held.OURS, words=words, token=mark[1])
    if taken_out or ("DOWN" in flags and reason not in _BY_CONTROLLER):
        return SwitchState(held=Held.OTHERS, words=words)
    return SwitchState(held=Held.FREE, words=words)


def _reason(line: str) -> tuple[str, str]:
    """Return the reason and who gave it; two empty texts where there is none."""
    found = re.search(r" Reason=(.*) \[([^\s\[\]@]+)@[^\s\[\]]+\](?: |$)", line.strip())
    return ("", "") if found is None else (found[1], found[2])


class SlurmRequeue:
    """A running batch job put back into the queue, where it was submitted as one that may be."""

    name = "requeue"

    def __init__(self, commands: SlurmCommands, *, node: str) -> None:
        self._commands = commands
        self._node = node

    def check(self, order: MessageRequest) -> str:
        """Return which job it would be."""
        job, facts = self._job(order)
        return f"would requeue job {job} of {self._node}, restarted {facts.get('Restarts', '?')} times so far"

    def send(self, order: MessageRequest) -> Receipt:
        """Requeue the job, and read back that it is no longer running as it was."""
        job, before = self._job(order)
        try:
            self._commands.ask("scontrol", "requeue", job)
        except TransientError as err:
            if "no answer" in str(err):  # it may have been done; a second time would cost the job what it did since
                return Receipt(words=f"job {job}: {err}; unknown whether it was requeued", done=False)
            raise
        after = _facts(self._commands.ask("scontrol", "show", "job", job, "-o"))
        words = f"job {job} {after.get('JobState', '?').lower()}, restarts {before.get('Restarts')}"
        taken = after.get("Restarts") != before.get("Restarts") or after.get("JobState") != "RUNNING"
        return Receipt(words=f"{words} -> {after.get('Restarts')}", done=taken)

    def _job(self, order: MessageRequest) -> tuple[str, dict[str, str]]:
        """Return the job that is meant and what Slurm says of it; raises where it may not be requeued."""
        wanted = dict(order.decision.parameters).get(JOB)
        running = self._commands.ask("squeue", "-h", "-w", self._node, "-t", "RUNNING", "-o", "%A").split()
        running = list(dict.fromkeys(running))
        if wanted is not None and wanted not in running:
            raise ActionRefusedError(f"job {wanted} does not run on {self._node}")
        if wanted is None and len(running) != 1:
            raise ActionRefusedError(_which(self._node, running))
        job = wanted or running[0]
        facts = _facts(self._commands.ask("scontrol", "show", "job", job, "-o"))
        if facts.get("BatchFlag") != "1":
            raise ActionRefusedError(f"job {job} is no batch job, so Slurm cannot start it again")
        if facts.get("Requeue") != "1":
            raise ActionRefusedError(f"job {job} was submitted with --no-requeue")
        return job, facts


def _which(node: str, running: Sequence[str]) -> str:
    if not running:
        return f"no job runs on {node}"
    return f"{len(running)} jobs run on {node}: {', '.join(running)}; the policy has to name one with parameter {JOB}"


def _facts(line: str) -> dict[str, str]:
    """Return the fields of ``scontrol show job -o``, whose values hold no spaces where they are looked at here."""
    return dict(part.split("=", 1) for part in line.split() if "=" in part)
