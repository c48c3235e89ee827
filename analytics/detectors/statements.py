"""How a detector says what it found: the record, and its numbers."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from analytics.detectors.condition import Changes, Conditions
from telemetry.entities import Entity
from telemetry.records import Cause, Evidence, Finding, FindingStatus, Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """What is said of one entity: how bad, in which words, with which numbers."""

    severity: Severity
    score: float
    summary: str
    evidence: tuple[Evidence, ...]


Describe = Callable[[int, FindingStatus], Statement]


def evidence(*rows: tuple[str, float, str]) -> tuple[Evidence, ...]:
    """Return the numbers that are known: rows of name, value and unit, without those that are NaN or infinite."""
    return tuple(
        Evidence(name=name, value=float(value), unit=unit) for name, value, unit in rows if math.isfinite(value)
    )


def finding_id(detector: str, entity_id: str, since_ns: int) -> str:
    """Return the id that every record of one finding carries, from what it says alone."""
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
) -> Iterator[Finding]:
    """Yield the findings of one row: the only loop over entities, and only over those with something to tell."""
    for status, indices in (
        (FindingStatus.RAISED, changes.raised),
        (FindingStatus.UPDATED, changes.updated),
        (FindingStatus.CLEARED, changes.cleared),
    ):
        for index in indices.tolist():
            statement = describe(index, status)
            since_ns = int(conditions.since_ns[index])
            yield Finding(
                id=finding_id(detector, entities[index].id, since_ns),
                time_ns=now_ns,
                since_ns=since_ns,
                detector=detector,
                cause=cause,
                entity_id=entities[index].id,
                status=status,
                severity=statement.severity,
                score=min(max(statement.score, 0.0), 1.0),
                summary=statement.summary,
                evidence=statement.evidence,
            )
