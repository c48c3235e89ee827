"""A person accepts that an entity is as it should be: what was learnt of it is learnt anew, what was told of it ends.

That comes as an event like any other, so that it stands among the records with who and why, and a replay of a recording
accepts what was accepted live, at the same step.
"""

from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from analytics.detectors.condition import Conditions, clear_where
from telemetry.entities import Entity
from telemetry.frames import MaskArray
from telemetry.records import Event, EventKind, Finding, FindingStatus


def accepted_entities(events: Iterable[Event]) -> dict[str, Event]:
    """Return the entities that were accepted, each with the event that says so."""
    return {one.entity_id: one for one in events if one.kind is EventKind.BASELINE and one.entity_id is not None}


def reset_baselines(detector: Any, own: Any, entities: Sequence[Entity], events: Sequence[Event]) -> Any:
    """Return the state of a detector that learns baselines, with those of the accepted entities begun anew."""
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
    """Return the findings that acceptance ends, cleared: those of detectors that learnt the entity anew.

    `detectors` are the names under which those tell, `findings` all that hold. One detector may tell under several
    names, its own with a dot and more behind it.
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
            summary=f"{one.summary}; {accepted[one.entity_id].message}",
        )
        for one in findings
        if one.entity_id in accepted
        and one.status is not FindingStatus.CLEARED
        and one.detector.partition(".")[0] in names
    )
