"""Models of the configuration, with defaults and bounds.

The sample file and the reference are generated from these models, from the description and the default of each field.
"""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, model_validator

from agent.actuation.limits import UnreadableClocks
from agent.recorder.settings import RecorderSettings
from analytics.detectors.limits import DetectorLimits
from analytics.incidents.book_settings import BookSettings
from config.actuators import Actuators
from config.control import Control
from config.fleet import Fleet
from config.sampling import Sampling
from config.section import Section, UserPath, at_least
from config.sources import Sources, SourceUse
from config.store import Store
from config.topology import TopologySection
from rules.limits.node import LimitSettings
from rules.policy.model import ActionClass
from telemetry.durations import DurationS, SizeBytes
from telemetry.key_problems import KeyProblemError, missing_key
from telemetry.records import Mode


class ActionMode(StrEnum):
    """Mode of a class of action; `auto` is enforce on a simulated node and observe on real hardware."""

    AUTO = "auto"
    OBSERVE = "observe"
    RECOMMEND = "recommend"
    ENFORCE = "enforce"

    def resolve(self, *, simulated: bool) -> Mode:
        """Return the mode on this node."""
        if self is ActionMode.AUTO:
            return Mode.ENFORCE if simulated else Mode.OBSERVE
        return Mode(self.value)


class Actions(Section):
    """Mode of each class of action: `observe`, `recommend`, `enforce`, or `auto`."""

    clock_cap: ActionMode = Field(
        default=ActionMode.AUTO,
        description="Cap GPU clocks. `auto` enforces on a simulated node and observes on real hardware.",
    )
    unreadable_clocks: UnreadableClocks = Field(
        default=UnreadableClocks.REFUSE,
        description=(
            "Whether to cap clocks through locked clocks, which the driver cannot read back: the release of a cap "
            "removes a lock that an operator had set."
        ),
    )
    socket: UserPath | None = Field(
        default=None,
        description="Socket of a `railwatch actuatord` that sets clocks, power limits and fans; unset: this run does.",
    )
    power_cap: ActionMode = Field(
        default=ActionMode.AUTO,
        description="Lower the power limit of GPUs. It limits the average power, not the peaks of single steps.",
    )
    fan: ActionMode = Field(default=ActionMode.AUTO, description="Raise the speed of fans.")
    notify: ActionMode = Field(default=ActionMode.AUTO, description="Notify people.")
    checkpoint: ActionMode = Field(default=ActionMode.OBSERVE, description="Request a checkpoint from a job.")
    drain: ActionMode = Field(
        default=ActionMode.OBSERVE, description="Drain this node in Slurm or Kubernetes, and resume it."
    )
    requeue: ActionMode = Field(default=ActionMode.OBSERVE, description="Requeue a Slurm job.")
    hook: ActionMode = Field(default=ActionMode.OBSERVE, description="Run programs of your own.")
    power_cycle: ActionMode = Field(
        default=ActionMode.OBSERVE,
        description="Power-cycle this node through Redfish, after a person has approved it.",
    )

    def of(self, action: ActionClass) -> ActionMode:
        """Return the mode of one class."""
        mode = getattr(self, action.value)
        if not isinstance(mode, ActionMode):
            raise TypeError(f"{action.value} has no mode")
        return mode


class Recorder(Section):
    """Flight recorder: full-rate history around findings and incidents, and its size limits."""

    use: SourceUse = Field(default=SourceUse.AUTO, description="`auto`: the flight recorder runs; `off`: it does not.")
    before: Annotated[DurationS, at_least(1, "1s")] = Field(
        default=60.0, description="Full-rate history in a recording before its trigger."
    )
    after: Annotated[DurationS, at_least(1, "1s")] = Field(
        default=30.0, description="Length of a recording after its trigger; each further trigger extends it."
    )
    longest: Annotated[DurationS, at_least(10, "10s")] = Field(
        default=600.0, description="Longest recording; further triggers begin the next one."
    )
    flush: Annotated[DurationS, at_least(0.1, "100ms")] = Field(
        default=2.0,
        description="Interval at which the black box is written to disk: the most that a power cut can lose.",
    )
    memory_max: Annotated[SizeBytes, at_least(1 << 20, "1MiB")] = Field(
        default=64 << 20, description="Memory limit of the packed history."
    )
    box_max: Annotated[SizeBytes, at_least(1 << 20, "1MiB")] = Field(
        default=64 << 20, description="Size limit of the black box on disk."
    )
    max_size: Annotated[SizeBytes, at_least(1 << 20, "1MiB")] = Field(
        default=2 << 30, description="Size limit of all recordings together; the oldest are deleted first."
    )

    @model_validator(mode="after")
    def _longest_holds_the_window(self) -> Self:
        if self.longest < self.before + self.after:
            least_s = self.before + self.after
            raise KeyProblemError("longest", f"got {self.longest:g} s", f"before + after or more: {least_s:g} s")
        return self

    def settings(self) -> RecorderSettings:
        """Return the settings of the recorder."""
        return RecorderSettings(
            before_s=self.before,
            after_s=self.after,
            longest_s=self.longest,
            flush_s=self.flush,
            memory_bytes=self.memory_max,
            box_bytes=self.box_max,
            max_bytes=self.max_size,
        )


class Node(Section):
    """Identity of this node."""

    name: str = Field(
        default="", max_length=200, description="Name of this node in every record; empty: the host name."
    )


class Rules(Section):
    """Policies in force."""

    builtin: bool = Field(default=True, description="Load the policies that come with railwatch.")
    dirs: tuple[UserPath, ...] = Field(
        default=(),
        description="Folders of the site's policy files; a policy replaces the built-in one with the same id.",
    )
    node_dirs: tuple[UserPath, ...] = Field(
        default=(), description="Folders of policy files for this node alone; they replace the site's with the same id."
    )


class Page(Section):
    """The built-in page and API."""

    host: str = Field(default="127.0.0.1", min_length=1, description="Address to listen on.")
    port: int = Field(default=8470, ge=0, le=65535, description="Port to listen on; 0 takes a free one.")
    token: str | None = Field(
        default=None, min_length=16, description="Token for reading; required unless `host` is a loopback address."
    )
    act_token: str | None = Field(
        default=None,
        min_length=16,
        description="Token for approving and rejecting decisions over HTTP; without it no HTTP request may act.",
    )

    @model_validator(mode="after")
    def _open_address_has_a_token(self) -> Self:
        if self.host not in ("127.0.0.1", "::1", "localhost") and self.token is None:
            raise missing_key("token", "16 characters or more: required unless host is a loopback address")
        if self.act_token is not None and self.act_token == self.token:
            raise KeyProblemError(
                "act_token", "same value as token", "a token of its own: reading does not permit acting"
            )
        return self


class Analytics(Section):
    """Budget of false pages, and thresholds calibrated for it."""

    pages_per_node_month: float = Field(
        default=0.1,
        gt=0,
        le=1000,
        description=(
            "False pages allowed per node and month. `railwatch models calibrate` computes thresholds for it from "
            "healthy recordings; the status and `railwatch incidents rate` report the rate that was achieved."
        ),
    )
    thresholds: UserPath | None = Field(
        default=None,
        description=(
            "File of thresholds written by `railwatch models calibrate`; they raise limits of `detectors` and never "
            "lower one."
        ),
    )


def default_data_dir() -> Path:
    """Return the default folder for state."""
    return Path("~/.local/state/railwatch").expanduser()


class Config(Section):
    """The whole configuration."""

    data_dir: UserPath = Field(
        default_factory=default_data_dir, description="Folder for the store, the spool and the journals."
    )
    node: Node = Node()
    sampling: Sampling = Sampling()
    sources: Sources = Sources()
    recorder: Recorder = Recorder()
    store: Store = Store()
    detectors: DetectorLimits = DetectorLimits()
    analytics: Analytics = Analytics()
    incidents: BookSettings = BookSettings()
    actions: Actions = Actions()
    actuators: Actuators = Actuators()
    limits: LimitSettings = LimitSettings()
    rules: Rules = Rules()
    page: Page = Page()
    fleet: Fleet = Fleet()
    control: Control = Control()
    topology: TopologySection = TopologySection()

    @model_validator(mode="after")
    def _the_page_has_its_port_to_itself(self) -> Self:
        if self.sources.readings.tcp_port == self.page.port:
            raise KeyProblemError(
                "sources.readings.tcp_port", f"got {self.page.port}", "another port: page.port uses this one"
            )
        return self
