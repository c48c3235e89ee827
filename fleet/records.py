"""Records of nodes from the tags, time and fields of a store, which may lack some of the fields.

A record that cannot be read, such as one with a cause of a newer version, is left out.
"""

import math
from collections.abc import Mapping

from analytics.fleet.topology import fleet_id
from analytics.fleet.window import NodeIncident
from telemetry.clock import NS_PER_S
from telemetry.records import (
    Cause,
    Event,
    EventKind,
    Evidence,
    Finding,
    FindingStatus,
    IncidentState,
    Severity,
)

Tags = Mapping[str, str]
Fields = Mapping[str, object]
_FIXED = frozenset({"id", "tags", "title", "text", "score", "severity_rank", "lasted_s"})


def finding_of(tags: Tags, time_ns: int, fields: Fields) -> Finding | None:
    """Return a finding; its evidence has no units."""
    node = tags.get("node", "")
    entity_id = fleet_id(node, tags.get("entity_kind", ""), tags.get("entity", ""))
    since_ns = time_ns - round((_number(fields, "lasted_s") or 0.0) * NS_PER_S)
    detector = tags.get("detector", "")
    numbers = ((name, _number(fields, name)) for name in fields if name not in _FIXED)
    try:
        return Finding(
            # Two nodes may both have a psu0, and so two findings with one id.
            id=f"{node}/{_text(fields, 'id') or f'{detector}:{entity_id}:{since_ns}'}",
            time_ns=time_ns,
            since_ns=since_ns,
            detector=detector,
            cause=Cause(tags.get("cause", "")),
            entity_id=entity_id,
            status=FindingStatus(tags.get("status", "")),
            severity=Severity(tags.get("severity", "")),
            score=_number(fields, "score") or 0.0,
            summary=_text(fields, "text"),
            evidence=tuple(Evidence(name=name, value=value, unit="") for name, value in numbers if value is not None),
        )
    except ValueError:
        return None


def incident_of(tags: Tags, time_ns: int) -> NodeIncident | None:
    """Return the state of an incident of a node."""
    node = tags.get("node", "")
    try:
        return NodeIncident(
            node=node,
            time_ns=time_ns,
            entity_id=fleet_id(node, tags.get("entity_kind", ""), tags.get("entity", "")),
            cause=Cause(tags.get("cause", "")),
            state=IncidentState(tags.get("state", "")),
        )
    except ValueError:
        return None


def event_of(tags: Tags, time_ns: int, fields: Fields) -> Event | None:
    """Return an event of a node; without an entity it is about the node."""
    code, pid = _number(fields, "code_number"), _number(fields, "pid")
    node = tags.get("node", "")
    kind = tags.get("kind", "")
    try:
        return Event(
            id=f"{node}/{_text(fields, 'id') or f'{kind}:{time_ns}'}",
            time_ns=time_ns,
            kind=EventKind(kind),
            entity_id=fleet_id(node, tags.get("entity_kind", ""), tags.get("entity", "")),
            code=None if code is None else int(code),
            severity=Severity(tags.get("severity", "")),
            message=_text(fields, "text") or kind,
            sources=tuple(part for part in _text(fields, "sources").split(", ") if part),
            pci=_text(fields, "pci") or None,
            pid=None if pid is None else int(pid),
            process=_text(fields, "process") or None,
        )
    except ValueError:
        return None


def _number(fields: Fields, name: str) -> float | None:
    value = fields.get(name)
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def _text(fields: Fields, name: str) -> str:
    value = fields.get(name)
    return value if isinstance(value, str) else ""
