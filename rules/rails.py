"""The rails: what limits every policy, whatever it asks for.

Figures without a standard behind them are this project's own choices, and say so.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from rules.policy import ActionClass
from telemetry.durations import DurationS
from telemetry.records import Mode

_NOTHING_ENFORCED: Mapping[ActionClass, Mode] = MappingProxyType(dict.fromkeys(ActionClass, Mode.OBSERVE))


@dataclass(frozen=True, slots=True, kw_only=True)
class Rails:
    """Limits of one node's engine.

    Parameters
    ----------
    modes
        How far each action class may go. Nothing is enforced unless a person says so (a dry run that records what it
        would have done is the default of NVIDIA's NVSentinel as well).
    approval
        Action classes that need a person's approval; asked for, they are refused with that reason.
    actions_per_hour
        New actions per class. 6 is the ceiling of EEMUA 191 for what one operator can follow, one alarm in ten
        minutes. Making a cap that is in force stricter is not counted: it can only happen as often as there are clocks.
    capped_gpus_max
        GPUs under a cap at once; None for all of the node, which a sagging supply needs.
    min_clock_ratio
        No cap below this share of the highest clock. Own choice: well under the 0.66 that the hardest known case took
        (1005 of 1530 MHz, https://blbadger.github.io/gpu-server).
    safe_resistance_ratio
        The safe clock is the computed one at this multiple of the source resistance. Own choice: four times the
        +-5 % to which NVML's gain is known (arXiv 2312.02741).
    stagger_s
        Time between two GPUs when caps are relaxed, so that they do not rise together. Own choice.
    cycles_per_day
        Times that the symptom may come back after a cap was relaxed, before the breaker trips. Own choice.
    failures_before_trip
        Decisions in a row that could not be carried out, before the breaker trips. Own choice.
    """

    modes: Mapping[ActionClass, Mode] = field(default_factory=lambda: _NOTHING_ENFORCED)
    approval: frozenset[ActionClass] = frozenset()
    actions_per_hour: int = 6
    capped_gpus_max: int | None = None
    min_clock_ratio: float = 0.40
    safe_resistance_ratio: float = 1.2
    stagger_s: float = 10.0
    cycles_per_day: int = 3
    failures_before_trip: int = 3

    def mode(self, action: ActionClass, wanted: Mode) -> Mode:
        """Give the lower of what the class may do and what the policy wants."""
        allowed = self.modes.get(action, Mode.OBSERVE)
        return min(allowed, wanted, key=list(Mode).index)


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaker:
    """A tripped circuit breaker; only a person resets it (so does the one of NVIDIA's NVSentinel)."""

    tripped_ns: int
    reason: str


class RailsSettings(BaseModel):
    """The rails as they stand in a configuration file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    approval: tuple[ActionClass, ...] = Field(default=(), description="action classes that need a person's approval")
    actions_per_hour: Annotated[int, Field(ge=1, le=3600)] = Field(
        default=6, description="new actions per class and node"
    )
    capped_gpus_max: Annotated[int, Field(ge=1, le=64)] | None = Field(
        default=None, description="GPUs under a cap at once; all of the node where it is not set"
    )
    min_clock_ratio: Annotated[float, Field(ge=0.1, le=1)] = Field(
        default=0.40, description="no cap below this share of the highest clock"
    )
    safe_resistance_ratio: Annotated[float, Field(ge=1, le=3)] = Field(
        default=1.2, description="multiple of the source resistance at which the safe clock is computed"
    )
    stagger: Annotated[DurationS, Field(ge=0, le=600)] = Field(
        default=10.0, description="time between two GPUs when caps are relaxed"
    )
    cycles_per_day: Annotated[int, Field(ge=1, le=100)] = Field(
        default=3, description="returns of the symptom after relaxing, before the breaker trips"
    )
    failures_before_trip: Annotated[int, Field(ge=1, le=100)] = Field(
        default=3, description="failed decisions in a row, before the breaker trips"
    )

    def rails(self, modes: Mapping[ActionClass, Mode]) -> Rails:
        """Give them as the engine uses them, with how far each action class may go."""
        return Rails(
            modes=modes,
            approval=frozenset(self.approval),
            actions_per_hour=self.actions_per_hour,
            capped_gpus_max=self.capped_gpus_max,
            min_clock_ratio=self.min_clock_ratio,
            safe_resistance_ratio=self.safe_resistance_ratio,
            stagger_s=self.stagger,
            cycles_per_day=self.cycles_per_day,
            failures_before_trip=self.failures_before_trip,
        )
