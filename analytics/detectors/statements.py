"""Findings from conditions: the record of each change, its summary and its evidence."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from analytics.detectors.condition import Changes, Conditions
from telemetry.entities import Entity
from telemetry.quantities import shortened
from telemetry.records import Cause, Evidence, Finding, FindingStatus, Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """Severity, score, summary and evidence of one finding."""

    severity: Severity
    score: float
    summary: str
    evidence: tuple[Evidence, ...]


Describe = Callable[[int, FindingStatus], Statement]


def evidence(*rows: tuple[str, float, str]) -> tuple[Evidence, ...]:
    """Return rows of name, value and unit as evidence, without values that are NaN or infinite."""
    return tuple(
        Evidence(name=name, value=float(value), unit=unit) for name, value, unit in rows if math.isfinite(value)
    )


def finding_id(detector: str, entity_id: str, since_ns: int) -> str:
    """Return the id that every record of one finding carries."""
    return f"{detector}:{entity_id}:{since_ns}"


def findings_from(
    detector: str,
    cause: Cause,
    entities: tuple[Entity, ...],
    conditions: Conditions,
    changes: Changes,
    *,
    now_ns: int,
    describe: Describe,
) -> tuple[Finding, ...]:
    """Return the findings of one row; loops only over entities that changed.

    A score that is not a number, as of a finding that clears while a value is absent, is 0.
    """
    found: list[Finding] = []
    for status, indices in (
        (FindingStatus.RAISED, changes.raised),
        (FindingStatus.UPDATED, changes.updated),
        (FindingStatus.CLEARED, changes.cleared),
    ):
        for index in indices.tolist():
            statement = describe(index, status)
            since_ns = int(conditions.since_ns[index])
            found.append(
                Finding(
                    id=finding_id(detector, entities[index].id, since_ns),
                    time_ns=now_ns,
                    since_ns=since_ns,
                    detector=detector,
                    cause=cause,
                    entity_id=entities[index].id,
                    status=status,
                    severity=statement.severity,
                    score=0.0 if math.isnan(statement.score) else min(max(statement.score, 0.0), 1.0),
                    summary=shortened(statement.summary),
                    evidence=statement.evidence,
                )
            )
    return tuple(found)
