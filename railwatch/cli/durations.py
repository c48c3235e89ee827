"""Options that take a duration, such as ``30s`` or ``10m``."""

from typing import Any

import typer

from telemetry.durations import parse_duration_s


def duration_option(about: str, *names: str) -> Any:
    """Return a typer option that is read in seconds; `about` is its help, `names` are given where they are others."""
    return typer.Option(*names, parser=seconds, metavar="DURATION", help=about)


def seconds(text: str) -> float:
    """Return the seconds of a duration of the command line; typer.BadParameter where it is none."""
    try:
        return parse_duration_s(text)
    except ValueError as err:
        raise typer.BadParameter(f"got {text!r}; expected {err}") from err
