"""The parts of the reference of policies that come from the code: what a condition may ask, which evidence there is."""

import re
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

from rules.conditions.facts import FACTS, NUMBERS, Fact, Type
from rules.policy.document import policy_schema
from telemetry.evidence import EVIDENCE

_BLOCK = re.compile(r"<!-- generated: (\w+) -->\n.*?<!-- end -->", re.DOTALL)
# Of a fact with more words than this, the reference tells where they are listed.
_WORDS_MAX = 6


def policy_markdown(page: str) -> str:
    """Return the page with its generated blocks written anew; ValueError where a block is not known or missing."""
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
        f"| `{name}` | {_values(fact)} | {fact.meaning} | {fact.lacks or 'never'} |" for name, fact in FACTS.items()
    ]
    return ["| name | value | meaning | absent |", "| --- | --- | --- | --- |", *rows]


def _values(fact: Fact) -> str:
    if fact.words is not None and len(fact.words) <= _WORDS_MAX:
        return ", ".join(f"`{word}`" for word in fact.words)
    if fact.words is not None:
        return f"{fact.type.value}: one of {len(fact.words)} words"
    if fact.type not in (Type.INT, Type.DOUBLE):
        return fact.type.value
    low, high = fact.low, fact.high
    bounds = f", {low:g} to {high:g}" if high < float("inf") else f", {low:g} or more" if low > float("-inf") else ""
    return f"{fact.type.value}{bounds}"


def _evidence() -> list[str]:
    lines = ["| unit | names after `" + NUMBERS + ".` |", "| --- | --- |"]
    for unit, names in groupby(sorted(EVIDENCE, key=lambda name: (EVIDENCE[name], name)), key=EVIDENCE.__getitem__):
        lines.append(f"| {unit or 'a count, a code or a pure number'} | {', '.join(f'`{name}`' for name in names)} |")
    return lines


def _keys(section: str, prefix: str) -> list[str]:
    """Return every key of a section and of those in it, from the schema of policy files."""
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
        told = "required" if name in required else "" if default in (None, {}, []) or inner else f"`{default}`"
        value = "a section" if inner else " or ".join(dict.fromkeys(text for o in options if (text := _value(o))))
        yield f"{prefix}{name}", value, key.get("description", ""), told
        if inner is not None:
            yield from _rows(schema, inner, f"{prefix}{name}.")


def _resolved(option: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = schema[option["$ref"].rpartition("/")[2]] if "$ref" in option else option
    return found


def _value(option: Mapping[str, Any]) -> str:
    """Return what may stand there: the words, or the kind of value with its bounds."""
    if "enum" in option:
        words = option["enum"]
        return ", ".join(f"`{word}`" for word in words) if len(words) <= 2 * _WORDS_MAX else "see conditions"
    kind = option.get("type")
    if kind == "string":
        return "duration" if "pattern" in option else "text"
    if kind not in ("integer", "number"):
        return {"object": "names and values", "array": "a list", "null": ""}.get(str(kind), "")
    bounds = [
        f"{words} {option[key]:g}"
        for key, words in (
            ("minimum", "from"),
            ("exclusiveMinimum", "above"),
            ("maximum", "to"),
            ("exclusiveMaximum", "below"),
        )
        if key in option
    ]
    return " ".join(["number" if kind == "number" else "whole number", *bounds])
