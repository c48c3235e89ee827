"""Which incidents may not turn which knobs any more, because a person took their action back."""

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from agent.actuation.held_knob import HeldKnob
from telemetry.knobs import KnobKind

logger = logging.getLogger(__name__)

# One incident is one entry per knob and GPU, so this is months of them.
BLOCKED_MAX = 1024

_Key = tuple[KnobKind, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One incident, one knob of one GPU, and why."""

    kind: KnobKind
    uuid: str
    incident_id: str
    reason: str


def block_of(hold: HeldKnob, incident_id: str, reason: str) -> Block:
    """Return what keeps an incident from the knob of a hold."""
    return Block(kind=hold.kind, uuid=hold.target.uuid, incident_id=incident_id, reason=reason)


class Blocklist:
    """Remembers the newest of them.

    Parameters
    ----------
    bars
        Those that are known from before, the oldest first.
    told
        Gets how many were forgotten so far, each time that this grows.

    Attributes
    ----------
    dropped
        How many this process has forgotten, the oldest first, because there were more than `BLOCKED_MAX`: their
        incidents may turn the knob again, should they still be open.
    """

    def __init__(self, bars: Iterable[Block] = (), *, told: Callable[[int], None] = lambda _: None) -> None:
        self._bars: dict[_Key, Block] = {}
        self._told = told
        self.dropped = 0
        for bar in bars:
            self._put(bar)

    def add(self, bar: Block) -> None:
        """Bar one."""
        gone = self._put(bar)
        if gone is None:
            return
        self.dropped += 1
        if self.dropped == 1:
            logger.warning(
                "more than %d actions were taken back by people: the oldest such words are forgotten, first %s of %s",
                BLOCKED_MAX,
                gone.kind,
                gone.incident_id,
            )
        self._told(self.dropped)

    def _put(self, bar: Block) -> Block | None:
        """Remember one; gives the one that had to go for it."""
        self._bars[bar.kind, bar.uuid, bar.incident_id] = bar
        return self._bars.pop(next(iter(self._bars))) if len(self._bars) > BLOCKED_MAX else None

    def reason(self, kind: KnobKind, uuid: str, incident_id: str) -> str | None:
        """Return why an incident may not, None where it may."""
        bar = self._bars.get((kind, uuid, incident_id))
        return None if bar is None else bar.reason

    def __iter__(self) -> Iterator[Block]:
        """Return all, the oldest first."""
        return iter(self._bars.values())
