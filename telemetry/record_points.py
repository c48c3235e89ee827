"""Points of records in the store: a measurement, tags to filter by, and fields that annotations show."""

from collections.abc import Callable, Mapping

from telemetry.command_events import event_of_command
from telemetry.commands import Command
from telemetry.records import Action, Decision, Event, Finding, Incident, Outcome, Record, Severity

_NS_PER_S = 1e9

Fields = Mapping[str, float | str | None]


def record_point(record: Record) -> tuple[str, dict[str, str], Fields]:
    """Return measurement, tags and fields of a record.

    Every record has the fields ``id``, ``title``, ``text`` and ``tags`` (its tags in one text, for annotations). All
    numbers are floats; None is left out.
    """
    measurement, tags, fields = _POINTS[type(record)](record)
    labels = ", ".join(value for key, value in tags.items() if key != "entity" and value)
    return measurement, tags, {"id": record.id, "tags": labels} | dict(fields)


def _entity_tags(entity_id: str | None) -> dict[str, str]:
    kind, _, key = (entity_id or "").partition(":")
    return {"entity_kind": kind, "entity": key}


def _rank(severity: Severity) -> float:
    return float(severity.rank)


def _event(record: Event) -> tuple[str, dict[str, str], Fields]:
    title = f"{record.kind} {record.code}" if record.code is not None else str(record.kind)
    tags = {"kind": str(record.kind), "severity": str(record.severity), **_entity_tags(record.entity_id)}
    return (
        "event",
        tags | ({} if record.code is None else {"code": str(record.code)}),
        {
            "title": title,
            "text": record.message,
            "code_number": _number(record.code),
            "severity_rank": _rank(record.severity),
            "pci": record.pci,
            "pid": _number(record.pid),
            "process": record.process,
            "sources": ", ".join(record.sources),
        },
    )


def _finding(record: Finding) -> tuple[str, dict[str, str], Fields]:
    fixed: dict[str, float | str | None] = {
        "title": f"{record.cause} {record.status}",
        "text": record.summary,
        "score": record.score,
        "severity_rank": _rank(record.severity),
        "lasted_s": (record.time_ns - record.since_ns) / _NS_PER_S,
    }
    tags = {
        "detector": record.detector,
        "cause": str(record.cause),
        "status": str(record.status),
        "severity": str(record.severity),
        **_entity_tags(record.entity_id),
    }
    return "finding", tags, {item.name: float(item.value) for item in record.evidence} | fixed


def _incident(record: Incident) -> tuple[str, dict[str, str], Fields]:
    tags = {
        "cause": str(record.cause),
        "state": str(record.state),
        "severity": str(record.severity),
        **_entity_tags(record.entity_id),
    }
    return (
        "incident",
        tags,
        {
            "title": f"{record.cause} {record.state}",
            "text": record.text,
            "severity_rank": _rank(record.severity),
            "impact_gpu_hours": float(record.impact_gpu_hours),
            "affected": ", ".join(record.affected),
            "affected_count": float(len(record.affected)),
            "open_s": ((record.closed_ns or record.time_ns) - record.opened_ns) / _NS_PER_S,
        },
    )


def _decision(record: Decision) -> tuple[str, dict[str, str], Fields]:
    tags = {
        "rule": record.rule,
        "action": record.action,
        "verdict": str(record.verdict),
        "mode": str(record.mode),
    }
    return (
        "decision",
        tags,
        {
            "title": f"{record.action} {record.verdict}",
            "text": record.reason,
            "incident_id": record.incident_id,
            "targets": ", ".join(record.targets),
            "clock_mhz": _number(record.clock_mhz),
            "lease_s": _number(record.lease_s),
        },
    )


def _action(record: Action) -> tuple[str, dict[str, str], Fields]:
    tags = {
        "knob": record.knob,
        "state": str(record.state),
        "mode": str(record.mode),
        "owner": record.owner,
        **_entity_tags(record.entity_id),
    }
    lease_ns = record.lease_until_ns
    return (
        "action",
        tags,
        {
            "title": f"{record.knob} {record.state}",
            "text": record.reason,
            "incident_id": record.incident_id,
            "decision_id": record.decision_id,
            "unit": record.unit,
            "found": _number(record.found),
            "wanted": _number(record.wanted),
            "read_back": _number(record.read_back),
            "lease_left_s": None if lease_ns is None else (lease_ns - record.time_ns) / _NS_PER_S,
        },
    )


def _outcome(record: Outcome) -> tuple[str, dict[str, str], Fields]:
    helped = {True: "helped", False: "did not help", None: "unknown whether it helped"}[record.helped]
    return (
        "outcome",
        {"measure": record.measure},
        {
            "title": helped,
            "text": record.summary,
            "incident_id": record.incident_id,
            "decision_id": record.decision_id,
            "unit": record.unit,
            "before": _number(record.before),
            "after": _number(record.after),
            "helped": _number(record.helped),
        },
    )


def _number(value: float | None) -> float | None:
    return None if value is None else float(value)


_POINTS: dict[type[Record], Callable[..., tuple[str, dict[str, str], Fields]]] = {
    Event: _event,
    Finding: _finding,
    Incident: _incident,
    Decision: _decision,
    Action: _action,
    Command: lambda record: _event(event_of_command(record)),
    Outcome: _outcome,
}
