"""Shared parts of all files: a strict model, text with its form, and numbers with their bounds."""

import re
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field


class FilePart(BaseModel):
    """A group of keys in a file; an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def written_as(pattern: str, expected: str) -> AfterValidator:
    """Accept text that matches as a whole; anything else is refused with `expected`."""
    form = re.compile(pattern)

    def check(text: str) -> str:
        if form.fullmatch(text) is None:
            raise ValueError(expected)
        return text

    return AfterValidator(check)


Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1)]
Name = Annotated[str, written_as("[a-z0-9][a-z0-9-]*", "small letters, digits and hyphens, such as my-node")]
