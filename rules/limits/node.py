"""Limits of one node, which hold for every policy.

A figure without a source is marked heuristic.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Annotated, Self

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, model_validator

from rules.policy.model import ActionClass
from telemetry.clock import NS_PER_S, iso_utc
from telemetry.durations import DurationS
from telemetry.records import Mode

HOUR_NS = 3600 * NS_PER_S
DAY_NS = 24 * HOUR_NS

_NOTHING_ENFORCED: Mapping[ActionClass, Mode] = MappingProxyType(dict.fromkeys(ActionClass, Mode.OBSERVE))
# Protection of the hardware goes on in a silence and in a maintenance window; notifications and jobs wait.
_PROTECTIVE = (ActionClass.CLOCK_CAP, ActionClass.POWER_CAP, ActionClass.FAN)
MAY_WAIT = tuple(action for action in ActionClass if action not in _PROTECTIVE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Maintenance:
    """Maintenance window: no new action of some classes begins; actions in force go on."""

    start_ns: int
    until_ns: int
    why: str
    stops: frozenset[ActionClass]

    @property
    def summary(self) -> str:
        """End and reason."""
        return f"maintenance until {iso_utc(self.until_ns)[:19]}Z: {self.why}"


class UnmeasuredStart(StrEnum):
    """Start of the GPUs while the supply path is not yet measured under load."""

    FULL = "full"
    RAMP = "ramp"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLimits:
    """Limits of one node's engine.

    Parameters
    ----------
    modes
        Mode of each action class. Nothing is enforced by default (a dry run that records what it would have done is the
        default of NVIDIA's NVSentinel as well).
    approval
        Action classes in which an operator must approve every new action. A power cycle always needs it.
    approval_expires_s
        How long a decision waits for approval. Heuristic: an incident that is an hour older is judged anew.
    pending_max
        Decisions that may wait at once. Heuristic: more would not be read.
    actions_per_hour, actions_per_day
        New actions per class. 6 is the ceiling of EEMUA 191 for what one operator can follow, one alarm in ten
        minutes; 24 a day is heuristic, one an hour. Making a cap that is in force stricter is not counted: it can
        only happen as often as there are settings.
    spacing_s
        Time between two new actions outside the GPU (drain, requeue, program and so on), of all policies.
        Heuristic: one a minute. Caps and fans protect the hardware and do not wait, nor do notifications.
    silence_stops
        Classes of which a silenced incident gets no new action.
    maintenance
        Windows in which no new action of some classes begins.
    capped_gpus_max
        GPUs under a cap at once; None for all of the node, which a sagging supply needs.
    min_clock_ratio
        No cap below this share of the highest clock. Heuristic: well under the 0.66 that the hardest known case took
        (1005 of 1530 MHz, https://blbadger.github.io/gpu-server).
    safe_resistance_ratio
        The safe setting is the computed one at this multiple of the source resistance. Heuristic: four times the
        +-5 % to which NVML's gain is known (arXiv 2312.02741).
    stagger_s
        Time between two GPUs when caps are relaxed, so that they do not rise together. Heuristic.
    cycles_per_day
        Times that the symptom may come back after a cap was relaxed, before it latches. Heuristic.
    failures_before_trip
        Decisions in a row that could not be carried out, and actions within an hour after which things got worse,
        before the breaker trips. Heuristic.
    worse_share_to_trip
        Share of the node's GPUs that those were on. NVIDIA's NVSentinel trips at half of the nodes.
    unmeasured_start
        With `ramp`, start ramps are in force from the beginning until the supply path has been measured once. Full by
        default; set `ramp` for supply paths known to be weak.
    """

    modes: Mapping[ActionClass, Mode] = field(default_factory=lambda: _NOTHING_ENFORCED)
    approval: frozenset[ActionClass] = frozenset()
    approval_expires_s: float = 3600.0
    pending_max: int = 32
    actions_per_hour: int = 6
    actions_per_day: int = 24
    spacing_s: float = 60.0
    silence_stops: frozenset[ActionClass] = frozenset(MAY_WAIT)
    maintenance: tuple[Maintenance, ...] = ()
    capped_gpus_max: int | None = None
    min_clock_ratio: float = 0.40
    safe_resistance_ratio: float = 1.2
    stagger_s: float = 10.0
    cycles_per_day: int = 3
    failures_before_trip: int = 3
    worse_share_to_trip: float = 0.5
    unmeasured_start: UnmeasuredStart = UnmeasuredStart.FULL

    def mode(self, action: ActionClass, wanted: Mode) -> Mode:
        """Return the lower of the modes of the class and of the policy."""
        allowed = self.modes.get(action, Mode.OBSERVE)
        return min(allowed, wanted, key=list(Mode).index)

    def stopped_by(self, action: ActionClass, now_ns: int) -> Maintenance | None:
        """Return the maintenance window that stops this class now."""
        return stopped_by(self.maintenance, action, now_ns)


def stopped_by(windows: Iterable[Maintenance], action: ActionClass, now_ns: int) -> Maintenance | None:
    """Return the first of some maintenance windows that stops a class now."""
    return next((one for one in windows if one.start_ns <= now_ns < one.until_ns and action in one.stops), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaker:
    """A tripped circuit breaker; only an operator resets it (as with the one of NVIDIA's NVSentinel)."""

    tripped_ns: int
    reason: str


class MaintenanceSettings(BaseModel):
    """Maintenance window of a configuration file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    start: AwareDatetime = Field(description="when it begins, with its offset from UTC: 2026-03-01T08:00:00Z")
    until: AwareDatetime = Field(description="when it ends")
    why: str = Field(min_length=1, description="what is being done")
    stops: tuple[ActionClass, ...] = Field(default=MAY_WAIT, description="classes of which no new action begins")

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.start >= self.until:
            raise ValueError("start before until")
        return self

    def window(self) -> Maintenance:
        """Return it as the engine uses it."""
        return Maintenance(
            start_ns=_ns(self.start), until_ns=_ns(self.until), why=self.why, stops=frozenset(self.stops)
        )


class LimitSettings(BaseModel):
    """Limits of a node that hold for every policy."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    approval: tuple[ActionClass, ...] = Field(
        default=(), description="action classes that need approval; power_cycle always does"
    )
    approval_expires: Annotated[DurationS, Field(ge=60, le=7 * 86_400)] = Field(
        default=3600.0, description="how long a decision waits for approval"
    )
    actions_per_hour: Annotated[int, Field(ge=1, le=3600)] = Field(
        default=6, description="new actions per class and node"
    )
    actions_per_day: Annotated[int, Field(ge=1, le=86_400)] = Field(
        default=24, description="new actions per class and node"
    )
    spacing: Annotated[DurationS, Field(ge=0, le=3600)] = Field(
        default=60.0, description="time between two new actions outside the GPU"
    )
    silence_stops: tuple[ActionClass, ...] = Field(
        default=MAY_WAIT, description="classes of which a silenced incident gets no new action"
    )
    maintenance: tuple[MaintenanceSettings, ...] = Field(
        default=(), description="windows in which no new action begins: start, until, why, stops"
    )
    capped_gpus_max: Annotated[int, Field(ge=1, le=64)] | None = Field(
        default=None, description="GPUs under a cap at once; default: all of the node"
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
        default=3, description="returns of the symptom after relaxing, before the cap latches"
    )
    failures_before_trip: Annotated[int, Field(ge=1, le=100)] = Field(
        default=3, description="failed decisions in a row, before the breaker trips"
    )
    worse_share_to_trip: Annotated[float, Field(gt=0, le=1)] = Field(
        default=0.5, description="share of the GPUs whose actions of an hour made it worse, before the breaker trips"
    )
    unmeasured_start: UnmeasuredStart = Field(
        default=UnmeasuredStart.FULL,
        description="start of GPUs before the supply path is measured: full, or ramp if it may be weak",
    )

    def node_limits(self, modes: Mapping[ActionClass, Mode]) -> NodeLimits:
        """Return them as the engine uses them, with the mode of each action class."""
        return NodeLimits(
            modes=modes,
            approval=frozenset(self.approval),
            approval_expires_s=self.approval_expires,
            actions_per_hour=self.actions_per_hour,
            actions_per_day=self.actions_per_day,
            spacing_s=self.spacing,
            silence_stops=frozenset(self.silence_stops),
            maintenance=tuple(one.window() for one in self.maintenance),
            capped_gpus_max=self.capped_gpus_max,
            min_clock_ratio=self.min_clock_ratio,
            safe_resistance_ratio=self.safe_resistance_ratio,
            stagger_s=self.stagger,
            cycles_per_day=self.cycles_per_day,
            failures_before_trip=self.failures_before_trip,
            worse_share_to_trip=self.worse_share_to_trip,
            unmeasured_start=self.unmeasured_start,
        )


def _ns(moment: datetime) -> int:
    return round(moment.timestamp()) * NS_PER_S
