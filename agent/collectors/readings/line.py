"""Parser of lines that other programs send: a subset of InfluxDB's line protocol.

``kind,key=KEY[,name=NAME] signal=value[,signal=value...] [time]``, with the time in nanoseconds since 1970 UTC. Syntax
and escapes are those of the line protocol reference (docs.influxdata.com), and several spaces count as one;
strings and booleans are not supported, since every signal is a number.
"""

import difflib
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from telemetry.entities import EntityKind
from telemetry.signals import Signal, signals_of

# Kinds that other programs may send. GPUs and links are read from their drivers.
KINDS = (EntityKind.NODE, EntityKind.SUPPLY, EntityKind.FAN, EntityKind.JOB)
# heuristic: every signal of a supply with room to spare.
MAX_LINE_BYTES = 4096
_MAX_KEY_CHARS = 128
_SHAPE = "KIND,key=KEY SIGNAL=VALUE[,SIGNAL=VALUE] [TIME_NS]"
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?[iu]?")
_TIME = re.compile(r"\d{1,19}")
_SPACE, _COMMA, _EQUALS = (re.compile(rf"(?<!\\){mark}") for mark in (" +", ",", "="))
_ESCAPED = re.compile(r"\\([ ,=\\])")


class LineRefusedError(ValueError):
    """A refused line; the message is the reason, on one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SentReading:
    """Values of one line; `time_ns` is None where it has no time of its own."""

    kind: EntityKind
    key: str
    name: str
    values: tuple[tuple[str, float], ...]
    time_ns: int | None


def parse_line(line: bytes, *, node: str) -> SentReading:
    """Parse one line, without its end; `node` is the key of this node, which its own lines need not name.

    LineRefusedError where it is malformed; the message has the reason and what was expected.
    """
    if len(line) > MAX_LINE_BYTES:
        raise LineRefusedError(f"{len(line)} bytes; expected at most {MAX_LINE_BYTES}")
    try:
        text = line.decode("utf-8").strip(" \r\0")
    except UnicodeDecodeError as err:
        raise LineRefusedError("the line is not UTF-8 text") from err
    parts = _SPACE.split(text)
    if len(parts) not in (2, 3):
        raise LineRefusedError(f"{_shown(text)}: expected {_SHAPE}")
    kind, tags = _entity(parts[0])
    key = tags.get("key", node if kind is EntityKind.NODE else "")
    if not key:
        raise LineRefusedError(f"{_shown(parts[0])}: the key is missing; expected {kind},key=KEY")
    if kind is EntityKind.NODE and key != node:
        raise LineRefusedError(f"node {_shown(key)}: this node is {node}")
    return SentReading(
        kind=kind,
        key=key,
        name=tags.get("name", key),
        values=_values(kind, parts[1]),
        time_ns=_time_ns(parts[2]) if len(parts) == 3 else None,
    )


def _entity(text: str) -> tuple[EntityKind, dict[str, str]]:
    label, *pairs = _COMMA.split(text)
    kind = next((kind for kind in KINDS if kind.value == label), None)
    if kind is None:
        raise LineRefusedError(f"{_shown(label)} is not a kind; expected one of {', '.join(KINDS)}")
    tags: dict[str, str] = {}
    for pair in pairs:
        name, value = _pair(pair)
        if name not in ("key", "name"):
            raise LineRefusedError(f"tag {_shown(name)} is unknown; expected key or name")
        value = _ESCAPED.sub(r"\1", value)
        if name in tags:
            raise LineRefusedError(f"{name} appears twice")
        if len(value) > _MAX_KEY_CHARS:
            raise LineRefusedError(
                f"{name}={_shown(value)}: {len(value)} characters; expected at most {_MAX_KEY_CHARS}"
            )
        if not value.isprintable():
            raise LineRefusedError(f"{name}={_shown(value)}: expected printable characters")
        tags[name] = value
    return kind, tags


def _values(kind: EntityKind, text: str) -> tuple[tuple[str, float], ...]:
    known = _signals(kind)
    values: dict[str, float] = {}
    for pair in _COMMA.split(text):
        name, value = _pair(pair)
        if name not in known:
            raise LineRefusedError(f"{_shown(name)} is not a signal of a {kind}; {_nearest(name, known)}")
        number = float(value.rstrip("iu")) if _NUMBER.fullmatch(value) else math.nan
        if not math.isfinite(number):
            raise LineRefusedError(f"{name}={_shown(value)}: expected a number")
        if not known[name].is_plausible(number):
            raise LineRefusedError(f"{name}={_shown(value)}: expected {known[name].range_text}")
        if name in values:
            raise LineRefusedError(f"{name} appears twice")
        values[name] = number
    return tuple(values.items())


def _pair(text: str) -> tuple[str, str]:
    name, *value = _EQUALS.split(text, 1)
    if not name or not value or not value[0]:
        raise LineRefusedError(f"{_shown(text)}: expected NAME=VALUE")
    return name, value[0]


def _time_ns(text: str) -> int:
    if not _TIME.fullmatch(text):
        raise LineRefusedError(f"{_shown(text)} is not a time; expected nanoseconds since 1970 UTC")
    return int(text)


@lru_cache(maxsize=len(KINDS))
def _signals(kind: EntityKind) -> Mapping[str, Signal]:
    return {signal.name: signal for signal in signals_of(kind)}


def _nearest(name: str, known: Mapping[str, Signal]) -> str:
    nearest = difflib.get_close_matches(name[:_MAX_KEY_CHARS], sorted(known), n=1)
    return f"perhaps {nearest[0]}" if nearest else "docs/reference/signals.md lists them"


def _shown(text: str) -> str:
    return repr(text if len(text) <= 40 else f"{text[:40]}...")
