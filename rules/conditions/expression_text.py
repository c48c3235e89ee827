"""Conditions written as CEL text, which earlier releases read: refused with what to write instead."""

import re
from typing import Any

import yaml

from rules.conditions.facts import NODE_SECTIONS, NUMBERS
from telemetry.records import Severity

_PATH = r"(?:incident\.)?([a-z_.]+)"
_TEXT = re.compile(rf"^{_PATH}\s*==\s*['\"]([^'\"]*)['\"]$")
_TEXTS = re.compile(rf"^{_PATH}\s+in\s+\[([^\]]*)\]$")
_NUMBER = re.compile(rf"^{_PATH}\s*(==|<=|>=|<|>)\s*(-?[\d.]+)$")
_RANK = "severity_rank"
_EXAMPLE = "{cause: supply_sag, numbers: {minimum_v: '< 11.4'}}"


def refuse_expression(value: object) -> object:
    """Return anything but a text unchanged; ValueError for a text, with the mapping to write instead."""
    if not isinstance(value, str):
        return value
    data = converted(value)
    if data is None:
        raise ValueError(f"a mapping such as {_EXAMPLE}; conditions are no longer expressions")
    text = yaml.safe_dump(data, default_flow_style=True, sort_keys=False, width=10_000).strip()
    raise ValueError(f"a mapping, as conditions are no longer expressions: when: {text}")


def converted(text: str) -> dict[str, Any] | None:
    """Return an expression as a mapping; None unless it only compares facts with constants, joined by && and ||."""
    alternatives = [_conjunction(part) for part in text.split("||")]
    known = [item for item in alternatives if item is not None]
    if len(known) < len(alternatives):
        return None
    return known[0] if len(known) == 1 else {"any": known}


def _conjunction(text: str) -> dict[str, Any] | None:
    found: dict[str, Any] = {}
    for part in text.split("&&"):
        atom = _atom(part.strip())
        if atom is None:
            return None
        path, value = atom
        head, _, name = path.rpartition(".")
        if head not in ("", NUMBERS, *NODE_SECTIONS):
            return None
        section = found.setdefault(head, {}) if head else found
        if name in section:
            return None
        section[name] = value
    return found


def _atom(text: str) -> tuple[str, Any] | None:
    if match := _TEXT.match(text):
        return match[1], match[2]
    if match := _TEXTS.match(text):
        return match[1], [item.strip().strip("'\"") for item in match[2].split(",")]
    match = _NUMBER.match(text)
    if match is None:
        return None
    path, operator, number = match.groups()
    if path != _RANK:
        return path, f"{operator} {number}"
    named = [item.value for item in Severity if operator == ">=" and item.rank == float(number)]
    return ("severity", f"{named[0]}+") if named else None
