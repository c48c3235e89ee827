"""Fusion of several reports into one event: driver event, kernel log line and bus report.

The first report is passed on at once, so nothing waits for a second one. A later report updates the same event, with
the same `id` and `time_ns` and its own additions. A consumer keeps the newest record of an id. A report that comes
twice under its own id, as from a log that is read again, changes nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from telemetry.clock import NS_PER_S
from telemetry.gpu import XID_FALLEN_OFF_THE_BUS
from telemetry.records import Event, EventKind

# An Xid reaches the kernel log and the driver's event queue within the same interrupt; a busy machine and sources that
# are polled once a second stay well below this.
WINDOW_NS = 5 * NS_PER_S
# heuristic: a GPU falls off once until it is back. The driver reports it when it accesses the GPU next, the kernel when
# the hot-plug controller removes it; a report after more than a minute is an event of its own.
LOSS_WINDOW_NS = 60 * NS_PER_S
MAX_PENDING = 512
_FUSED_KINDS = frozenset(
    {
        EventKind.XID,
        EventKind.SXID,
        EventKind.BUS_DROP,
        EventKind.DRIVER_ERROR,
        EventKind.AER,
        EventKind.DEVICE_ADDED,
        EventKind.DRIVER_BOUND,
        EventKind.DRIVER_UNBOUND,
        EventKind.LINK,
    }
)
# After these a GPU can be lost again. That its driver is bound again comes later than that it is on the bus again.
DEVICE_BACK = frozenset({EventKind.DEVICE_ADDED, EventKind.DRIVER_BOUND})


@dataclass(frozen=True, slots=True, kw_only=True)
class FusedEvent:
    """An event as merged so far, and the ids of the reports in it."""

    event: Event
    ids: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class FusionState:
    """Events that further reports may still join, in the order of their first reports."""

    pending: tuple[FusedEvent, ...] = ()


def fuse(state: FusionState, reports: Sequence[Event]) -> tuple[FusionState, tuple[Event, ...]]:
    """Merge reports into pending events; return each event that is new or changed.

    Other kinds of event pass through. Memory is bounded: an event further than its window from a report can no longer
    be joined, before it or, after the wall clock was set back, behind it.
    """
    pending = list(state.pending)
    out: list[Event] = []
    for report in reports:
        if report.kind not in _FUSED_KINDS:
            out.append(report)
            continue
        pending = [known for known in pending if _within_window(known.event, report)]
        place = _place(pending, report)
        if place is None:
            if report.kind in DEVICE_BACK:
                pending = [known for known in pending if not _ends(known.event, report)]
            pending.append(FusedEvent(event=report, ids=frozenset({report.id})))
            out.append(report)
            continue
        known = pending[place]
        merged = _merge(known.event, report)
        if merged != known.event:
            out.append(merged)
        pending[place] = FusedEvent(event=merged, ids=known.ids | {report.id})
    return FusionState(pending=tuple(pending[-MAX_PENDING:])), tuple(out)


def is_bus_loss(event: Event) -> bool:
    """Return True if a GPU fell off its bus: a bus drop, or Xid 79."""
    return event.kind is EventKind.BUS_DROP or (event.kind is EventKind.XID and event.code == XID_FALLEN_OFF_THE_BUS)


def _within_window(known: Event, report: Event) -> bool:
    window_ns = LOSS_WINDOW_NS if is_bus_loss(known) else WINDOW_NS
    return abs(report.time_ns - known.time_ns) <= window_ns


def _place(pending: Sequence[FusedEvent], report: Event) -> int | None:
    """Return the position of the event a report belongs to: the one it is in already, else the first that fits."""
    again = (place for place, known in enumerate(pending) if report.id in known.ids)
    fits = (place for place, known in enumerate(pending) if _same(known.event, report))
    return next(again, next(fits, None))


def _ends(known: Event, back: Event) -> bool:
    """Return True if a device that is back ends a loss."""
    return is_bus_loss(known) and back.time_ns >= known.time_ns and _same_device(known, back)


def _same(known: Event, report: Event) -> bool:
    if not _same_device(known, report):
        return False
    if is_bus_loss(known) and is_bus_loss(report):
        return True  # A GPU falls off once, however many lines report it.
    if (known.kind, known.code) != (report.kind, report.code) or abs(known.time_ns - report.time_ns) > WINDOW_NS:
        return False
    if known.kind in (EventKind.AER, EventKind.LINK) and known.severity is not report.severity:
        return False  # a corrected error and a fatal one, a link that fell and one that recovered
    # Two reports of one source are two events.
    return not set(known.sources) & set(report.sources)


def _same_device(known: Event, report: Event) -> bool:
    if known.entity_id is not None and report.entity_id is not None:
        return known.entity_id == report.entity_id
    if known.pci is not None and report.pci is not None:
        return _slot(known.pci) == _slot(report.pci)
    # One of them names no device that the other could contradict. The driver reports some Xids without one.
    return _nameless(known) or _nameless(report)


def _nameless(event: Event) -> bool:
    return event.entity_id is None and event.pci is None


def _slot(pci: str) -> str:
    return pci.lower().split(".", maxsplit=1)[0]


def _merge(known: Event, report: Event) -> Event:
    if (known.id, known.sources) == (report.id, report.sources):
        return report  # one report of one source, of which more was read
    coded = known if known.code is not None else report
    longer = max((known, report), key=lambda event: len(event.message))
    return replace(
        known,
        kind=coded.kind,
        code=coded.code,
        entity_id=known.entity_id if known.entity_id is not None else report.entity_id,
        severity=max(known.severity, report.severity, key=lambda severity: severity.rank),
        message=known.message if len(known.message) == len(longer.message) else longer.message,
        sources=tuple(sorted({*known.sources, *report.sources})),
        pci=max((pci for pci in (known.pci, report.pci) if pci is not None), key=len, default=None),
        pid=known.pid if known.pid is not None else report.pid,
        process=known.process if known.process is not None else report.process,
    )
