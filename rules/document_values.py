"""The kinds of value that stand in a policy file, each with its bounds."""

from typing import Annotated

from pydantic import AfterValidator, ConfigDict, Field, WithJsonSchema

from telemetry.durations import DurationS

# own choice: a day; the engine forgets what ended longer ago, and a case plays in steps of a second.
CASE_AT_MAX_S = 86_400.0
CLOSED = ConfigDict(frozen=True, extra="forbid")


def _check_text(text: str) -> str:
    if not text.strip():
        raise ValueError("a sentence; it must not be empty")
    return text.strip()


def as_list(value: object) -> object:
    """Give one value as a list of it."""
    return value if isinstance(value, list | tuple) else [value]


def _duration(*, above_zero: bool) -> WithJsonSchema:
    return WithJsonSchema(
        {
            "type": "string",
            "pattern": r"^\s*\d+(\.\d+)?\s*(ms|s|m|h|d)\s*$",
            "description": "a duration with its unit" + (", above zero" if above_zero else ""),
        }
    )


Duration = Annotated[DurationS, _duration(above_zero=False)]
PositiveDuration = Annotated[DurationS, Field(gt=0), _duration(above_zero=True)]
Finite = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Share = Annotated[Finite, Field(ge=0, le=1)]
Sentence = Annotated[str, AfterValidator(_check_text)]
# 60 V covers the 48 V bus bars of OCP Open Rack v3; nothing that railwatch reads lies above.
Volt = Annotated[Finite, Field(gt=0, le=60)]
# Boards shut themselves off well below the upper end: 90 C on a V100 SXM2 (nvidia-smi -q).
Celsius = Annotated[Finite, Field(ge=20, le=110)]
Watt = Annotated[Finite, Field(gt=0, le=5000)]
Count = Annotated[int, Field(strict=True, ge=1, le=64)]
