"""Errors named by what the caller must do about them.

::

    RailwatchError
    ├── ConfigError          stop at start: what the user wrote cannot be used (exit status 2)
    ├── EnvironmentLacksError stop at start: the machine lacks something that is named (exit status 3)
    ├── TransientError       try again at the next tick
    ├── NotSupportedError    stop asking: the device will never answer this
    ├── NotPermittedError    disable what needed the permission
    ├── DeviceLostError      take the device out
    └── ActionRefusedError   nothing was changed
"""

from collections.abc import Sequence
from dataclasses import dataclass


class RailwatchError(Exception):
    """Anything railwatch raises on purpose."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing that is wrong in what a user wrote.

    `where` is the file, the option or the environment variable; `line` counts from 1 and is None where there are no
    lines; `key` is empty where `where` says it all.
    """

    where: str
    line: int | None
    key: str
    found: str
    expected: str

    def __str__(self) -> str:
        place = self.where if self.line is None else f"{self.where}:{self.line}"
        key = f"{self.key}: " if self.key else ""
        return f"{place}: {key}{self.found}; expected {self.expected}"


class ConfigError(RailwatchError):
    """What the user wrote cannot be used; carries every problem at once, not the first."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class EnvironmentLacksError(RailwatchError):
    """The machine lacks something that the message names: a port, a directory, a library."""


class TransientError(RailwatchError):
    """It failed now and may work at the next tick."""


class NotSupportedError(RailwatchError):
    """The device or driver does not have this; asking again is a waste."""


class NotPermittedError(RailwatchError):
    """The device has it and this process may not use it."""


class DeviceLostError(RailwatchError):
    """The device no longer answers on its bus."""


class ActionRefusedError(RailwatchError):
    """An action was not carried out, and nothing was changed."""
