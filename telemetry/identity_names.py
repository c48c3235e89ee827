"""Names and identity files of the control endpoint, for the configuration; light, since every process imports it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field


def printable(text: str) -> str:
    """Return a text without control characters, for journals and terminals."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def _is_printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("printable letters alone")
    return text


Printable = Annotated[str, AfterValidator(_is_printable)]
Name = Annotated[Printable, Field(min_length=1, max_length=200)]
FleetId = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Files of an identity: certificate, key, and the certificate of the trusted authority."""

    authority: Path
    certificate: Path
    key: Path
