"""A policy as it stands in a YAML file: every key, its unit and its bounds."""

import json
import math
from itertools import pairwise
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from rules.conditions import compile_condition
from rules.policy import (
    ActionClass,
    Case,
    CaseNode,
    ClockRule,
    Expectation,
    Persist,
    Policy,
    PolicyStatus,
    Release,
    Response,
    Step,
    Target,
    Verb,
)
from telemetry.durations import DurationS, format_duration
from telemetry.entities import EntityKind
from telemetry.records import Cause, IncidentState, Mode, Severity

CASE_AT_MAX_S = 86_400.0
# A cap is renewed several times within its lease; below this a busy machine would lose it by chance.
LEASE_MIN_S = 5.0
_WORDS = "abcdefghijklmnopqrstuvwxyz0123456789-"


def _check_id(text: str) -> str:
    if not text or len(text) > 64 or set(text) - set(_WORDS) or any(not part for part in text.split("-")):
        raise ValueError("lower-case words joined by hyphens, such as supply-sag-clock-cap")
    return text


def _check_text(text: str) -> str:
    if not text.strip():
        raise ValueError("a sentence; it must not be empty")
    return text.strip()


def _check_condition(text: str) -> str:
    compile_condition(text)
    return text


def _check_finite(number: float) -> float:
    if not math.isfinite(number):
        raise ValueError("a finite number")
    return number


def _as_list(value: object) -> object:
    return value if isinstance(value, list | tuple) else [value]


def _as_expectations(value: object) -> object:
    if value is None:
        raise ValueError("'none', one decision or a list of decisions")
    return [] if value == "none" else _as_list(value)


def _duration(*, above_zero: bool) -> WithJsonSchema:
    return WithJsonSchema(
        {
            "type": "string",
            "pattern": r"^\s*\d+(\.\d+)?\s*(ms|s|m|h|d)\s*$",
            "description": "a duration with its unit" + (", above zero" if above_zero else ""),
        }
    )


Duration = Annotated[DurationS, _duration(above_zero=False)]
PositiveDuration = Annotated[DurationS, Field(gt=0), _duration(above_zero=True)]
Finite = Annotated[float, Field(strict=True), AfterValidator(_check_finite)]
Sentence = Annotated[str, AfterValidator(_check_text)]
# 60 V covers the 48 V bus bars of OCP Open Rack v3; nothing that railwatch reads lies above.
Volt = Annotated[Finite, Field(gt=0, le=60)]
Count = Annotated[int, Field(strict=True, ge=1, le=64)]


_CLOSED = ConfigDict(frozen=True, extra="forbid")


class ClockDocument(BaseModel):
    """How the cap is found: exactly one of `hold_v`, `fraction` and `mhz`."""

    model_config = _CLOSED

    hold_v: Volt | None = Field(default=None, description="keep the predicted worst dip above this voltage")
    fraction: Annotated[Finite, Field(gt=0, lt=1)] | None = Field(
        default=None, description="share of the cap in force, of the highest clock where there is none"
    )
    mhz: Annotated[Finite, Field(gt=0, le=10_000)] | None = Field(default=None, description="a fixed clock in MHz")
    fallback: Annotated[Finite, Field(gt=0, lt=1)] | None = Field(
        default=None,
        description="with hold_v: the fraction to use where the evidence does not allow the prediction; 0.85",
    )

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if sum(value is not None for value in (self.hold_v, self.fraction, self.mhz)) != 1:
            raise ValueError("exactly one of hold_v, fraction and mhz")
        if self.fallback is not None and self.hold_v is None:
            raise ValueError("fallback only beside hold_v")
        return self

    def rule(self) -> ClockRule:
        """Give it as the engine uses it."""
        fallback = 0.85 if self.fallback is None else self.fallback
        return ClockRule(hold_v=self.hold_v, fraction=self.fraction, mhz=self.mhz, fallback=fallback)


class ReleaseDocument(BaseModel):
    """How a cap goes again once the symptom is gone."""

    model_config = _CLOSED

    after: PositiveDuration = Field(
        default=1800.0, description="quiet time, and time since the last tightening, before it"
    )
    every: PositiveDuration = Field(default=600.0, description="time between two steps of one supported clock each")
    margin_v: Annotated[Finite, Field(ge=0, le=5)] = Field(
        default=0.05, description="with hold_v: how far above it the measured minimum must stand"
    )

    def release(self) -> Release:
        """Give it as the engine uses it."""
        return Release(after_s=self.after, every_s=self.every, margin_v=self.margin_v)


class ThenDocument(BaseModel):
    """What is done. `target`, `clock`, `lease`, `settle`, `persist` and `release` are for `clock_cap`."""

    model_config = _CLOSED

    action: ActionClass
    target: Target | None = Field(default=None, validate_default=True, description="which GPUs")
    clock: ClockDocument | None = Field(default=None, validate_default=True, description="how the cap is found")
    mode: Mode = Field(
        default=Mode.ENFORCE, description="lowers the mode of its class for this policy; it cannot raise it"
    )
    lease: Annotated[PositiveDuration, Field(ge=LEASE_MIN_S)] | None = Field(
        default=None, description="how long a cap stands without renewal, 5s or more; 2m"
    )
    cooldown: Duration = Field(default=60.0, description="quiet time on the same entity after its last action ended")
    hold: Duration = Field(
        default=0.0, le=CASE_AT_MAX_S, description="how long the condition must be met without a break"
    )
    settle: PositiveDuration | None = Field(default=None, description="how long a cap may take to show its effect; 30s")
    persist: Persist | None = Field(default=None, description="what follows if the symptom stays: tighten or hold")
    release: ReleaseDocument | None = Field(default=None, description="how the cap goes again")

    @field_validator("target", "clock")
    @classmethod
    def _cap_only(cls, value: object, info: ValidationInfo) -> object:
        action = info.data.get("action")
        if action is ActionClass.CLOCK_CAP and value is None:
            raise ValueError("a value; clock_cap needs it")
        if action is ActionClass.NOTIFY and value is not None:
            raise ValueError("no such key beside notify")
        return value

    @field_validator("lease", "settle", "persist", "release")
    @classmethod
    def _not_for_notify(cls, value: object, info: ValidationInfo) -> object:
        if info.data.get("action") is ActionClass.NOTIFY and value is not None:
            raise ValueError("no such key beside notify")
        return value

    def response(self) -> Response:
        """Give it as the engine uses it."""
        if self.clock is None:
            return Response(action=self.action, mode=self.mode, cooldown_s=self.cooldown, hold_s=self.hold)
        return Response(
            action=self.action,
            mode=self.mode,
            cooldown_s=self.cooldown,
            hold_s=self.hold,
            target=self.target,
            clock=self.clock.rule(),
            # A cap is a dead man's switch: whoever holds it renews it well within the lease.
            lease_s=120.0 if self.lease is None else self.lease,
            settle_s=30.0 if self.settle is None else self.settle,
            persist=self.persist or Persist.TIGHTEN,
            release=(self.release or ReleaseDocument()).release(),
        )


class StepDocument(BaseModel):
    """An incident at one moment of a case, and what its supply then shows."""

    model_config = _CLOSED

    at: Annotated[Duration, Field(le=CASE_AT_MAX_S)] = 0.0
    cause: Cause
    severity: Severity = Severity.WARNING
    state: IncidentState = IncidentState.OPEN
    entity_kind: EntityKind = EntityKind.GPU
    affected_count: Count = 1
    impact_gpu_hours: Annotated[Finite, Field(ge=0)] = 0.0
    numbers: dict[str, Finite] = {}
    minimum_v: Volt | None = None
    open_circuit_v: Volt | None = None
    source_resistance_ohm: Annotated[Finite, Field(gt=0, le=1)] | None = None

    def step(self) -> Step:
        """Give it as the engine's tests use it."""
        return Step(
            at_s=self.at,
            cause=self.cause.value,
            severity=self.severity.value,
            state=self.state.value,
            entity_kind=self.entity_kind.value,
            affected_count=self.affected_count,
            impact_gpu_hours=self.impact_gpu_hours,
            numbers=tuple(self.numbers.items()),
            minimum_v=self.minimum_v,
            open_circuit_v=self.open_circuit_v,
            source_resistance_ohm=self.source_resistance_ohm,
        )


class CaseNodeDocument(BaseModel):
    """The node of a case; what it does not name is a box of four V100 SXM2 on one supply."""

    model_config = _CLOSED

    gpus: Count = 4
    supplies: Count = 1
    max_clock_mhz: Annotated[Finite, Field(gt=0, le=10_000)] = 1530.0
    clock_step_mhz: Annotated[Finite, Field(gt=0, le=1000)] = 7.5
    power_high_w: Annotated[Finite, Field(gt=0)] | None = 350.0
    power_low_w: Annotated[Finite, Field(gt=0)] | None = 150.0

    def node(self) -> CaseNode:
        """Give it as the engine's tests use it."""
        return CaseNode(
            gpus=self.gpus,
            supplies=self.supplies,
            max_clock_mhz=self.max_clock_mhz,
            clock_step_mhz=self.clock_step_mhz,
            power_high_w=self.power_high_w,
            power_low_w=self.power_low_w,
        )


class ExpectationDocument(BaseModel):
    """A decision that must come, at its time to the second."""

    model_config = _CLOSED

    at: Annotated[Duration, Field(le=CASE_AT_MAX_S)] = 0.0
    action: Verb
    targets: Count | None = Field(default=None, description="how many entities it is for")
    clock_mhz: Annotated[Finite, Field(gt=0)] | None = Field(default=None, description="to one clock step")


class CaseDocument(BaseModel):
    """A story and what must come of it: the incident at one moment or several, then the decisions."""

    model_config = _CLOSED

    name: Sentence
    node: CaseNodeDocument = CaseNodeDocument()
    incident: Annotated[
        tuple[StepDocument, ...],
        BeforeValidator(_as_list, json_schema_input_type=StepDocument | tuple[StepDocument, ...]),
    ] = Field(min_length=1, description="the incident, at one moment or as a list with 'at'")
    expect: Annotated[
        tuple[ExpectationDocument, ...],
        BeforeValidator(
            _as_expectations,
            json_schema_input_type=Literal["none"] | ExpectationDocument | tuple[ExpectationDocument, ...],
        ),
    ]

    @field_validator("incident")
    @classmethod
    def _in_order(cls, value: tuple[StepDocument, ...]) -> tuple[StepDocument, ...]:
        if any(later.at <= earlier.at for earlier, later in pairwise(value)):
            raise ValueError("moments in order, each 'at' later than the one before")
        return value

    def case(self) -> Case:
        """Give it as the engine's tests use it."""
        return Case(
            name=self.name,
            node=self.node.node(),
            steps=tuple(item.step() for item in self.incident),
            expect=tuple(
                Expectation(at_s=item.at, action=item.action, targets=item.targets, clock_mhz=item.clock_mhz)
                for item in self.expect
            ),
        )


class PolicyDocument(BaseModel):
    """One policy: when this, then that, why, on whose word, and the cases that show it."""

    model_config = _CLOSED

    id: Annotated[str, AfterValidator(_check_id)] = Field(description="lower-case words joined by hyphens")
    status: PolicyStatus
    why: Sentence = Field(description="what it prevents")
    source: Annotated[tuple[Sentence, ...], BeforeValidator(_as_list, json_schema_input_type=str | tuple[str, ...])] = (
        Field(min_length=1, description="where its numbers come from")
    )
    when: Annotated[str, AfterValidator(_check_condition)] = Field(description="a CEL expression over 'incident'")
    then: ThenDocument
    cases: tuple[CaseDocument, ...] = Field(description="at least one that fires and one that stays quiet")

    @field_validator("cases")
    @classmethod
    def _both_kinds(cls, value: tuple[CaseDocument, ...]) -> tuple[CaseDocument, ...]:
        if not any(case.expect for case in value) or all(case.expect for case in value):
            raise ValueError("a case that fires and a case that expects none")
        names = [case.name for case in value]
        if len(set(names)) < len(names):
            raise ValueError("a name of its own for each case")
        return value

    def policy(self, *, where: str) -> Policy:
        """Give it as the engine uses it."""
        return Policy(
            id=self.id,
            status=self.status,
            why=self.why,
            source=self.source,
            when=compile_condition(self.when),
            then=self.then.response(),
            cases=tuple(case.case() for case in self.cases),
            where=where,
        )


def policy_schema() -> dict[str, Any]:
    """Give the JSON Schema of a policy file, for editors and other checkers."""
    schema = PolicyDocument.model_json_schema(mode="validation")
    for definition in (schema, *schema["$defs"].values()):
        for key in definition.get("properties", {}).values():
            # Defaults of durations stand in seconds inside; a file writes them with their unit.
            if key.get("type") == "string" and isinstance(key.get("default"), float):
                key["default"] = format_duration(key["default"])
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "railwatch policy"}


def policy_schema_text() -> str:
    """Give the schema as it is kept beside the policies, ``rules/policy.schema.json``."""
    return json.dumps(policy_schema(), indent=2, ensure_ascii=False) + "\n"
