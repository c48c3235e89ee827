"""Which incidents may not turn which knobs any more, because a person took their action back."""

from collections.abc import Iterator
from dataclasses import dataclass

from agent.actuation.hold import Hold
from telemetry.knobs import KnobKind

# One incident is one entry per knob and GPU, so this is months of them.
BARRED_MAX = 1024

_Key = tuple[KnobKind, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One incident, one knob of one GPU, and why."""

    kind: KnobKind
    uuid: str
    incident_id: str
    reason: str


def bar_of(hold: Hold, incident_id: str, reason: str) -> Bar:
    """Give what keeps an incident from the knob of a hold."""
    return Bar(kind=hold.kind, uuid=hold.target.uuid, incident_id=incident_id, reason=reason)


class Barred:
    """Remembers the newest of them."""

    def __init__(self) -> None:
        self._bars: dict[_Key, Bar] = {}

    def add(self, bar: Bar) -> None:
        """Bar one."""
        self._bars[bar.kind, bar.uuid, bar.incident_id] = bar
        while len(self._bars) > BARRED_MAX:
            self._bars.pop(next(iter(self._bars)))

    def reason(self, kind: KnobKind, uuid: str, incident_id: str) -> str | None:
        """Give why an incident may not, None where it may."""
        bar = self._bars.get((kind, uuid, incident_id))
        return None if bar is None else bar.reason

    def __iter__(self) -> Iterator[Bar]:
        """Give all, the oldest first."""
        return iter(self._bars.values())
