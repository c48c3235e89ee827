"""JSON form of the records: `to_json` returns it, `from_json` reads it, also as earlier versions wrote it."""

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from pydantic import TypeAdapter

from telemetry.clock import iso_utc
from telemetry.commands import Command
from telemetry.earlier_records import SETTING_FIELDS, present_form
from telemetry.records import Action, Decision, Event, Finding, Incident, Outcome, Record

# Keys of the JSON form that are not fields of the record.
_HEAD = ("time", "type", "simulated")
RECORD_TYPES: dict[str, type[Record]] = {
    "event": Event, "finding": Finding, "incident": Incident, "command": Command, "decision": Decision,
    "action": Action, "outcome": Outcome,
}  # fmt: skip
# Keys of the JSON form that follow from the fields, and their types.
DERIVED_KEYS: dict[type[Any], Mapping[str, Any]] = {
    Command: {"message": str},
    Decision: dict.fromkeys(SETTING_FIELDS.values(), float | None),
    Action: {"ahead_of": str | None},
}
# Fields without an absent value; where one is NaN, JSON has null (`telemetry.json_text`).
_ALWAYS_NUMBERS = frozenset({"value", "score", "probability", "impact_gpu_hours"})
_TYPE_NAMES = {record_type: name for name, record_type in RECORD_TYPES.items()}
_ADAPTERS: dict[str, TypeAdapter[Any]] = {name: TypeAdapter(kind) for name, kind in RECORD_TYPES.items()}


def to_json(record: Record, *, simulated: bool | None = None) -> dict[str, Any]:
    """Return a record as JSON types: ``time`` in ISO 8601, ``type``, ``simulated`` if known, and all fields by name."""
    head: dict[str, Any] = {"time": iso_utc(record.time_ns), "type": _TYPE_NAMES[type(record)]}
    if simulated is not None:
        head["simulated"] = simulated
    return {**head, **asdict(record), **{key: getattr(record, key) for key in DERIVED_KEYS.get(type(record), ())}}


def from_json(fields: Mapping[str, Any]) -> Record:
    """Read the output of `to_json`, also of an earlier version; ValueError where a type or field is unknown."""
    present = present_form(fields)
    name = present.get("type")
    if name not in _ADAPTERS:
        raise ValueError(f"unknown record type {name!r}: expected one of {', '.join(RECORD_TYPES)}")
    derived = DERIVED_KEYS.get(RECORD_TYPES[name], {})
    own = {key: _with_numbers(value, key) for key, value in present.items() if key not in _HEAD and key not in derived}
    record: Record = _ADAPTERS[name].validate_python(own)
    return record


def _with_numbers(value: Any, key: str) -> Any:
    """Return a value with NaN where a field that is always a number was written as null."""
    if value is None:
        return math.nan if key in _ALWAYS_NUMBERS else None
    if isinstance(value, Mapping):
        return {name: _with_numbers(item, name) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_with_numbers(item, "") for item in value]
    return value
