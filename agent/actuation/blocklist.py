"""Incidents that may no longer set a knob, because an operator released their action."""

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from agent.actuation.held_knob import HeldKnob
from telemetry.gpu import KnobKind

logger = logging.getLogger(__name__)

# One incident has one entry per knob and GPU, so this is months of them.
BLOCKED_MAX = 1024

_Key = tuple[KnobKind, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Block of one incident from one knob of one GPU, with the reason."""

    kind: KnobKind
    uuid: str
    incident_id: str
    reason: str


def block_of(hold: HeldKnob, incident_id: str, reason: str) -> Block:
    """Return the block of an incident from the knob of a hold."""
    return Block(kind=hold.kind, uuid=hold.target.uuid, incident_id=incident_id, reason=reason)


class Blocklist:
    """Newest blocks, bounded.

    `bars` are those known from before, the oldest first; `on_dropped` receives the number dropped so far, each time it
    grows. `dropped` counts those that this process has dropped, the oldest first, because there were more than
    `BLOCKED_MAX`: their incidents may set the knob again, if they are still open.
    """

    def __init__(self, bars: Iterable[Block] = (), *, on_dropped: Callable[[int], None] = lambda _: None) -> None:
        self._bars: dict[_Key, Block] = {}
        self._on_dropped = on_dropped
        self.dropped = 0
        for bar in bars:
            self._put(bar)

    def add(self, bar: Block) -> None:
        """Add one block."""
        gone = self._put(bar)
        if gone is None:
            return
        self.dropped += 1
        if self.dropped == 1:
            logger.warning(
                "more than %d actions were released by operators: dropping the oldest blocks, first %s of %s",
                BLOCKED_MAX,
                gone.kind,
                gone.incident_id,
            )
        self._on_dropped(self.dropped)

    def _put(self, bar: Block) -> Block | None:
        """Add one block; return the one that was dropped for it."""
        self._bars[bar.kind, bar.uuid, bar.incident_id] = bar
        return self._bars.pop(next(iter(self._bars))) if len(self._bars) > BLOCKED_MAX else None

    def reason(self, kind: KnobKind, uuid: str, incident_id: str) -> str | None:
        """Return why an incident is blocked, None if it is not."""
        bar = self._bars.get((kind, uuid, incident_id))
        return None if bar is None else bar.reason

    def __iter__(self) -> Iterator[Block]:
        """Return an iterator over all blocks, the oldest first."""
        return iter(self._bars.values())
