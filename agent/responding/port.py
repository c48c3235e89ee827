"""Ports of the actuators outside the GPU.

A `Switch` is on or off for one target and can be taken back: a drain, a taint. A `Message` cannot be taken back: a
notification, a program, a request. Both raise the errors of `telemetry.errors`: `TransientError` if a retry may
help, `NotSupportedError`, `NotPermittedError` and `ActionRefusedError` if it will not.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, runtime_checkable

from telemetry.errors import ActionRefusedError
from telemetry.records import Decision, Incident


class SwitchOwner(StrEnum):
    """Owner of a switch that is on."""

    FREE = "free"
    OURS = "ours"
    OTHERS = "others"


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchState:
    """State of a switch, with a summary for the journal.

    `token` marks a switch as ours; None if there is no mark, or if the switch cannot carry one.
    """

    held: SwitchOwner
    summary: str
    token: str | None = None


def require_ours(standing: SwitchState, token: str, name: str) -> None:
    """Check before a release that a switch carries our mark with the token; ActionRefusedError where it does not."""
    if standing.held is not SwitchOwner.OURS or standing.token != token:
        raise ActionRefusedError(f"{name} is {standing.summary}; left as is")


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageRequest:
    """Message to send. `recovery` marks the end of the incident; `token` is the same for every attempt."""

    decision: Decision
    incident: Incident | None
    recovery: bool
    token: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """Result of a message; `done` is False if it was delivered and the answer was no."""

    summary: str
    done: bool = True


class Switch(Protocol):
    """Switch that is on or off for one target; reversible."""

    name: str

    def read(self, target: str) -> SwitchState:
        """Return the state of the switch of that target."""
        ...

    def engage(self, target: str, *, token: str, reason: str) -> None:
        """Switch it on, marked with the token."""
        ...

    def release(self, target: str, *, token: str) -> None:
        """Switch off what is marked with the token, and nothing else."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictionProgress:
    """Remaining work at a target that is being evicted; `waits` if another look is worthwhile."""

    left: tuple[str, ...]
    waits: bool


@runtime_checkable
class EvictingSwitch(Protocol):
    """Switch that, once it is on, also evicts what runs at its target: one look per call, so that it never blocks."""

    empty_within_s: float

    def empty(self, target: str) -> EvictionProgress:
        """Request the end of what runs there, as far as allowed now; return what is left."""
        ...


class Message(Protocol):
    """Message or request that is not reversible."""

    name: str

    def send(self, order: MessageRequest) -> Receipt:
        """Send it and return the result."""
        ...


@runtime_checkable
class CheckableMessage(Protocol):
    """Message that can be checked before it is sent, and instead of it in a dry run."""

    def check(self, order: MessageRequest) -> str:
        """Return what `send` would do, without doing it; raise if `send` would refuse."""
        ...
