"""The newest actions of an actuator, numbered, for those who follow it through its socket."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from telemetry.records import Action

# Heuristic: 64 GPUs that are capped, loosened in steps and released within the seconds between two questions.
KEPT = 1024
# In one answer, which so stays below what the server keeps for somebody who reads slowly. Heuristic.
BATCH_MAX = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentBatch:
    """The actions since a number, and the number to ask from next."""

    number: int
    actions: tuple[Action, ...]


class RecentActions:
    """Hands every action on and keeps the newest.

    Numbers begin at `first_number`: taken from the clock, they go on rising when the process is started again, so that
    whoever followed the one before misses nothing of this one.
    """

    def __init__(self, sink: Callable[[Action], None], *, first_number: int) -> None:
        self._sink = sink
        self._number = first_number
        self._recent: deque[tuple[int, Action]] = deque(maxlen=KEPT)

    def append(self, action: Action) -> None:
        """Take one."""
        self._number += 1
        self._recent.append((self._number, action))
        self._sink(action)

    def since(self, number: int | None) -> RecentBatch:
        """Return the first that came after a number; None asks for the number, one from the future for all."""
        if number is None:
            return RecentBatch(number=self._number, actions=())
        after = number if number <= self._number else 0
        newer = [pair for pair in self._recent if pair[0] > after][:BATCH_MAX]
        return RecentBatch(number=newer[-1][0] if newer else self._number, actions=tuple(action for _, action in newer))
