"""A policy as the engine uses it: checked, converted, frozen. `rules.policy.document` is its form in a file."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from rules.conditions.condition import Condition
from telemetry.records import Mode

if TYPE_CHECKING:
    from rules.policy.case_document import CaseDocument


class PolicyStatus(StrEnum):
    """Maturity of a policy. A deprecated one is checked and tested, and never decides."""

    EXPERIMENTAL = "experimental"
    STABLE = "stable"
    DEPRECATED = "deprecated"


class ActionClass(StrEnum):
    """Class of actions that a policy may request; modes and budgets are kept per class."""

    CLOCK_CAP = "clock_cap"
    POWER_CAP = "power_cap"
    FAN = "fan"
    NOTIFY = "notify"
    CHECKPOINT = "checkpoint"
    DRAIN = "drain"
    REQUEUE = "requeue"
    HOOK = "hook"
    POWER_CYCLE = "power_cycle"


class Verb(StrEnum):
    """The `action` of a decision: a class of actions, or the relaxing or release of one."""

    CLOCK_CAP = "clock_cap"
    NOTIFY = "notify"
    CLOCK_RELAX = "clock_relax"
    CLOCK_RELEASE = "clock_release"
    POWER_CAP = "power_cap"
    POWER_RELAX = "power_relax"
    POWER_RELEASE = "power_release"
    FAN = "fan"
    FAN_RELAX = "fan_relax"
    FAN_RELEASE = "fan_release"
    CHECKPOINT = "checkpoint"
    DRAIN = "drain"
    DRAIN_RELEASE = "drain_release"
    REQUEUE = "requeue"
    HOOK = "hook"
    POWER_CYCLE = "power_cycle"


class Target(StrEnum):
    """Target GPUs of an action."""

    THIS_GPU = "this_gpu"
    ALL_GPUS_OF_SUPPLY = "all_gpus_of_supply"
    ALL_GPUS_OF_JOB = "all_gpus_of_job"
    ALL_GPUS = "all_gpus"


class Persist(StrEnum):
    """Response to a symptom that is still present when its cap has had time to work.

    A cap lowers the power of a GPU, and not every symptom follows: a bad thermal interface stays one at any clock, and
    a platform may brake for a reason that is not this node's load.
    """

    TIGHTEN = "tighten"
    HOLD = "hold"
    RELEASE = "release"


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingRule:
    """Rule for the setting of a knob; exactly one of the first six is set.

    Parameters
    ----------
    hold_v
        The loosest setting at which the predicted voltage stays above this at 12 V, and above the same share of another
        rail: of the worst dip for a clock, of the plateau for a power limit.
    fraction
        This share of the setting in force, of the loosest one where there is none.
    fixed
        This setting, in MHz, watts or as a share of the fan's full speed.
    hold_c
        Regulated, so that the hottest GPU stays at this temperature.
    shed
        The loosest setting that takes off the GPUs the watts of this piece of evidence, such as ``mend_w``.
    ramp_from
        At the start of a job from this share up to the caps of others, over `ramp_s`.
    fallback
        Fraction used instead of `hold_v` and `shed` if the evidence does not allow the prediction.
    """

    hold_v: float | None = None
    fraction: float | None = None
    fixed: float | None = None
    hold_c: float | None = None
    shed: str | None = None
    ramp_from: float | None = None
    ramp_s: float = 45.0
    fallback: float = 0.85


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Budget of a policy: new actions in `per_s`, and GPUs at once; None for as many as the node's limits allow."""

    actions: int
    per_s: float
    gpus_max: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """Release of a cap: `after_s` without the symptom, then one step every `every_s`, with a margin above the limit."""

    after_s: float
    every_s: float
    margin_v: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """Action of a policy.

    Parameters
    ----------
    setting
        Rule for the setting of a knob; None for an action without one.
    consecutive
        Number of records in a row that must meet the condition.
    approval
        True if an operator must approve each action.
    parameters
        Parameters for an actuator outside the GPU, such as the program of a hook.
    """

    action: ActionClass
    mode: Mode
    cooldown_s: float
    hold_s: float
    target: Target | None = None
    setting: SettingRule | None = None
    lease_s: float | None = None
    settle_s: float = 30.0
    persist: Persist = Persist.TIGHTEN
    release: Release | None = None
    consecutive: int = 1
    approval: bool = False
    budget: Budget | None = None
    parameters: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Policy: condition, action, reason and cases, these as in its file. `where` is its file.

    With `after` it is a rung of a ladder: it acts on an incident only once the symptom check of that policy's action
    on it has failed.
    """

    id: str
    status: PolicyStatus
    why: str
    source: tuple[str, ...]
    when: Condition = field(compare=False)
    then: Response
    cases: tuple["CaseDocument", ...]
    where: str
    after: str | None = None
