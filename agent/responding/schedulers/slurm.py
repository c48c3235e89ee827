"""Slurm through its own commands: drain and resume of a node, requeue of a job, jobs on the node.

It reads the one-line form of ``scontrol show``, since ``--json`` for a node came with Slurm 23.02 (its release
notes) and 22.05 is what Debian 12 has. The reason of a drain names its owner: ours begins with ``railwatch:`` and
a token.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from agent.responding.port import MessageRequest, Receipt, SwitchOwner, SwitchState, require_ours
from agent.responding.program import run_program
from telemetry.clock import Clock
from telemetry.errors import ActionRefusedError, NotPermittedError, NotSupportedError, TransientError

# heuristic: a length that is readable in a table of nodes.
REASON_MAX = 200
MARK = "railwatch:"
# The program answers within 9 s where no controller does (Slurm 22.05 as Debian packages it); a busy one takes seconds.
TIMEOUT_S = 20.0
JOB = "job"
# Messages of scontrol on standard error, by consequence (Slurm's src/common/slurm_errno.c).
_AWAY = re.compile(r"unable to contact|connection|timed out|communication|try again|munge|protocol auth", re.IGNORECASE)
_FORBIDDEN = re.compile(r"invalid user id|permission denied|access/permission", re.IGNORECASE)
_NO_SUCH = re.compile(r"invalid node name|not found|invalid job id|unknown node", re.IGNORECASE)
# Flags of a node that a person set to keep jobs away (scontrol(1)); DOWN, too, unless the controller did it.
_TAKEN_OUT = frozenset({"DRAIN", "FAIL", "MAINT", "RESERVED_MAINT"})
# Reasons that slurmctld itself sets for DOWN (src/slurmctld/ping_nodes.c, node_mgr.c).
_BY_CONTROLLER = ("Not responding", "Node unexpectedly rebooted", "")
# Behind the base state of a node: not responding, powering and the like (sinfo(1), NODE STATE CODES).
_SUFFIXES = "*~#!%$@^-+"


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmSettings:
    """Name of this node in Slurm, and how to run its commands."""

    node: str
    folder: str = ""
    conf: str = ""
    timeout_s: float = TIMEOUT_S


class SlurmCommands:
    """Runner of Slurm commands; errors are translated by their output."""

    def __init__(self, settings: SlurmSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock

    def run(self, program: str, *arguments: str) -> str:
        """Run one command and return its output; raise an error by what its output means."""
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
            raise TransientError(f"{program}: no reply within {settings.timeout_s:g} s")
        summary = f"{program}: {ran.first_line or f'exit status {ran.status}'}"
        if _AWAY.search(ran.output):
            raise TransientError(summary)
        if _FORBIDDEN.search(ran.output):
            raise NotPermittedError(summary)
        if _NO_SUCH.search(ran.output):
            raise NotSupportedError(summary)
        raise ActionRefusedError(summary)


class SlurmDrain:
    """Drain of a Slurm node: running jobs end, no new ones begin."""

    name = "slurm_drain"

    def __init__(self, commands: SlurmCommands) -> None:
        self._commands = commands

    def read(self, target: str) -> SwitchState:
        """Return the state of the drain: off, ours or of others."""
        return switch_state_of(self._commands.run("scontrol", "show", "node", target, "-o"))

    def engage(self, target: str, *, token: str, reason: str) -> None:
        """Drain the node."""
        summary = " ".join(f"{MARK}{token} {reason}".split())[:REASON_MAX]
        self._update(target, "state=drain", f"reason={summary}")

    def release(self, target: str, *, token: str) -> None:
        """Undrain the node, if its reason still carries the token; a node that is down stays down.

        Slurm has no compare-and-set: a change of the reason between this check and the update a few milliseconds later
        is not noticed.
        """
        require_ours(self.read(target), token, target)
        self._update(target, "state=undrain")

    def _update(self, target: str, *changes: str) -> None:
        self._commands.run("scontrol", "update", f"nodename={target}", *changes)


def switch_state_of(line: str) -> SwitchState:
    """Parse ``scontrol show node -o`` of one node; ActionRefusedError if it has no state."""
    state = re.search(r"\bState=(\S+)", line)
    if state is None:
        raise ActionRefusedError("scontrol reports no state of the node")
    reason, who = _reason(line)
    flags = {flag.rstrip(_SUFFIXES) for flag in state[1].split("+")}
    summary = state[1].lower() + (f", {reason!r} by {who}" if reason else "")
    mark = re.match(rf"{MARK}([0-9a-f]+)\b", reason)
    taken_out = flags & _TAKEN_OUT
    if "DRAIN" in flags and mark is not None:
        return SwitchState(held=SwitchOwner.OURS, summary=summary, token=mark[1])
    if taken_out or ("DOWN" in flags and reason not in _BY_CONTROLLER):
        return SwitchState(held=SwitchOwner.OTHERS, summary=summary)
    return SwitchState(held=SwitchOwner.FREE, summary=summary)


def _reason(line: str) -> tuple[str, str]:
    """Return the reason and who set it; both empty if there is none."""
    found = re.search(r" Reason=(.*) \[([^\s\[\]@]+)@[^\s\[\]]+\](?: |$)", line.strip())
    return ("", "") if found is None else (found[1], found[2])


class SlurmRequeue:
    """Requeue of a running batch job that was submitted as requeueable."""

    name = "requeue"

    def __init__(self, commands: SlurmCommands, *, node: str) -> None:
        self._commands = commands
        self._node = node

    def check(self, order: MessageRequest) -> str:
        """Return which job would be requeued."""
        job, facts = self._job(order)
        return f"would requeue job {job} of {self._node}, restarted {facts.get('Restarts', '?')} times so far"

    def send(self, order: MessageRequest) -> Receipt:
        """Requeue the job, and read back that it was restarted or no longer runs."""
        job, before = self._job(order)
        try:
            self._commands.run("scontrol", "requeue", job)
        except TransientError as err:
            if "no reply" in str(err):  # it may have been done; a second time would discard the work since
                return Receipt(summary=f"job {job}: {err}; requeue not confirmed", done=False)
            raise
        after = _facts(self._commands.run("scontrol", "show", "job", job, "-o"))
        summary = f"job {job} {after.get('JobState', '?').lower()}, restarts {before.get('Restarts')}"
        taken = after.get("Restarts") != before.get("Restarts") or after.get("JobState") != "RUNNING"
        return Receipt(summary=f"{summary} -> {after.get('Restarts')}", done=taken)

    def _job(self, order: MessageRequest) -> tuple[str, dict[str, str]]:
        """Return the job and its fields; raise if it may not be requeued."""
        wanted = dict(order.decision.parameters).get(JOB)
        running = self._commands.run("squeue", "-h", "-w", self._node, "-t", "RUNNING", "-o", "%A").split()
        running = list(dict.fromkeys(running))
        if wanted is not None and wanted not in running:
            raise ActionRefusedError(f"job {wanted} does not run on {self._node}")
        if wanted is None and len(running) != 1:
            raise ActionRefusedError(_which(self._node, running))
        job = wanted or running[0]
        facts = _facts(self._commands.run("scontrol", "show", "job", job, "-o"))
        if facts.get("BatchFlag") != "1":
            raise ActionRefusedError(f"job {job} is not a batch job: Slurm cannot restart it")
        if facts.get("Requeue") != "1":
            raise ActionRefusedError(f"job {job} was submitted with --no-requeue")
        return job, facts


def _which(node: str, running: Sequence[str]) -> str:
    if not running:
        return f"no job runs on {node}"
    return f"{len(running)} jobs run on {node}: {', '.join(running)}; set parameter {JOB} in the policy"


def _facts(line: str) -> dict[str, str]:
    """Return the fields of ``scontrol show job -o``, whose values used here have no spaces."""
    return dict(part.split("=", 1) for part in line.split() if "=" in part)


class SlurmWork:
    """Slurm jobs on the node, including those that are completing."""

    def __init__(self, commands: SlurmCommands, *, node: str) -> None:
        self._commands = commands
        self._node = node

    def busy(self) -> Sequence[str]:
        """Return the jobs."""
        states = "RUNNING,COMPLETING,CONFIGURING,SUSPENDED,STOPPED"
        jobs = self._commands.run("squeue", "-h", "-w", self._node, "-t", states, "-o", "%A").split()
        return [f"Slurm job {job}" for job in dict.fromkeys(jobs)]
