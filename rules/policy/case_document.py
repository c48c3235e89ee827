"""Cases of a policy file: an incident over time, and the expected decisions."""

import difflib
from itertools import pairwise
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, field_validator

from rules.policy.document_values import (
    CASE_AT_MAX_S,
    CLOSED,
    Count,
    Duration,
    Finite,
    Sentence,
    Share,
    Volt,
    Watt,
    as_list,
)
from rules.policy.model import Verb
from telemetry.entities import EntityKind
from telemetry.quantities import EVIDENCE
from telemetry.records import Cause, FaultClass, IncidentState, Severity


def _check_evidence(numbers: dict[str, float]) -> dict[str, float]:
    for name in numbers:
        if name not in EVIDENCE:
            nearest = difflib.get_close_matches(name, tuple(EVIDENCE), n=1)
            raise ValueError(f"{nearest[0] if nearest else 'evidence of a detector'}, not {name}")
    return numbers


def _as_expectations(value: object) -> object:
    if value is None:
        raise ValueError("'none', one decision or a list of decisions")
    return [] if value == "none" else as_list(value)


class CaseMomentDocument(BaseModel):
    """Incident at one time of a case, and the readings of its supply."""

    model_config = CLOSED

    at: Annotated[Duration, Field(le=CASE_AT_MAX_S)] = 0.0
    cause: Cause
    severity: Severity = Severity.WARNING
    state: IncidentState = IncidentState.OPEN
    entity_kind: EntityKind = EntityKind.GPU
    affected_count: Count = 1
    impact_gpu_hours: Annotated[Finite, Field(ge=0)] = 0.0
    root_cause: FaultClass | None = None
    confidence: Share = Field(default=1.0, description="with root_cause: its probability")
    loss_probability: Share | None = None
    numbers: Annotated[dict[str, Finite], AfterValidator(_check_evidence)] = {}
    minimum_v: Volt | None = None
    open_circuit_v: Volt | None = None
    source_resistance_ohm: Annotated[Finite, Field(gt=0, le=1)] | None = None
    gpu_temp_c: Annotated[Finite, Field(ge=-40, le=150)] | None = Field(
        default=None, description="temperature of every GPU"
    )
    job_started: bool = Field(default=False, description="true if a job begins at this time")
    helped: bool | None = Field(default=None, description="result of the symptom check of the policy named by `after`")


class CaseNodeDocument(BaseModel):
    """Node of a case; the defaults are those of four V100 SXM2 on one supply."""

    model_config = CLOSED

    gpus: Count = 4
    supplies: Count = 1
    max_clock_mhz: Annotated[Finite, Field(gt=0, le=10_000)] = 1530.0
    # heuristic: half of the finest step that a GPU has (7 or 8 MHz on a V100) would do; each step is an object.
    clock_step_mhz: Annotated[Finite, Field(ge=1, le=1000)] = 7.5
    power_high_w: Annotated[Finite, Field(gt=0)] | None = 350.0
    power_low_w: Annotated[Finite, Field(gt=0)] | None = 150.0
    limit_min_w: Watt | None = Field(default=150.0, description="lowest power limit that can be set")
    limit_default_w: Watt | None = Field(default=300.0, description="the vendor's power limit")
    fan_min_ratio: Share | None = Field(default=None, description="lowest fan speed that can be set; no fan if unset")


class ExpectationDocument(BaseModel):
    """Expected decision, at its time to the second."""

    model_config = CLOSED

    at: Annotated[Duration, Field(le=CASE_AT_MAX_S)] = 0.0
    action: Verb
    targets: Count | None = Field(default=None, description="number of target entities")
    clock_mhz: Annotated[Finite, Field(gt=0)] | None = Field(default=None, description="to one clock step")
    power_limit_w: Watt | None = Field(default=None, description="to one step of 5 W")
    fan_ratio: Share | None = Field(default=None, description="to one step of a twentieth")


class CaseDocument(BaseModel):
    """Test case: the incident at one time or several, and the expected decisions."""

    model_config = CLOSED

    name: Sentence
    node: CaseNodeDocument = CaseNodeDocument()
    incident: Annotated[
        tuple[CaseMomentDocument, ...],
        BeforeValidator(as_list, json_schema_input_type=CaseMomentDocument | tuple[CaseMomentDocument, ...]),
    ] = Field(min_length=1, description="the incident, at one time or as a list with 'at'")
    expect: Annotated[
        tuple[ExpectationDocument, ...],
        BeforeValidator(
            _as_expectations,
            json_schema_input_type=Literal["none"] | ExpectationDocument | tuple[ExpectationDocument, ...],
        ),
    ]

    @field_validator("incident")
    @classmethod
    def _in_order(cls, value: tuple[CaseMomentDocument, ...]) -> tuple[CaseMomentDocument, ...]:
        if any(later.at <= earlier.at for earlier, later in pairwise(value)):
            raise ValueError("times in order, each 'at' later than the one before")
        return value
