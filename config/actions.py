"""How far each class of action may go: nothing is enforced on real hardware unless a person says so."""

from enum import StrEnum

from pydantic import Field

from agent.actuation.limits import UnreadableClocks
from config.section import Section, UserPath
from rules.policy.model import ActionClass
from telemetry.records import Mode


class ActionMode(StrEnum):
    """How far an action class may go; auto is enforce on a simulated node and observe on real hardware."""

    AUTO = "auto"
    OBSERVE = "observe"
    RECOMMEND = "recommend"
    ENFORCE = "enforce"

    def resolve(self, *, simulated: bool) -> Mode:
        """Return what it means on this node."""
        if self is ActionMode.AUTO:
            return Mode.ENFORCE if simulated else Mode.OBSERVE
        return Mode(self.value)


class Actions(Section):
    """How far each class of action may go."""

    clock_cap: ActionMode = Field(
        default=ActionMode.AUTO,
        description="Capping GPU clocks: `auto` enforces on a simulated node and observes on real hardware.",
    )
    unreadable_clocks: UnreadableClocks = Field(
        default=UnreadableClocks.REFUSE,
        description=(
            "Whether clocks are capped through locked clocks, which the driver does not show: "
            "a lock that a person set is lost when the cap is released."
        ),
    )
    socket: UserPath | None = Field(
        default=None,
        description="Socket of a `railwatch actuatord` that turns the GPUs' knobs; none lets this run do it itself.",
    )
    power_cap: ActionMode = Field(
        default=ActionMode.AUTO,
        description="Lowering the GPUs' power limit. It bounds the average power, not the peaks of single steps.",
    )
    fan: ActionMode = Field(default=ActionMode.AUTO, description="Raising the speed of fans.")
    notify: ActionMode = Field(default=ActionMode.AUTO, description="Telling people.")
    checkpoint: ActionMode = Field(default=ActionMode.OBSERVE, description="Asking a job to write a checkpoint.")
    drain: ActionMode = Field(
        default=ActionMode.OBSERVE, description="Taking this node out of Slurm or Kubernetes, and giving it back."
    )
    requeue: ActionMode = Field(default=ActionMode.OBSERVE, description="Putting a job back into the queue of Slurm.")
    hook: ActionMode = Field(default=ActionMode.OBSERVE, description="Starting programs of your own.")
    power_cycle: ActionMode = Field(
        default=ActionMode.OBSERVE,
        description="Power-cycling this node through Redfish, once a person has approved it.",
    )

    def of(self, action: ActionClass) -> ActionMode:
        """Return how far one class may go."""
        mode = getattr(self, action.value)
        if not isinstance(mode, ActionMode):
            raise TypeError(f"{action.value} has no mode")
        return mode
