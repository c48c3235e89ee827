"""Base of every section of the configuration, and types that several sections use."""

import re
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict


class Section(BaseModel):
    """Base of every section: unknown keys are refused, values do not change after loading."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def at_least(least: float, text: str) -> AfterValidator:
    """Return a check of a duration or a size against its minimum; `text` is the minimum as people write it."""

    def check(value: float) -> float:
        if value < least:
            raise ValueError(f"at least {text}")
        return value

    return AfterValidator(check)


def web_url(text: str) -> str:
    """Return an HTTP address without its last slash; ValueError if it is none."""
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("an address such as http://127.0.0.1:8086")
    return text.rstrip("/")


def matching(pattern: str, expected: str) -> AfterValidator:
    """Return a check of a text against a pattern; an empty text passes."""

    def check(text: str) -> str:
        if text and not re.fullmatch(pattern, text):
            raise ValueError(expected)
        return text

    return AfterValidator(check)


# Neither a host name nor an IPv4 or IPv6 address has a space, /, @ or bracket; one colon separates a port.
Host = Annotated[
    str, matching(r"(?![^:]*:\d*$)[^\s/@\[\]]+", "a host name or an address, without scheme, port and path")
]
VariableName = Annotated[
    str, matching(r"[A-Za-z_][A-Za-z0-9_]*", "the name of an environment variable: letters, digits and _")
]
UserPath = Annotated[Path, AfterValidator(Path.expanduser)]
