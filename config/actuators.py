"""Actuators outside the GPUs: schedulers, programs, jobs, notification, power cycle."""

import signal
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from agent.collectors.bmc.settings import BmcKind, BmcSettings, Login, Transport
from agent.responding.checkpoint import CheckpointSettings, SignalledProcess
from agent.responding.hook import HookProgram
from agent.responding.reset import PowerCycleSettings, Reset
from agent.responding.schedulers.kubernetes import EvictionSettings
from agent.responding.schedulers.kubernetes_api import KubernetesSettings
from agent.responding.schedulers.slurm import TIMEOUT_S, SlurmSettings
from config.notification import Notification
from config.section import Host, Section, UserPath, VariableName, at_least, matching, web_url
from telemetry.durations import DurationS

# A DNS subdomain, what Kubernetes allows: kubernetes.io/docs/concepts/overview/working-with-objects/names.
_KubernetesNode = Annotated[
    str,
    matching(
        r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?", "the name of one node as kubectl get nodes prints it, such as gpu017"
    ),
]
_RedfishSystem = Annotated[str, matching(r"/redfish/v1/Systems/[^/\s]+", "a path such as /redfish/v1/Systems/1")]
# heuristic: programs run one after the other, so a longer one would hold up the next.
HOOK_TIMEOUT_MAX_S = 600.0
# Slurm's own limit for the name of a node, MAX_SLURM_NAME (slurm/slurm.h), and the characters of a host name.
_SlurmNode = Annotated[
    str, matching(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", "the name of one node as Slurm knows it, such as gpu017")
]
_NAME = r"^[a-z0-9][a-z0-9_-]{0,39}$"
# heuristic: signals that jobs commonly handle; none that a job cannot catch.
_SIGNALS = frozenset({"SIGUSR1", "SIGUSR2", "SIGHUP", "SIGTERM", "SIGCONT", "SIGRTMIN"})


class Evict(StrEnum):
    """Eviction of the pods of a cordoned node."""

    NEVER = "never"
    PODS = "pods"


class Kubernetes(Section):
    """Cordon, taint and eviction through the API server; inside a pod with its service account."""

    node: _KubernetesNode = Field(default="", description="Name of this node in Kubernetes; empty: the host name.")
    kubeconfig: UserPath | None = Field(
        default=None, description="Path of a kubeconfig; unset: the service account of the pod."
    )
    context: str = Field(default="", description="Context of the kubeconfig; empty: the current one.")
    evict: Evict = Field(
        default=Evict.NEVER,
        description="Whether pods are evicted once the node is cordoned; PodDisruptionBudgets are respected.",
    )
    evict_within: Annotated[DurationS, at_least(1, "1s"), Field(le=3600)] = Field(
        default=120.0, description="Time limit of the eviction; pods that remain are reported and stay."
    )
    grace: Annotated[DurationS, at_least(0, "0s")] | None = Field(
        default=None, description="Grace period of a pod; unset: its own."
    )

    def node_of(self, host: str) -> str:
        """Return the node's name in Kubernetes."""
        return self.node or host.lower()

    def settings(self) -> KubernetesSettings:
        """Return the settings of the connection."""
        kubeconfig = None if self.kubeconfig is None else Path(self.kubeconfig)
        return KubernetesSettings(kubeconfig=kubeconfig, context=self.context)

    def eviction(self) -> EvictionSettings | None:
        """Return the settings of the eviction, None if pods are not evicted."""
        if self.evict is Evict.NEVER:
            return None
        grace_s = None if self.grace is None else round(self.grace)
        return EvictionSettings(within_s=self.evict_within, grace_s=grace_s)


class Undrained(StrEnum):
    """Rule for a node without a scheduler that could confirm that it is drained."""

    REFUSE = "refuse"
    ALLOW = "allow"


class PowerCycleSection(Section):
    """Board controller with a user who may reset the node; every power cycle needs the approval of a person."""

    address: Host = Field(default="", description="Host name or address; empty: no power cycle.")
    port: int | None = Field(default=None, ge=1, le=65535, description="Port; default 443.")
    user: str = Field(default="", description="User with the right to reset the system (Redfish role Operator).")
    password_env: VariableName = Field(
        default="POWER_CYCLE_PASSWORD", min_length=1, description="Environment variable with the password."
    )
    password_file: UserPath | None = Field(
        default=None, description="File with the password; read instead of the variable."
    )
    transport: Transport = Field(
        default=Transport.TLS,
        description="Transport of Redfish: `tls`, `tls_unchecked` (accepts any certificate), `plain` (no TLS).",
    )
    ca_file: UserPath | None = Field(
        default=None, description="Certificates to verify the server with; unset: those of the system."
    )
    login: Login = Field(
        default=Login.SESSION, description="Authentication: a session, or user and password with each request."
    )
    system: _RedfishSystem = Field(
        default="",
        description="Path of this node, such as /redfish/v1/Systems/1; may be empty if the controller has one system.",
    )
    reset: Reset = Field(
        default=Reset.POWER_CYCLE,
        description="Type of reset; refused unless the controller lists it as allowed.",
    )
    back_within: Annotated[DurationS, at_least(1, "1s"), Field(le=3600)] = Field(
        default=300.0, description="Time limit until the node is on again."
    )
    undrained: Undrained = Field(
        default=Undrained.REFUSE,
        description="Whether the node may be power-cycled if `actuators.drain` names no scheduler.",
    )

    def bmc(self) -> BmcSettings:
        """Return the connection to the controller."""
        return BmcSettings(
            kind=BmcKind.REDFISH,
            address=self.address,
            port=self.port,
            user=self.user,
            password_variable=self.password_env,
            password_file=self.password_file,
            transport=self.transport,
            ca_file=self.ca_file,
            login=self.login,
        )

    def settings(self, node: str) -> PowerCycleSettings:
        """Return the settings of a power cycle."""
        return PowerCycleSettings(
            node=node,
            reset=self.reset,
            system=self.system,
            back_within_s=self.back_within,
            undrained=self.undrained is Undrained.ALLOW,
        )


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


class Scheduler(StrEnum):
    """Scheduler through which a node is drained."""

    SLURM = "slurm"
    KUBERNETES = "kubernetes"


class Slurm(Section):
    """Slurm's own commands, run as a user who may drain nodes (operator or SlurmUser)."""

    node: _SlurmNode = Field(
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
        if not self.command[0].startswith("/"):
            raise ValueError("the full path of a program, from /")
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
