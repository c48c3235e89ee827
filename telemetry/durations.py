"""Durations and sizes as written in files: ``30s``, ``200ms``, ``1h``, ``64MiB``."""

import re
from typing import Annotated

from pydantic import BeforeValidator, PlainSerializer

_DURATION_S = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SIZE_BYTES = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
# heuristic: a float is exact to 15 digits; more could overflow to infinity.
_QUANTITY = re.compile(r"\s*(\d{1,15}(?:\.\d+)?)\s*([A-Za-z]+)\s*")


def parse_duration_s(text: object) -> float:
    """Parse ``90s`` and the like as seconds; ValueError where the unit is missing or unknown."""
    return _parse(text, _DURATION_S, "a duration with its unit, such as 200ms, 30s, 10m, 1h or 7d")


def parse_size_bytes(text: object) -> int:
    """Parse ``64MiB`` and the like as bytes; ValueError where the unit is missing or unknown."""
    return int(_parse(text, _SIZE_BYTES, "a size with its unit, such as 512KiB, 64MiB or 2GiB"))


def format_duration(seconds: float) -> str:
    """Return seconds as text for `parse_duration_s`, in the largest unit that keeps them whole."""
    for unit in ("d", "h", "m", "s"):
        count = seconds / _DURATION_S[unit]
        if count >= 1 and count == int(count):
            return f"{int(count)}{unit}"
    return f"{seconds * 1000:g}ms"


def format_size(size_bytes: int) -> str:
    """Return bytes as text for `parse_size_bytes`, in the largest unit that keeps them whole."""
    for unit in ("GiB", "MiB", "KiB"):
        if size_bytes and size_bytes % _SIZE_BYTES[unit] == 0:
            return f"{size_bytes // _SIZE_BYTES[unit]}{unit}"
    return f"{size_bytes}B"


def _parse(text: object, factors: dict[str, float] | dict[str, int], expected: str) -> float:
    match = _QUANTITY.fullmatch(text) if isinstance(text, str) else None
    if match is None or match[2] not in factors:
        raise ValueError(expected)
    return float(match[1]) * factors[match[2]]


DurationS = Annotated[float, BeforeValidator(parse_duration_s), PlainSerializer(format_duration)]
SizeBytes = Annotated[int, BeforeValidator(parse_size_bytes), PlainSerializer(format_size)]
