"""A policy as the engine sees it: checked, converted, frozen. `rules.document` is its form in a file."""

from dataclasses import dataclass, field
from enum import StrEnum

from rules.conditions import Condition
from telemetry.records import Mode

# The voltage at which a supply-sag cap aims when its policy does not say: above the 11.40 V that ATX12V design guides
# and Intel's server-supply specifications (S2400/P4000 TPS) allow at the load's end. The 0.1 V on top pays where a GPU
# that fell off the bus needs a cold power cycle by hand; it is this project's choice from simulated 30-day runs.
HOLD_V_DEFAULT = 11.50


class PolicyStatus(StrEnum):
    """How mature a policy is. A deprecated one is checked and tested, and never decides."""

    EXPERIMENTAL = "experimental"
    STABLE = "stable"
    DEPRECATED = "deprecated"


class ActionClass(StrEnum):
    """What a policy may ask for; modes and budgets are kept per class."""

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
    """The `action` of a decision. The last two belong to the class `clock_cap`."""

    CLOCK_CAP = "clock_cap"
    NOTIFY = "notify"
    CLOCK_RELAX = "clock_relax"
    CLOCK_RELEASE = "clock_release"


class Target(StrEnum):
    """Which GPUs an action is for."""

    THIS_GPU = "this_gpu"
    ALL_GPUS_OF_SUPPLY = "all_gpus_of_supply"
    ALL_GPUS = "all_gpus"


class Persist(StrEnum):
    """What a symptom gets that is still there when its cap has had time to work.

    A cap lowers what a GPU draws, and not every symptom follows: a bad thermal interface stays one at any clock.
    """

    TIGHTEN = "tighten"
    HOLD = "hold"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockRule:
    """How a cap is found; exactly one of the three is set.

    Parameters
    ----------
    hold_v
        The highest clock at which the predicted worst dip stays above this voltage.
    fraction
        This share of the cap in force, of the highest clock where there is none.
    mhz
        This clock.
    fallback
        Stands in for `hold_v`, as a fraction, where the evidence does not allow the prediction.
    """

    hold_v: float | None = None
    fraction: float | None = None
    mhz: float | None = None
    fallback: float = 0.85


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """How a cap goes: `after_s` without the symptom, then one clock every `every_s`, above the limit by a margin."""

    after_s: float
    every_s: float
    margin_v: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """What a policy wants done."""

    action: ActionClass
    mode: Mode
    cooldown_s: float
    hold_s: float
    target: Target | None = None
    clock: ClockRule | None = None
    lease_s: float | None = None
    settle_s: float = 30.0
    persist: Persist = Persist.TIGHTEN
    release: Release | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One moment of a case: the incident as it then is, and what its supply shows."""

    at_s: float
    cause: str
    severity: str
    state: str
    entity_kind: str
    affected_count: int
    impact_gpu_hours: float
    numbers: tuple[tuple[str, float], ...]
    minimum_v: float | None
    open_circuit_v: float | None
    source_resistance_ohm: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseNode:
    """The node on which a case plays: GPUs that are alike, on supplies that share them."""

    gpus: int
    supplies: int
    max_clock_mhz: float
    clock_step_mhz: float
    power_high_w: float | None
    power_low_w: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """One decision that a case must give."""

    at_s: float
    action: Verb
    targets: int | None
    clock_mhz: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A short story with the decisions that must come of it; none at all where `expect` is empty."""

    name: str
    node: CaseNode
    steps: tuple[Step, ...]
    expect: tuple[Expectation, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """When this, then that, and why. `where` is the file it came from."""

    id: str
    status: PolicyStatus
    why: str
    source: tuple[str, ...]
    when: Condition = field(compare=False)
    then: Response
    cases: tuple[Case, ...]
    where: str
