"""Reference page of the records, generated from their dataclasses and enums."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from enum import StrEnum
from inspect import getdoc
from textwrap import wrap
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

from telemetry.record_json import DERIVED_KEYS, RECORD_TYPES
from telemetry.records import Evidence, Hypothesis, PathStep

WIDTH = 116
_INTRODUCTION = (
    "One record is one JSON object: a line of `railwatch up --json` and of `railwatch replay --json`, an entry of the "
    "journals, an item of an API response. Besides the fields below each carries `time` (UTC, ISO 8601), `type` and, "
    "where it is known, `simulated`. "
    "A change is a new record with the same `id` and a later `time_ns`. Fields that end in `_ns` are nanoseconds since "
    "1970 UTC; other endings name the unit. `null` (None in the descriptions) means absent: unknown, not set, or not "
    "yet."
)
_SUMMARY = (
    "`railwatch up --json` ends with one object of type `summary`: `source`, `simulated`, the count of `incidents`, "
    "`findings`, `decisions`, `actions` and `outcomes`, `caps_left` (GPUs whose cap could not be released), "
    "`records_lost` (records that could not be stored, e.g. on a full disk), `restarts` of processes and "
    "`troubles` (errors by process; empty if there were none)."
)
_JSON_NAMES: dict[Any, str] = {str: "string", int: "integer", float: "number", bool: "true or false"}


def records_markdown() -> str:
    """Return the fields of every type of record, and the values of their enums, as Markdown."""
    lines = [
        "# Record reference",
        "",
        "Generated from the record types by `make generate`; do not edit.",
        "",
        *wrap(_INTRODUCTION, WIDTH),
        "",
        *wrap(_SUMMARY, WIDTH),
    ]
    enums: dict[type[StrEnum], None] = {}
    for name, record_type in (
        *RECORD_TYPES.items(),
        ("evidence", Evidence),
        ("hypothesis", Hypothesis),
        ("pathstep", PathStep),
    ):
        lines += ["", f"## `{name}`", "", *(getdoc(record_type) or "").splitlines(), ""]
        lines += ["| field | JSON | values |", "| --- | --- | --- |"]
        hints = get_type_hints(record_type)
        for item in fields(record_type):
            json_name, found = _json_of(hints[item.name])
            enums |= dict.fromkeys(found)
            linked = ", ".join(f"[{kind.__name__}](#{kind.__name__.lower()})" for kind in found)
            lines.append(f"| `{item.name}` | {json_name} | {linked} |".replace("|  |", "| |"))
        derived = DERIVED_KEYS.get(record_type, {})
        lines += [f"| `{key}` | {_json_of(hint)[0]} | derived from the fields above |" for key, hint in derived.items()]
    for kind in enums:
        lines += ["", f"## {kind.__name__}", "", (getdoc(kind) or "").splitlines()[0], ""]
        lines += wrap(", ".join(f"`{member.value}`" for member in kind) + ".", WIDTH)
    return "\n".join(lines) + "\n"


def _json_of(hint: Any) -> tuple[str, tuple[type[StrEnum], ...]]:
    """Return the JSON type of a field, and its enums."""
    if isinstance(hint, UnionType):
        inner = [_json_of(part) for part in get_args(hint) if part is not NoneType]
        return " or ".join((*(name for name, _ in inner), "null")), tuple(_enums(inner))
    if get_origin(hint) is tuple:
        name, found = _json_of(get_args(hint)[0])
        return f"list of {name}", found
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return "string", (hint,)
    if is_dataclass(hint):
        name = getattr(hint, "__name__", "").lower()
        return f"[{name}](#{name})", ()
    return _JSON_NAMES[hint], ()


def _enums(parts: list[tuple[str, tuple[type[StrEnum], ...]]]) -> Iterator[type[StrEnum]]:
    for _, found in parts:
        yield from found
