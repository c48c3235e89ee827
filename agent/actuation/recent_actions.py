"""Newest actions of an actuator, numbered, for clients that follow it through its socket."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from telemetry.records import Action

# heuristic: 64 GPUs that are capped, relaxed in steps and released within the seconds between two queries.
KEPT = 1024
# heuristic: actions in one reply, so that it stays below the server's limit for a client that reads slowly.
BATCH_MAX = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentBatch:
    """Actions since a number, and the number for the next query."""

    number: int
    actions: tuple[Action, ...]


class RecentActions:
    """Buffer of the newest actions; every action is passed on to a sink.

    Numbers begin at `first_number`, taken from the clock: they keep rising over a restart of the process, so that a
    client misses nothing.
    """

    def __init__(self, sink: Callable[[Action], None], *, first_number: int) -> None:
        self._sink = sink
        self._number = first_number
        self._recent: deque[tuple[int, Action]] = deque(maxlen=KEPT)

    def append(self, action: Action) -> None:
        """Append one action."""
        self._number += 1
        self._recent.append((self._number, action))
        self._sink(action)

    def since(self, number: int | None) -> RecentBatch:
        """Return the first actions after a number; None queries the number, a number from the future all actions."""
        if number is None:
            return RecentBatch(number=self._number, actions=())
        after = number if number <= self._number else 0
        newer = [pair for pair in self._recent if pair[0] > after][:BATCH_MAX]
        return RecentBatch(number=newer[-1][0] if newer else self._number, actions=tuple(action for _, action in newer))
