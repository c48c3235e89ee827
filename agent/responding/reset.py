"""Settings of a power cycle; a light module, since every command reads the configuration."""

from dataclasses import dataclass
from enum import StrEnum


class Reset(StrEnum):
    """Type of reset; the values of ResetType in the schema Resource of DSP0268."""

    GRACEFUL_RESTART = "GracefulRestart"
    FORCE_RESTART = "ForceRestart"
    POWER_CYCLE = "PowerCycle"


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerCycleSettings:
    """Node, type of reset, and conditions of a power cycle.

    `node` is the node of this agent, the only one that is ever power-cycled; `system` the path of its ComputerSystem,
    which may be empty if the controller has one. `back_within_s` is the time limit until it is on again. With
    `undrained` it may be power-cycled if no scheduler is configured.
    """

    node: str
    reset: Reset = Reset.POWER_CYCLE
    system: str = ""
    back_within_s: float = 300.0
    undrained: bool = False
