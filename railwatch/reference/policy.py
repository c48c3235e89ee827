"""Generated parts of the policy reference: keys, the facts that a condition may read, and the evidence."""

import re
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

from rules.conditions.facts import FACTS, NUMBERS, Fact, FactType
from rules.policy.document import policy_schema
from telemetry.quantities import EVIDENCE

_BLOCK = re.compile(r"<!-- generated: (\w+) -->\n.*?<!-- end -->", re.DOTALL)
# A fact with more values than this is listed by their number.
_VALUES_MAX = 6


def policy_markdown(page: str) -> str:
    """Return the page with its generated blocks replaced; ValueError if a block is unknown or missing."""
    blocks: Mapping[str, list[str]] = {
        "then": _keys("ThenDocument", "then."),
        "cases": _keys("CaseDocument", ""),
        "facts": _facts(),
        "evidence": _evidence(),
    }
    named = set(_BLOCK.findall(page))
    if named != set(blocks):
        raise ValueError(f"the blocks {', '.join(sorted(blocks))}, not {', '.join(sorted(named)) or 'none'}")

    def block(match: re.Match[str]) -> str:
        return "\n".join([f"<!-- generated: {match[1]} -->", "", *blocks[match[1]], "", "<!-- end -->"])

    return _BLOCK.sub(block, page)


def _facts() -> list[str]:
    rows = [
        f"| `{name}` | {_values(fact)} | {fact.meaning} | {fact.absent_when or 'never'} |"
        for name, fact in FACTS.items()
    ]
    return ["| name | value | meaning | absent |", "| --- | --- | --- | --- |", *rows]


def _values(fact: Fact) -> str:
    if fact.values is not None and len(fact.values) <= _VALUES_MAX:
        return ", ".join(f"`{value}`" for value in fact.values)
    if fact.values is not None:
        return f"{fact.type.value}: one of {len(fact.values)}"
    if fact.type not in (FactType.WHOLE, FactType.NUMBER):
        return fact.type.value
    low, high = fact.low, fact.high
    bounds = f", {low:g} to {high:g}" if high < float("inf") else f", {low:g} or more" if low > float("-inf") else ""
    return f"{fact.type.value}{bounds}"


def _evidence() -> list[str]:
    lines = ["| unit | keys of `" + NUMBERS + "` |", "| --- | --- |"]
    for unit, names in groupby(sorted(EVIDENCE, key=lambda name: (EVIDENCE[name], name)), key=EVIDENCE.__getitem__):
        lines.append(f"| {unit or 'a count, a code or a pure number'} | {', '.join(f'`{name}`' for name in names)} |")
    return lines


def _keys(section: str, prefix: str) -> list[str]:
    """Return a table of every key of a section and of its subsections, from the schema of policy files."""
    schema = policy_schema()["$defs"]
    rows = [
        f"| `{name}` | {value} | {meaning} | {default} |"
        for name, value, meaning, default in _rows(schema, section, prefix)
    ]
    return ["| key | value | meaning | default |", "| --- | --- | --- | --- |", *rows]


def _rows(schema: Mapping[str, Any], section: str, prefix: str) -> Iterator[tuple[str, str, str, str]]:
    required = schema[section].get("required", ())
    for name, key in schema[section]["properties"].items():
        options = [_resolved(option, schema) for option in key.get("anyOf", (key,))]
        inner = next((option["title"] for option in options if "properties" in option), None)
        default = key.get("default")
        default_text = "required" if name in required else "" if default in (None, {}, []) or inner else f"`{default}`"
        value = "a section" if inner else " or ".join(dict.fromkeys(text for o in options if (text := _value(o))))
        yield f"{prefix}{name}", value, key.get("description", ""), default_text
        if inner is not None:
            yield from _rows(schema, inner, f"{prefix}{name}.")


def _resolved(option: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = schema[option["$ref"].rpartition("/")[2]] if "$ref" in option else option
    return found


def _value(option: Mapping[str, Any]) -> str:
    """Return the possible values of an option, or its type with its bounds."""
    if "enum" in option:
        values = option["enum"]
        return ", ".join(f"`{value}`" for value in values) if len(values) <= 2 * _VALUES_MAX else "see conditions"
    kind = option.get("type")
    if kind == "string":
        return "duration" if "pattern" in option else "text"
    if kind not in ("integer", "number"):
        return {"object": "keys and values", "array": "a list", "null": ""}.get(str(kind), "")
    bounds = [
        f"{bound} {option[key]:g}"
        for key, bound in (
            ("minimum", "from"),
            ("exclusiveMinimum", "above"),
            ("maximum", "to"),
            ("exclusiveMaximum", "below"),
        )
        if key in option
    ]
    return " ".join(["number" if kind == "number" else "whole number", *bounds])
