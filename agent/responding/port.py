"""The ports of what railwatch acts on outside the GPU.

A `Switch` is on or off for one target and can be taken back: a drain, a taint. A `Message` cannot be taken back: a
notification, a program, a request. Both raise the errors of `telemetry.errors`: `TransientError` where trying again
may help, `NotSupportedError`, `NotPermittedError` and `ActionRefusedError` where it will not.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, runtime_checkable

from telemetry.records import Decision, Incident


class Held(StrEnum):
    """Who holds a switch on."""

    FREE = "free"
    OURS = "ours"
    OTHERS = "others"


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchState:
    """What there is at a target now, with the words that the journal tells of it.

    `token` is what marks a switch as ours; None where nothing does, or where the switch cannot tell.
    """

    held: Held
    words: str
    token: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageRequest:
    """One message to send. `recovery` says that the trouble is over; `token` is the same whenever it is sent again."""

    decision: Decision
    incident: Incident | None
    recovery: bool
    token: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """What came of a message, in words; `done` is False where it was delivered and the answer was no."""

    words: str
    done: bool = True


class Switch(Protocol):
    """On or off for one target, and can be taken back."""

    name: str

    def read(self, target: str) -> SwitchState:
        """Return who holds the switch of that target."""
        ...

    def engage(self, target: str, *, token: str, reason: str) -> None:
        """Switch it on, marked with the token."""
        ...

    def release(self, target: str, *, token: str) -> None:
        """Switch off what is marked with the token, and nothing else."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictionProgress:
    """What is still at a target that is to be empty, in words; `waits` where it is worth to look again."""

    left: tuple[str, ...]
    waits: bool


@runtime_checkable
class EvictingSwitch(Protocol):
    """A switch that, once it is on, also has what runs at its target end: a look at a time, so that it never blocks."""

    empty_within_s: float

    def empty(self, target: str) -> EvictionProgress:
        """Ask what is there to end, as far as it may be asked now, and tell what is left."""
        ...


class Message(Protocol):
    """Something said or done once that cannot be taken back."""

    name: str

    def send(self, order: MessageRequest) -> Receipt:
        """Send it, and tell what came of it."""
        ...


@runtime_checkable
class Checked(Protocol):
    """A message that can be looked at before it is sent, and instead of it in a dry run."""

    def check(self, order: MessageRequest) -> str:
        """Return what `send` would do, and change nothing; raises where `send` would refuse."""
        ...
