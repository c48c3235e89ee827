"""Errors, named by what the caller must do.

::

    RailwatchError
    ├── ConfigError          stop at start: the configuration is invalid (exit status 2)
    ├── EnvironmentLacksError stop at start: the machine lacks a resource that is named (exit status 3)
    ├── TransientError       retry at the next tick
    ├── NotSupportedError    stop reading: the device does not support it
    ├── NotPermittedError    disable what needed the permission
    ├── DeviceLostError      take the device out
    └── ActionRefusedError   nothing was changed
"""

from collections.abc import Sequence
from dataclasses import dataclass


class RailwatchError(Exception):
    """Base class of the errors of railwatch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Error in a file, option or environment variable of a user.

    `where` is the file, the option or the environment variable; `line` counts from 1 and is None where there are no
    lines; `key` is empty where `where` suffices.
    """

    where: str
    line: int | None = None
    key: str = ""
    found: str
    expected: str

    def __str__(self) -> str:
        place = self.where if self.line is None else f"{self.where}:{self.line}"
        key = f"{self.key}: " if self.key else ""
        return f"{place}: {key}{self.found}; expected {self.expected}"


class ConfigError(RailwatchError):
    """Invalid configuration or option; carries every problem at once."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))

    @classmethod
    def at(cls, where: object, found: str, expected: str, *, key: str = "", line: int | None = None) -> "ConfigError":
        """Return the error with one problem."""
        return cls([Problem(where=str(where), line=line, key=key, found=found, expected=expected)])


class EnvironmentLacksError(RailwatchError):
    """The machine lacks a resource that the message names: a port, a directory, a library."""


class TransientError(RailwatchError):
    """Failure that may not occur at the next tick."""


class NotSupportedError(RailwatchError):
    """The device or driver does not support this; do not retry."""


class NotPermittedError(RailwatchError):
    """The device supports it, but this process may not use it."""


class DeviceLostError(RailwatchError):
    """The device no longer responds on its bus."""


class ActionRefusedError(RailwatchError):
    """Action that was not carried out; nothing was changed."""
