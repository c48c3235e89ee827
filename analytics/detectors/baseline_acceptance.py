"""Acceptance of baselines: an operator accepts an entity as it is now; its baselines restart and its findings clear.

An acceptance is an event with operator and reason, so it is recorded, and a replay accepts at the same step as live.
"""

from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from analytics.detectors.condition import Conditions, clear_where
from telemetry.entities import Entity
from telemetry.frames import MaskArray
from telemetry.quantities import shortened
from telemetry.records import Event, EventKind, Finding, FindingStatus


def accepted_entities(events: Iterable[Event]) -> dict[str, Event]:
    """Return the accepted entities by id, each with its event."""
    return {one.entity_id: one for one in events if one.kind is EventKind.BASELINE and one.entity_id is not None}


def reset_baselines(detector: Any, own: Any, entities: Sequence[Entity], events: Sequence[Event]) -> Any:
    """Return a detector state with the baselines of accepted entities reset."""
    accepted = accepted_entities(events)
    if own is None or not accepted or not hasattr(detector, "accept"):
        return own
    mask: MaskArray = np.array([entity.id in accepted for entity in entities], dtype=np.bool_)
    if not mask.any():
        return own
    after = detector.accept(own, mask)
    held = {one.name: getattr(after, one.name) for one in fields(after)}
    return replace(
        after, **{name: clear_where(value, mask) for name, value in held.items() if isinstance(value, Conditions)}
    )


def findings_ended_by(
    events: Sequence[Event], findings: Iterable[Finding], detectors: Iterable[str], now_ns: int
) -> tuple[Finding, ...]:
    """Return, cleared, the findings on accepted entities by detectors that reset their baselines.

    `findings` are all that hold. A detector may report under its name with a suffix after a dot.
    """
    accepted = accepted_entities(events)
    if not accepted:
        return ()
    names = frozenset(detectors)
    return tuple(
        replace(
            one,
            time_ns=max(now_ns, one.time_ns),
            status=FindingStatus.CLEARED,
            summary=shortened(f"cleared: {accepted[one.entity_id].message}"),
        )
        for one in findings
        if one.entity_id in accepted
        and one.status is not FindingStatus.CLEARED
        and one.detector.partition(".")[0] in names
    )
