"""The `when` of a policy file: its keys follow from the declared facts, and become a condition."""

import difflib
import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    RootModel,
    WithJsonSchema,
    create_model,
)

from rules.conditions.condition import (
    COMPARISON_PATTERN,
    RANGE_PATTERN,
    Condition,
    Interval,
    Requirement,
    combine,
    parse_interval,
)
from rules.conditions.facts import NODE_SECTIONS, NUMBERS, Fact, FactType, members_of
from telemetry.entities import EntityKind
from telemetry.records import Severity

_PATH = r"(?:incident\.)?([a-z_.]+)"
_TEXT = re.compile(rf"^{_PATH}\s*==\s*['\"]([^'\"]*)['\"]$")
_TEXTS = re.compile(rf"^{_PATH}\s+in\s+\[([^\]]*)\]$")
_NUMBER = re.compile(rf"^{_PATH}\s*(==|<=|>=|<|>)\s*(-?[\d.]+)$")
_RANK = "severity_rank"
_EXAMPLE = "{cause: supply_sag, numbers: {minimum_v: '< 11.4'}}"
# heuristic: a policy for more situations than this is better written as several; each pair of policies is compared.
ALTERNATIVES_MAX = 32
_CLOSED = ConfigDict(frozen=True, extra="forbid")
_COMPARISON_SCHEMA = {
    "anyOf": [
        {"type": "number"},
        {"type": "string", "pattern": COMPARISON_PATTERN},
        {"type": "string", "pattern": RANGE_PATTERN},
        {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2},
    ]
}


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


class Comparison(RootModel[Annotated[Interval, PlainValidator(parse_interval), WithJsonSchema(_COMPARISON_SCHEMA)]]):
    """Comparison with a number such as `>= 8`, a range such as `8..12` or `[8, 12]`, or one number."""


def _within(name: str, fact: Fact) -> AfterValidator:
    """Refuse a comparison that no value of the fact meets."""

    def check(value: Comparison) -> Comparison:
        if (value.root & Interval(low=fact.low, high=fact.high)).is_empty(whole=fact.whole):
            low, high = fact.low, fact.high
            bounds = f"of {low:g} or more" if high == float("inf") else f"from {low:g} to {high:g}"
            raise ValueError(f"a comparison that {name} can meet: it is a {fact.type.value} {bounds}")
        return value

    return AfterValidator(check)


def _texts(name: str, fact: Fact) -> Callable[[object], frozenset[str]]:
    """Return the parser of one text or a list of them, checked against the values that the fact can have."""

    def parse(value: object) -> frozenset[str]:
        given = value if isinstance(value, list | tuple) else [value]
        written = [item for item in given if isinstance(item, str)]
        if not written or len(written) < len(given):
            raise ValueError(f"one {name} or a list of them")
        texts = [text for item in written for text in _and_above(name, item)]
        for text in texts:
            if fact.values is not None and text not in fact.values:
                raise ValueError(_nearest(text, fact.values))
            if name == "entity_id" and text.partition(":")[0] not in tuple(EntityKind):
                raise ValueError("kind and key of an entity, such as supply:psu0")
        return frozenset(texts)

    return parse


def _and_above(name: str, text: str) -> Iterator[str]:
    """Yield a text itself; for ``warning+`` as a severity that one and those above it."""
    ranks = {item.value: item.rank for item in Severity}
    least = ranks.get(text.removesuffix("+")) if name == "severity" and text.endswith("+") else None
    if least is None:
        yield text
    else:
        yield from (value for value, rank in ranks.items() if rank >= least)


def _nearest(text: str, known: tuple[str, ...]) -> str:
    nearest = difflib.get_close_matches(text, known, n=1)
    listed = f"one of {', '.join(known)}"
    return f"{nearest[0]} instead of {text}, or {listed}" if nearest else f"{listed}, not {text}"


def _texts_schema(name: str, fact: Fact) -> dict[str, Any]:
    values = None if fact.values is None else list(fact.values)
    if values is not None and name == "severity":
        values += [f"{value}+" for value in values]
    one = {"type": "string"} if values is None else {"enum": values}
    return {"anyOf": [one, {"type": "array", "items": one, "minItems": 1}]}


def _truth(value: object) -> frozenset[bool]:
    if not isinstance(value, bool):
        raise ValueError("true or false")  # noqa: TRY004 -- pydantic reports a ValueError only
    return frozenset({value})


def _field(name: str, fact: Fact) -> tuple[Any, Any]:
    kind: Any
    match fact.type:
        case FactType.TEXT:
            schema = WithJsonSchema(_texts_schema(name, fact))
            kind = Annotated[frozenset[str], PlainValidator(_texts(name, fact)), schema]
        case FactType.BOOL:
            kind = Annotated[frozenset[bool], PlainValidator(_truth), WithJsonSchema({"type": "boolean"})]
        case _:
            kind = Annotated[Comparison, _within(name, fact)]
    return kind, Field(default=None, description=fact.meaning or None)


def _section(title: str, section: str, **more: Any) -> type[BaseModel]:
    fields: dict[str, Any] = {name: _field(name, fact) for name, fact in members_of(section).items()}
    return create_model(title, __config__=_CLOSED, **fields, **more)


_SECTIONS: dict[str, Any] = {
    name: (_section(f"{name.capitalize()}Document", name), Field(default=None, description=description))
    for name, description in {
        NUMBERS: "newest value of each piece of evidence",
        **dict.fromkeys(NODE_SECTIONS),
    }.items()
}
_Alternative = _section("AlternativeDocument", "", **_SECTIONS)
if TYPE_CHECKING:
    WhenDocument = BaseModel
else:
    _listed = Field(
        default=None, min_length=1, max_length=ALTERNATIVES_MAX, description="alternatives: one must be met"
    )
    WhenDocument = _section("WhenDocument", "", **_SECTIONS, any=(tuple[_Alternative, ...], _listed))


def condition_of(document: BaseModel) -> Condition:
    """Return the condition of a checked document; ValueError if an alternative contradicts the keys beside `any`."""
    common = dict(_requirements(document))
    alternatives = getattr(document, "any", None)
    if alternatives is None:
        return Condition(alternatives=(common,))
    combined = []
    for place, item in enumerate(alternatives):
        both = combine(common, dict(_requirements(item)))
        if both is None:
            raise ValueError(f"alternatives that agree with the keys beside 'any'; any[{place}] contradicts them")
        combined.append(both)
    return Condition(alternatives=tuple(combined))


def parse_condition(data: Mapping[str, Any]) -> Condition:
    """Return the condition that plain data describe, as the `when` of a policy file does."""
    return condition_of(WhenDocument.model_validate(data))


def _checked(document: BaseModel) -> BaseModel:
    condition_of(document)
    return document


WhenField = Annotated[WhenDocument, BeforeValidator(refuse_expression), AfterValidator(_checked)]


def _requirements(document: BaseModel, section: str = "") -> Iterator[tuple[str, Requirement]]:
    for name in type(document).model_fields:
        value = getattr(document, name)
        if isinstance(value, Comparison):
            yield f"{section}{name}", value.root
        elif isinstance(value, frozenset):
            yield f"{section}{name}", value
        elif isinstance(value, BaseModel):
            yield from _requirements(value, f"{section}{name}.")
