"""The numbers of a policy, and which line of its sources names each."""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from rules.conditions.expression import Kind
from rules.policy.model import ActionClass, Policy

# Thousands may be parted, as in 1,530 or 1 530; "11, 12 and 13" are three numbers.
_NUMBER = re.compile(r"(?<![\w.])(-?(?:\d{1,3}(?:[ ,]\d{3})+|\d+)(?:\.\d+)?)(?![\w]*\d)(\s*%)?")
# A rank is an order of words, and no measure that a source would name.
_NO_MEASURE = frozenset({"incident.severity_rank"})
# The section of `then` that holds the setting of each class, and what a fixed one is called there.
_WRITTEN = {
    ActionClass.CLOCK_CAP: ("clock", "mhz"),
    ActionClass.POWER_CAP: ("power", "watts"),
    ActionClass.FAN: ("fan", "ratio"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """One number: where it stands, and the sources that name it; none where no line does."""

    key: str
    value: float
    sources: tuple[str, ...]


def thresholds_of(policy: Policy) -> tuple[Threshold, ...]:
    """Return the numbers that a policy compares with and sets, the condition's first."""
    return tuple(
        Threshold(key=key, value=value, sources=tuple(line for line in policy.source if _names(line, value)))
        for key, value in (*_asked(policy), *_set(policy))
    )


def _asked(policy: Policy) -> Iterator[tuple[str, float]]:
    for node in policy.when.tree.walk():
        if node.kind is not Kind.BINARY or len(node.parts) != 2:
            continue
        for fact, literal in (node.parts, node.parts[::-1]):
            number = isinstance(literal.value, int | float) and not isinstance(literal.value, bool)
            if literal.kind is Kind.LITERAL and number and fact.path is not None and fact.path not in _NO_MEASURE:
                yield fact.path, float(str(literal.value))


def _set(policy: Policy) -> Iterator[tuple[str, float]]:
    rule = policy.then.setting
    for name in ("hold_v", "fraction", "fixed", "hold_c", "ramp_from"):
        value = getattr(rule, name, None)
        if value is not None:
            yield setting_key(policy, name), value


def setting_key(policy: Policy, name: str) -> str:
    """Return the key under which a field of the setting stands in the file, such as ``then.clock.mhz``."""
    section, fixed = _WRITTEN[policy.then.action]
    return f"then.{section}.{fixed if name == 'fixed' else name}"


def _names(line: str, value: float) -> bool:
    for text, percent in _NUMBER.findall(line):
        try:
            found = float(text.replace(",", "").replace(" ", ""))
        except ValueError:
            continue
        if math.isclose(found / 100.0 if percent else found, value):
            return True
    return False
