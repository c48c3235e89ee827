"""Types of value in a policy file, each with its bounds."""

from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, WithJsonSchema

from telemetry.durations import DurationS, format_duration

# heuristic: a day; the engine forgets what ended longer ago, and a case plays in steps of a second.
CASE_AT_MAX_S = 86_400.0
# The engines keep the end of an action for a day; a longer cooldown would end early.
COOLDOWN_MAX_S = 86_400.0
# heuristic: a week. A longer hold is no response to a symptom but a setting for an operator to make.
RELEASE_AFTER_MAX_S = 7 * 86_400.0
# heuristic: no part's boost clock comes near it, so that a cap above it would cap nothing.
CLOCK_MAX_MHZ = 4000
CLOSED = ConfigDict(frozen=True, extra="forbid")
_ID_CHARACTERS = "abcdefghijklmnopqrstuvwxyz0123456789-"


def _check_id(text: str) -> str:
    if not text or len(text) > 64 or set(text) - set(_ID_CHARACTERS) or any(not part for part in text.split("-")):
        raise ValueError("lower-case words joined by hyphens, such as supply-sag-clock-cap")
    return text


def _check_text(text: str) -> str:
    if not text.strip():
        raise ValueError("a sentence, not empty")
    return text.strip()


def as_list(value: object) -> object:
    """Return one value as a list of it."""
    return value if isinstance(value, list | tuple) else [value]


def _duration(*, above_zero: bool) -> WithJsonSchema:
    return WithJsonSchema(
        {
            "type": "string",
            "pattern": r"^\s*\d+(\.\d+)?\s*(ms|s|m|h|d)\s*$",
            "description": "a duration with its unit" + (", above zero" if above_zero else ""),
        }
    )


def at_most(most_s: float) -> AfterValidator:
    """Refuse a longer duration, in the unit in which people write it."""

    def check(value_s: float) -> float:
        if value_s > most_s:
            raise ValueError(f"{format_duration(most_s)} at most")
        return value_s

    return AfterValidator(check)


Duration = Annotated[DurationS, _duration(above_zero=False)]
PositiveDuration = Annotated[DurationS, Field(gt=0), _duration(above_zero=True)]
Finite = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Share = Annotated[Finite, Field(ge=0, le=1)]
Sentence = Annotated[str, AfterValidator(_check_text)]
Sentences = Annotated[tuple[Sentence, ...], BeforeValidator(as_list, json_schema_input_type=str | tuple[str, ...])]
PolicyId = Annotated[str, AfterValidator(_check_id)]
# 60 V covers the 48 V bus bars of OCP Open Rack v3; nothing that railwatch reads lies above.
Volt = Annotated[Finite, Field(gt=0, le=60)]
# Boards shut themselves off well below the upper end: 90 C on a V100 SXM2 (nvidia-smi -q).
Celsius = Annotated[Finite, Field(ge=20, le=110)]
Watt = Annotated[Finite, Field(gt=0, le=5000)]
Count = Annotated[int, Field(strict=True, ge=1, le=64)]
