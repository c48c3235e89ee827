"""What every section of the configuration shares."""

from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict


class Section(BaseModel):
    """What every section shares: unknown keys are refused, values do not change after loading."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def at_least(least_s: float, words: str) -> AfterValidator:
    """Give a check of a duration against its least value, in the words of the message."""

    def check(value_s: float) -> float:
        if value_s < least_s:
            raise ValueError(f"at least {words}")
        return value_s

    return AfterValidator(check)


def web_url(text: str) -> str:
    """Give an address without its last slash; ValueError where it is none of the web."""
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("an address such as http://127.0.0.1:8086")
    return text.rstrip("/")


UserPath = Annotated[Path, AfterValidator(Path.expanduser)]
