"""Policies of the fleet: as those of a node, for actions on whole nodes.

Supply voltages and knobs of a node are not known here: a cap is a share of the highest setting of each GPU, and each
agent finds the setting.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Self

from pydantic import BaseModel, Field, field_validator, model_validator

from rules.conditions.condition import Condition
from rules.conditions.document import condition_of
from rules.policy.document import PolicyHead, check_cases
from rules.policy.document_values import (
    CLOSED,
    COOLDOWN_MAX_S,
    RELEASE_AFTER_MAX_S,
    Duration,
    PositiveDuration,
    Sentence,
    at_most,
)
from rules.policy.forbidden import LEASE_MAX_S
from rules.policy.model import ActionClass, PolicyStatus
from telemetry.entities import EntityKind
from telemetry.records import Cause, Mode, Severity

# Caps that agents carry out, with the key of their share; a fleet also drains nodes and notifies operators.
_SHARES = {ActionClass.CLOCK_CAP: "clock", ActionClass.POWER_CAP: "limit", ActionClass.FAN: "fan"}
FLEET_ACTIONS = (*_SHARES, ActionClass.DRAIN, ActionClass.NOTIFY)
# heuristic: a cap is renewed several times within its lease; below this a busy network would lose it by chance.
LEASE_MIN_S = 20.0
_NodeCount = Annotated[int, Field(strict=True, ge=0, le=100_000)]


class NodeTarget(StrEnum):
    """Target nodes."""

    THIS_NODE = "this_node"
    NODES_UNDER = "nodes_under"


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetResponse:
    """Action of a policy of the fleet."""

    action: ActionClass
    mode: Mode
    target: NodeTarget
    ratio: float | None
    lease_s: float
    hold_s: float
    settle_s: float
    cooldown_s: float
    release_after_s: float
    release_every_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetPolicy:
    """Policy of the fleet; cases as in its file. With `after` it acts only once that policy's action did not help."""

    id: str
    status: PolicyStatus
    why: str
    source: tuple[str, ...]
    when: Condition = field(compare=False)
    then: FleetResponse
    cases: tuple["FleetCaseDocument", ...]
    where: str
    after: str | None = None


class FleetReleaseDocument(BaseModel):
    """Release of caps."""

    model_config = CLOSED

    after: Annotated[PositiveDuration, at_most(RELEASE_AFTER_MAX_S)] = Field(
        default=1800.0, description="quiet time before the first release; 7d or less"
    )
    every: Annotated[PositiveDuration, at_most(RELEASE_AFTER_MAX_S)] = Field(
        default=10.0, description="time between two nodes, so that they do not rise together; 7d or less"
    )


class FleetThenDocument(BaseModel):
    """Action. `lease` and `release` are for what agents carry out: `clock_cap`, `power_cap` and `fan`."""

    model_config = CLOSED

    action: ActionClass
    target: NodeTarget = Field(default=NodeTarget.THIS_NODE, description="the incident's node, or all below its entity")
    clock: Annotated[float, Field(gt=0, lt=1)] | None = Field(
        default=None, description="share of the highest clock of each GPU, below 1"
    )
    limit: Annotated[float, Field(gt=0, lt=1)] | None = Field(
        default=None, description="share of the highest power limit of each GPU, below 1"
    )
    fan: Annotated[float, Field(gt=0, le=1)] | None = Field(
        default=None, description="the slowest that fans may turn, as a share of their highest speed"
    )
    mode: Mode = Field(default=Mode.ENFORCE, description="lowers the mode of its class; it cannot raise it")
    lease: Annotated[Duration, Field(ge=LEASE_MIN_S), at_most(LEASE_MAX_S)] = Field(
        default=120.0, description="how long a cap lasts without renewal, 20s to 1d"
    )
    hold: Duration = Field(default=0.0, description="how long the condition must be met")
    settle: PositiveDuration = Field(default=60.0, description="how long a cap may take to show its effect")
    cooldown: Annotated[Duration, at_most(COOLDOWN_MAX_S)] = Field(
        default=600.0, description="quiet time on a node afterwards; 1d or less"
    )
    release: FleetReleaseDocument = FleetReleaseDocument()

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.action not in FLEET_ACTIONS:
            raise ValueError(f"one of {', '.join(FLEET_ACTIONS)} as the action of a fleet")
        given = {action for action, key in _SHARES.items() if getattr(self, key) is not None}
        if given != {self.action} & _SHARES.keys():
            pairs = ", ".join(f"{key} beside {action}" for action, key in _SHARES.items())
            raise ValueError(f"{pairs}, and none of them beside anything else")
        return self

    def response(self) -> FleetResponse:
        """Return it as the engine uses it."""
        return FleetResponse(
            action=self.action,
            mode=self.mode,
            target=self.target,
            ratio=next((one for one in (self.clock, self.limit, self.fan) if one is not None), None),
            lease_s=self.lease,
            hold_s=self.hold,
            settle_s=self.settle,
            cooldown_s=self.cooldown,
            release_after_s=self.release.after,
            release_every_s=self.release.every,
        )


class FleetIncidentDocument(BaseModel):
    """The incident of a case."""

    model_config = CLOSED

    cause: Cause
    severity: Severity = Severity.WARNING
    entity_kind: EntityKind = EntityKind.SUPPLY
    numbers: dict[str, float] = {}


class FleetCaseDocument(BaseModel):
    """One incident in a fleet, and the number of nodes that this policy acts on at once."""

    model_config = CLOSED

    name: Sentence
    incident: FleetIncidentDocument
    nodes: Annotated[_NodeCount, Field(ge=1)] = 40
    racks: Annotated[_NodeCount, Field(ge=1)] = 1
    expect: _NodeCount = Field(description="nodes acted on at once; a notification counts as 1")


class FleetPolicyDocument(PolicyHead):
    """One policy of the fleet."""

    after: str | None = Field(default=None, description="only once this policy's action did not help")
    then: FleetThenDocument
    cases: tuple[FleetCaseDocument, ...] = Field(description="at least one that acts and one that does not")

    @field_validator("cases")
    @classmethod
    def _both_kinds(cls, value: tuple[FleetCaseDocument, ...]) -> tuple[FleetCaseDocument, ...]:
        check_cases([(case.name, bool(case.expect)) for case in value], acts="acts", quiet="0")
        return value

    def policy(self, *, where: str) -> FleetPolicy:
        """Return it as the engine uses it."""
        return FleetPolicy(
            id=self.id,
            status=self.status,
            why=self.why,
            source=self.source,
            when=condition_of(self.when),
            then=self.then.response(),
            cases=self.cases,
            where=where,
            after=self.after,
        )
