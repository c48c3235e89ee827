"""The `then` of a policy file: the action, with the keys of its class."""

from typing import Annotated, Literal, Self

from pydantic import BaseModel, Field, ValidationInfo, field_validator, model_validator

from rules.caps.knobs import KNOB_OF
from rules.policy.document_values import (
    CASE_AT_MAX_S,
    CLOCK_MAX_MHZ,
    CLOSED,
    COOLDOWN_MAX_S,
    RELEASE_AFTER_MAX_S,
    Celsius,
    Count,
    Duration,
    Finite,
    PositiveDuration,
    Volt,
    Watt,
    at_most,
)
from rules.policy.model import ActionClass, Budget, Persist, Release, Response, SettingRule, Target
from telemetry.gpu import KnobKind
from telemetry.records import Mode

# A cap is renewed several times within its lease; below this a busy machine would lose it by chance.
LEASE_MIN_S = 5.0
# heuristic: a program gets names and short texts, not documents.
PARAMETERS_MAX, PARAMETER_MAX = 16, 500

_Part = Annotated[Finite, Field(gt=0, lt=1)]
_AT_12_V = " at 12 V, and above the same share of another rail"
_FALLBACK = "with hold_v: the fraction to use where the evidence does not allow the prediction; 0.85"
_FALLBACK_OF_CLOCK = _FALLBACK.replace("hold_v", "hold_v or shed")
# heuristic: the default, about two training steps for each tenth of the clock.
_RAMP_S = 45.0
_FALLBACK_RATIO = 0.85


def _one_of(**values: object) -> None:
    if sum(value is not None for value in values.values()) != 1:
        *most, last = values
        raise ValueError(f"exactly one of {', '.join(most)} and {last}")


class ClockDocument(BaseModel):
    """Setting of a clock cap: exactly one of `hold_v`, `fraction`, `mhz`, `hold_c`, `shed` and `ramp_from`."""

    model_config = CLOSED

    hold_v: Volt | None = Field(default=None, description=f"keep the predicted worst dip above this voltage{_AT_12_V}")
    fraction: _Part | None = Field(
        default=None, description="share of the cap in force, of the highest clock where there is none"
    )
    mhz: Annotated[Finite, Field(gt=0, le=CLOCK_MAX_MHZ)] | None = Field(
        default=None, description="a fixed clock in MHz"
    )
    hold_c: Celsius | None = Field(default=None, description="regulate so that the hottest GPU stays at this")
    shed: Literal["mend_w"] | None = Field(
        default=None, description="take off the GPUs the watts that the finding names as mend_w"
    )
    ramp_from: _Part | None = Field(
        default=None, description="at the start of a job from this share up to the other caps"
    )
    ramp_over: PositiveDuration | None = Field(default=None, description="with ramp_from: how long that takes; 45s")
    fallback: _Part | None = Field(default=None, description=_FALLBACK_OF_CLOCK)

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        _one_of(
            hold_v=self.hold_v,
            fraction=self.fraction,
            mhz=self.mhz,
            hold_c=self.hold_c,
            shed=self.shed,
            ramp_from=self.ramp_from,
        )
        if self.fallback is not None and self.hold_v is None and self.shed is None:
            raise ValueError("fallback only with hold_v or shed")
        if self.ramp_over is not None and self.ramp_from is None:
            raise ValueError("ramp_over only with ramp_from")
        return self

    def rule(self) -> SettingRule:
        """Return it as the engine uses it."""
        return SettingRule(
            hold_v=self.hold_v,
            fraction=self.fraction,
            fixed=self.mhz,
            hold_c=self.hold_c,
            shed=self.shed,
            ramp_from=self.ramp_from,
            ramp_s=self.ramp_over or _RAMP_S,
            fallback=self.fallback or _FALLBACK_RATIO,
        )


class PowerDocument(BaseModel):
    """Setting of a power limit: exactly one of `hold_v`, `fraction` and `watts`. It bounds averages, not peaks."""

    model_config = CLOSED

    hold_v: Volt | None = Field(default=None, description=f"keep the predicted plateau above this voltage{_AT_12_V}")
    fraction: _Part | None = Field(
        default=None, description="share of the limit in force, of the vendor's default where there is none"
    )
    watts: Watt | None = Field(default=None, description="a fixed limit; never above the vendor's default")
    fallback: _Part | None = Field(default=None, description=_FALLBACK)

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        _one_of(hold_v=self.hold_v, fraction=self.fraction, watts=self.watts)
        if self.fallback is not None and self.hold_v is None:
            raise ValueError("fallback only with hold_v")
        return self

    def rule(self) -> SettingRule:
        """Return it as the engine uses it."""
        fallback = self.fallback or _FALLBACK_RATIO
        return SettingRule(hold_v=self.hold_v, fraction=self.fraction, fixed=self.watts, fallback=fallback)


class FanDocument(BaseModel):
    """Setting of a fan: exactly one of `ratio` and `hold_c`."""

    model_config = CLOSED

    ratio: Annotated[Finite, Field(gt=0, le=1)] | None = Field(default=None, description="share of the full speed")
    hold_c: Celsius | None = Field(default=None, description="regulate so that the hottest GPU stays at this")

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        _one_of(ratio=self.ratio, hold_c=self.hold_c)
        return self

    def rule(self) -> SettingRule:
        """Return it as the engine uses it."""
        return SettingRule(fixed=self.ratio, hold_c=self.hold_c)


class ReleaseDocument(BaseModel):
    """Release of a cap once the symptom is gone, or of a drain once its incident is closed."""

    model_config = CLOSED

    after: Annotated[PositiveDuration, at_most(RELEASE_AFTER_MAX_S)] = Field(
        default=1800.0,
        description="quiet time, and time since the last tightening, before it; 7d or less",
    )
    every: Annotated[PositiveDuration, at_most(RELEASE_AFTER_MAX_S)] = Field(
        default=600.0,
        description="time between two steps of one supported clock each; 7d or less",
    )
    margin_v: Annotated[Finite, Field(ge=0, le=5)] = Field(
        default=0.05, description="with hold_v: how far above it the measured minimum must be, at 12 V"
    )

    def release(self) -> Release:
        """Return it as the engine uses it."""
        return Release(after_s=self.after, every_s=self.every, margin_v=self.margin_v)


class BudgetDocument(BaseModel):
    """Budget of one policy. An action beyond the entity at fault needs one."""

    model_config = CLOSED

    actions: Annotated[int, Field(strict=True, ge=1, le=1000)] = Field(
        description="new actions of this policy within `per`; tightening a cap in force does not count"
    )
    per: Annotated[PositiveDuration, Field(ge=60, le=31 * 86_400)] = Field(
        default=3600.0, description="period of the budget"
    )
    gpus_max: Count | None = Field(default=None, description="GPUs under its actions at once; default: no limit")

    def budget(self) -> Budget:
        """Return it as the engine uses it."""
        return Budget(actions=self.actions, per_s=self.per, gpus_max=self.gpus_max)


_SETTINGS = {"clock": KnobKind.CLOCK, "power": KnobKind.POWER, "fan": KnobKind.FAN}


class ThenDocument(BaseModel):
    """Action of a policy.

    `target`, `lease`, `settle` and `persist` are for `clock_cap`, `power_cap` and `fan`, each of which needs its own
    section; `release` is for those and `drain`; `program` is for `hook`; `parameters` is for actions outside the GPU.
    """

    model_config = CLOSED

    action: ActionClass
    target: Target | None = Field(default=None, validate_default=True, description="target GPUs")
    clock: ClockDocument | None = Field(default=None, validate_default=True, description="setting of the cap")
    power: PowerDocument | None = Field(default=None, validate_default=True, description="setting of the limit")
    fan: FanDocument | None = Field(default=None, validate_default=True, description="setting of the speed")
    program: Annotated[str, Field(min_length=1, max_length=100)] | None = Field(
        default=None, validate_default=True, description="name of a program that the configuration allows"
    )
    parameters: dict[str, str] = Field(default={}, description="texts for the actuator")
    mode: Mode = Field(
        default=Mode.ENFORCE, description="lowers the mode of its class for this policy; it cannot raise it"
    )
    lease: Annotated[PositiveDuration, Field(ge=LEASE_MIN_S)] | None = Field(
        default=None, description="how long a cap lasts without renewal, 5s or more; 2m"
    )
    cooldown: Annotated[Duration, at_most(COOLDOWN_MAX_S)] = Field(
        default=60.0,
        description="quiet time on the same entity after its last action ended; 1d or less",
    )
    hold: Annotated[Duration, at_most(CASE_AT_MAX_S)] = Field(
        default=0.0, description="how long the condition must be met without a break"
    )
    consecutive: Annotated[int, Field(strict=True, ge=1, le=100)] = Field(
        default=1, description="number of records in a row that must meet the condition"
    )
    settle: PositiveDuration | None = Field(default=None, description="how long a cap may take to show its effect; 30s")
    persist: Persist | None = Field(
        default=None, description="response to a symptom that stays: tighten, hold or release"
    )
    release: ReleaseDocument | None = Field(default=None, description="release of the cap")
    approval: Literal["required", "none"] = Field(
        default="none", description="`required`: an operator must approve each action; power_cycle needs it"
    )
    budget: BudgetDocument | None = Field(
        default=None, description="new actions and GPUs allowed; required if it reaches beyond one GPU"
    )

    @field_validator("target", "clock", "power", "fan")
    @classmethod
    def _of_its_knob(cls, value: object, info: ValidationInfo) -> object:
        action = info.data.get("action")
        if action is None:
            return value
        knob = KNOB_OF.get(action)
        wanted = knob is not None if info.field_name == "target" else _SETTINGS[str(info.field_name)] is knob
        if wanted and value is None:
            raise ValueError(f"a value: required with {action.value}")
        if not wanted and value is not None:
            raise ValueError(f"no such key with {action.value}")
        return value

    @field_validator("lease", "settle", "persist", "release", "program", "parameters")
    @classmethod
    def _of_its_class(cls, value: object, info: ValidationInfo) -> object:
        action, name = info.data.get("action"), info.field_name
        if action is None:
            return value
        if name == "program":
            wanted = action is ActionClass.HOOK
        elif name == "parameters":
            wanted = action not in KNOB_OF
        else:
            wanted = action in KNOB_OF or (name in ("lease", "release") and action is ActionClass.DRAIN)
        if value and not wanted:
            raise ValueError(f"no such key with {action.value}")
        if name == "program" and wanted and value is None:
            raise ValueError("a value: required with hook")
        return value

    @field_validator("parameters")
    @classmethod
    def _few_and_short(cls, value: dict[str, str]) -> dict[str, str]:
        if len(value) > PARAMETERS_MAX or any(len(text) > PARAMETER_MAX for text in value.values()):
            raise ValueError(f"at most {PARAMETERS_MAX} texts of at most {PARAMETER_MAX} characters")
        if {"program", "approved_by"} & value.keys():
            raise ValueError("other names than program and approved_by, which railwatch sets itself")
        return value

    def response(self) -> Response:
        """Return it as the engine uses it."""
        setting = self.clock or self.power or self.fan
        holds = setting is not None or self.action is ActionClass.DRAIN
        named = () if self.program is None else (("program", self.program),)
        return Response(
            action=self.action,
            mode=self.mode,
            cooldown_s=self.cooldown,
            hold_s=self.hold,
            target=self.target,
            setting=None if setting is None else setting.rule(),
            # A cap ends without renewal; its holder renews it well within the lease.
            lease_s=(120.0 if self.lease is None else self.lease) if holds else None,
            settle_s=30.0 if self.settle is None else self.settle,
            persist=self.persist or Persist.TIGHTEN,
            release=(self.release or ReleaseDocument()).release() if holds else None,
            consecutive=self.consecutive,
            approval=self.approval == "required",
            budget=None if self.budget is None else self.budget.budget(),
            parameters=(*named, *self.parameters.items()),
        )
