"""Actuators outside the GPUs: schedulers, programs, jobs, notification, power cycle."""

import re
import signal
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from agent.responding.checkpoint import CheckpointSettings
from agent.responding.hook import HookProgram
from agent.responding.schedulers.slurm import TIMEOUT_S, SlurmSettings
from agent.responding.signalling import SignalledProcess
from config.kubernetes import Kubernetes
from config.notification import Notification
from config.power_cycle import PowerCycleSection
from config.section import Section, UserPath, at_least, web_url
from telemetry.durations import DurationS

# heuristic: programs run one after the other, so a longer one would hold up the next.
HOOK_TIMEOUT_MAX_S = 600.0
# Slurm's own limit for the name of a node, MAX_SLURM_NAME (slurm/slurm.h), and the characters of a host name.
_NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_NAME = r"^[a-z0-9][a-z0-9_-]{0,39}$"
# heuristic: signals that jobs commonly handle; none that a job cannot catch.
_SIGNALS = frozenset({"SIGUSR1", "SIGUSR2", "SIGHUP", "SIGTERM", "SIGCONT", "SIGRTMIN"})


def _program(text: str) -> str:
    if not text.startswith("/"):
        raise ValueError("the full path of a program, from /")
    return text


def _signal(text: str) -> str:
    name = text if text.startswith("SIG") else f"SIG{text}"
    if name not in _SIGNALS or name not in signal.Signals.__members__:
        raise ValueError(f"one of {', '.join(sorted(_SIGNALS))}")
    return name


def _job_url(text: str) -> str:
    url = web_url(text)
    if "@" in urlsplit(url).netloc:
        raise ValueError("an address without user and password: the address is written to the journal")
    return url


def _slurm_node(text: str) -> str:
    if text and not _NODE.fullmatch(text):
        raise ValueError("the name of one node as Slurm knows it, such as gpu017")
    return text


class Scheduler(StrEnum):
    """Scheduler through which a node is drained."""

    SLURM = "slurm"
    KUBERNETES = "kubernetes"


class Slurm(Section):
    """Slurm's own commands, run as a user who may drain nodes (operator or SlurmUser)."""

    node: Annotated[str, AfterValidator(_slurm_node)] = Field(
        default="", description="Name of this node in Slurm; empty: the first part of the host name."
    )
    folder: UserPath | None = Field(default=None, description="Folder of scontrol and squeue; unset: search PATH.")
    conf: UserPath | None = Field(default=None, description="Path of slurm.conf; unset: the default of Slurm.")
    timeout: Annotated[DurationS, at_least(1, "1s")] = Field(
        default=TIMEOUT_S, description="Time limit of one command."
    )

    def settings(self, host: str) -> SlurmSettings:
        """Return the settings of Slurm's commands."""
        return SlurmSettings(
            node=self.node or host.partition(".")[0],
            folder="" if self.folder is None else str(self.folder),
            conf="" if self.conf is None else str(self.conf),
            timeout_s=self.timeout,
        )


class HookSection(Section):
    """Program that policies may name."""

    command: tuple[str, ...] = Field(
        min_length=1, max_length=64, description="Full path of the program, then its arguments, passed unchanged."
    )
    timeout: Annotated[DurationS, Field(gt=0, le=HOOK_TIMEOUT_MAX_S)] = Field(
        default=10.0, description="Time limit; after it the program and its children are killed."
    )
    environment: dict[Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")], str] = Field(
        default={}, description="Environment variables of the program, besides PATH and LANG."
    )

    @model_validator(mode="after")
    def _by_full_path(self) -> Self:
        _program(self.command[0])
        if any("\0" in argument for argument in (*self.command, *self.environment.values())):
            raise ValueError("arguments and variables without a NUL character")
        return self

    def program(self) -> HookProgram:
        """Return the program as the hook runs it."""
        return HookProgram(command=self.command, timeout_s=self.timeout, environment=dict(self.environment))


class CheckpointSection(Section):
    """Checkpoint of one job: how railwatch requests it, and how the job confirms it."""

    file: UserPath | None = Field(default=None, description="File to touch.")
    pid_file: UserPath | None = Field(default=None, description="File with the id of the process to signal.")
    signal: Annotated[str, AfterValidator(_signal)] = Field(default="SIGUSR1", description="Signal to send.")
    cgroup: str = Field(default="", description="Control group that the process must belong to; empty: any.")
    url: Annotated[str, AfterValidator(_job_url)] | None = Field(
        default=None, description="Address to POST to; answers 200 once it has accepted the request."
    )
    confirm_file: UserPath | None = Field(
        default=None, description="File whose modification time changes once the checkpoint is written."
    )
    confirm_url: Annotated[str, AfterValidator(_job_url)] | None = Field(
        default=None, description="Address that answers 200 once the checkpoint is written."
    )
    heartbeat: str = Field(
        default="",
        max_length=128,
        description="Key of the job whose heartbeat reports `checkpoint_step`; empty: the name of the checkpoint, "
        "unless a file or an address confirms.",
    )
    within: Annotated[DurationS, Field(gt=0, le=3600)] = Field(
        default=300.0, description="Time limit for the confirmation."
    )

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if sum(way is not None for way in (self.file, self.pid_file, self.url)) != 1:
            raise ValueError("exactly one of file, pid_file and url")
        if self.confirm_file is not None and self.confirm_url is not None:
            raise ValueError("confirm_file or confirm_url, not both")
        return self

    def settings(self) -> CheckpointSettings:
        """Return the settings of the request."""
        process = None
        if self.pid_file is not None:
            process = SignalledProcess(pid_file=Path(self.pid_file), signal_name=self.signal, cgroup=self.cgroup)
        return CheckpointSettings(
            within_s=self.within,
            file=self.file,
            process=process,
            url=self.url,
            confirm_file=self.confirm_file,
            confirm_url=self.confirm_url,
            heartbeat=self.heartbeat,
        )


class Actuators(Section):
    """Targets of actions outside the GPUs; `actions` sets the mode of each class of action."""

    drain: tuple[Scheduler, ...] = Field(
        default=(), description="Schedulers that drain this node: slurm, kubernetes, both, or none."
    )
    slurm: Slurm = Slurm()
    kubernetes: Kubernetes = Kubernetes()
    notification: Notification = Notification()
    power_cycle: PowerCycleSection = PowerCycleSection()
    hooks: dict[Annotated[str, Field(pattern=_NAME)], HookSection] = Field(
        default={}, description="Programs that policies may run, by name: `command`, `timeout`, `environment`."
    )
    checkpoints: dict[Annotated[str, Field(pattern=_NAME)], CheckpointSection] = Field(
        default={},
        description=(
            "Jobs that can write a checkpoint on request, by name: one of `file`, `pid_file` and `url`; optional "
            "`signal`, `cgroup`, `confirm_file`, `confirm_url`, `heartbeat`, `within`."
        ),
    )
