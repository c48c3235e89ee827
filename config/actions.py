"""Mode of each class of action: nothing is enforced on real hardware unless the configuration sets `enforce`."""

from enum import StrEnum

from pydantic import Field

from agent.actuation.limits import UnreadableClocks
from config.section import Section, UserPath
from rules.policy.model import ActionClass
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
