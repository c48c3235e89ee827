"""What configuration has to know of control: names, and files that say who somebody is. Light, for every process."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field


def printable(text: str) -> str:
    """Return a text in which nothing but letters, signs and blanks is left: it goes to journals and to terminals."""
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
    """The files that say who somebody is: own certificate and key, and the authority that is trusted."""

    authority: Path
    certificate: Path
    key: Path
