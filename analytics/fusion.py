"""One event from several tellings: the driver's event and the kernel log's line are the same Xid.

The first telling is passed on at once, so nothing waits for a second one; a later telling gives the same event again,
with the same `id` and `time_ns` and what it adds. A consumer keeps the newest record of an id.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from telemetry.clock import NS_PER_S
from telemetry.records import Event, EventKind

# An Xid reaches the kernel log and the driver's event queue within the same interrupt; a busy machine and sources that
# are polled once a second stay well below this.
WINDOW_NS = 5 * NS_PER_S
MAX_PENDING = 512
XID_FALLEN_OFF_THE_BUS = 79
_FUSED_KINDS = frozenset({EventKind.XID, EventKind.SXID, EventKind.BUS_DROP})


@dataclass(frozen=True, slots=True, kw_only=True)
class FusionState:
    """Events that a further telling may still join, oldest first, each with the sources that told it."""

    pending: tuple[Event, ...] = ()


def fuse(state: FusionState, tellings: Sequence[Event]) -> tuple[FusionState, tuple[Event, ...]]:
    """Join tellings to what was told before; give each event that is new or knows more.

    Other kinds of event pass through. Memory is bounded: what is older than the window can no longer be joined.
    """
    pending = list(state.pending)
    out: list[Event] = []
    for telling in tellings:
        if telling.kind not in _FUSED_KINDS:
            out.append(telling)
            continue
        pending = [known for known in pending if telling.time_ns - known.time_ns <= WINDOW_NS]
        place = next((place for place, known in enumerate(pending) if _same(known, telling)), None)
        if place is None:
            pending.append(telling)
            out.append(telling)
            continue
        merged = _merge(pending[place], telling)
        if merged != pending[place]:
            out.append(merged)
        pending[place] = merged
    return FusionState(pending=tuple(pending[-MAX_PENDING:])), tuple(out)


def event_id(kind: EventKind, device: str | None, code: int | None, time_ns: int) -> str:
    """Give an event's id from what it says: kind, device (entity id or PCI address), code and time."""
    return f"{kind}:{device or 'unknown'}:{'none' if code is None else code}:{time_ns}"


def is_bus_loss(event: Event) -> bool:
    """Say whether an event tells that a GPU fell off its bus: the text of the driver, or Xid 79."""
    return event.kind is EventKind.BUS_DROP or (event.kind is EventKind.XID and event.code == XID_FALLEN_OFF_THE_BUS)


def _same(known: Event, telling: Event) -> bool:
    if abs(known.time_ns - telling.time_ns) > WINDOW_NS or not _same_device(known, telling):
        return False
    if is_bus_loss(known) and is_bus_loss(telling):
        return True  # A GPU falls off once, however many lines say so.
    # The same source that tells the same thing twice tells of two events.
    told_before = set(known.sources) & set(telling.sources)
    return (known.kind, known.code) == (telling.kind, telling.code) and not told_before


def _same_device(known: Event, telling: Event) -> bool:
    if known.entity_id is not None and telling.entity_id is not None:
        return known.entity_id == telling.entity_id
    if known.pci is not None and telling.pci is not None:
        return _slot(known.pci) == _slot(telling.pci)
    # One of them names no device that the other could contradict. The driver reports some Xids without one.
    return _nameless(known) or _nameless(telling)


def _nameless(event: Event) -> bool:
    return event.entity_id is None and event.pci is None


def _slot(pci: str) -> str:
    return pci.lower().split(".", maxsplit=1)[0]


def _merge(known: Event, telling: Event) -> Event:
    coded = known if known.code is not None else telling
    longer = max((known, telling), key=lambda event: len(event.message))
    return replace(
        known,
        kind=coded.kind,
        code=coded.code,
        entity_id=known.entity_id if known.entity_id is not None else telling.entity_id,
        severity=max(known.severity, telling.severity, key=lambda severity: severity.rank),
        message=known.message if len(known.message) == len(longer.message) else longer.message,
        sources=tuple(sorted({*known.sources, *telling.sources})),
        pci=max((pci for pci in (known.pci, telling.pci) if pci is not None), key=len, default=None),
        pid=known.pid if known.pid is not None else telling.pid,
        process=known.process if known.process is not None else telling.process,
    )
