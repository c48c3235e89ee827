"""Numbers of a policy, and the lines of its sources that name each."""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from rules.conditions.condition import Interval
from rules.policy.model import ActionClass, Policy

# Thousands may be separated, as in 1,530 or 1 530; "11, 12 and 13" are three numbers.
_NUMBER = re.compile(r"(?<![\w.])(-?(?:\d{1,3}(?:[ ,]\d{3})+|\d+)(?:\.\d+)?)(?![\w]*\d)(\s*%)?")
# The section of `then` that holds the setting of each class, and what a fixed one is called there.
_WRITTEN = {
    ActionClass.CLOCK_CAP: ("clock", "mhz"),
    ActionClass.POWER_CAP: ("power", "watts"),
    ActionClass.FAN: ("fan", "ratio"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """Number of a policy: its key, and the lines of the source that name it."""

    key: str
    value: float
    sources: tuple[str, ...]


def thresholds_of(policy: Policy) -> tuple[Threshold, ...]:
    """Return the numbers that a policy compares with and sets, those of the condition first."""
    return tuple(
        Threshold(key=key, value=value, sources=tuple(line for line in policy.source if _names(line, value)))
        for key, value in (*_compared(policy), *_set(policy))
    )


def _compared(policy: Policy) -> Iterator[tuple[str, float]]:
    for alternative in policy.when.alternatives:
        for path, requirement in alternative.items():
            if isinstance(requirement, Interval):
                yield from ((f"when.{path}", end) for end in requirement.ends)


def _set(policy: Policy) -> Iterator[tuple[str, float]]:
    rule = policy.then.setting
    for name in ("hold_v", "fraction", "fixed", "hold_c", "ramp_from"):
        value = getattr(rule, name, None)
        if value is not None:
            yield setting_key(policy, name), value


def setting_key(policy: Policy, name: str) -> str:
    """Return the key of a field of the setting in the file, such as ``then.clock.mhz``."""
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
