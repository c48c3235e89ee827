"""What a power cycle asks the controller for; light to load, since every command reads the configuration."""

from dataclasses import dataclass
from enum import StrEnum


class Reset(StrEnum):
    """What is asked for; the words of ResetType in the schema Resource of DSP0268."""

    GRACEFUL_RESTART = "GracefulRestart"
    FORCE_RESTART = "ForceRestart"
    POWER_CYCLE = "PowerCycle"


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerCycleSettings:
    """Which node, what it is asked for, and what has to hold before.

    Parameters
    ----------
    node
        The node that this agent runs on, the only one that is ever cycled.
    system
        Path of its ComputerSystem; empty where the controller has one alone.
    back_within_s
        How long to wait until it is on again.
    undrained
        Whether it may be cycled where no scheduler is set up that could be asked.
    """

    node: str
    reset: Reset = Reset.POWER_CYCLE
    system: str = ""
    back_within_s: float = 300.0
    undrained: bool = False
