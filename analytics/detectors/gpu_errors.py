"""GPU errors reported as events: Xid, SXid, bus drops, driver and fabric errors are findings while they recur.

Events must be fused (`analytics.fusion`): a repeated `id` is an update and not counted again. Events of severity info
(an application's own fault) raise no finding. A device that its driver unbound before the kernel removed it from the
bus was removed in order, not lost, unless an error was reported.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from analytics.detectors.absence import OrderlyRemovals, is_removal
from analytics.detectors.condition import REPORT_EVERY_NS
from analytics.detectors.limits import GpuErrorLimits
from analytics.detectors.statements import evidence, finding_id
from analytics.fusion import is_bus_loss
from telemetry.clock import NS_PER_S
from telemetry.entities import EntityKind, Topology
from telemetry.gpu import XID_NVLINK
from telemetry.quantities import duration, shortened
from telemetry.records import Cause, Event, EventKind, Finding, FindingStatus, Severity

_JUDGED = frozenset({EventKind.XID, EventKind.SXID, EventKind.BUS_DROP, EventKind.DRIVER_ERROR})
# heuristic: far above what a node has at a time; they bound memory.
_MAX_STREAKS = 4096
_MAX_IDS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Streak:
    """Recurring error on an entity, from its first report until it was quiet long enough."""

    key: tuple[str, Cause, int | None]
    since_ns: int
    last_ns: int
    count: int
    reported_ns: int
    reported_count: int
    event: Event
    severity: Severity
    recent_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuErrorsState:
    """Errors that are still active, in order of their begin."""

    streaks: tuple[Streak, ...] = ()
    orderly: OrderlyRemovals = field(default_factory=OrderlyRemovals)


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuErrors:
    """Raises `Cause.GPU_LOST` for a bus drop, Xid 79 or a GPU that is missing at start.

    For SXid, Xid 74 and critical messages of the Fabric Manager it raises `FABRIC_ERROR`, else `GPU_ERROR`.
    """

    limits: GpuErrorLimits
    name: str = "gpu_errors"

    def start(self) -> GpuErrorsState:
        """Return the state before the first event."""
        return GpuErrorsState()

    def step(
        self, state: GpuErrorsState, events: Sequence[Event], now_ns: int, topology: Topology
    ) -> tuple[GpuErrorsState, tuple[Finding, ...]]:
        """Judge events, and clear errors that were quiet long enough."""
        streaks = {streak.key: streak for streak in state.streaks}
        findings: list[Finding] = []
        orderly = state.orderly
        for event in events:
            orderly = orderly.after((event,))
            if not _is_judged(event):
                continue
            entity_id = event.entity_id or _only_node(topology)
            if entity_id is None or (is_removal(event) and orderly.was_taken(entity_id)):
                continue
            key = _key(event, entity_id)
            before = streaks.get(key)
            after = _begun(event, key) if before is None else _continued(before, event)
            if before is None or _is_worth_reporting(before, after):
                after = replace(after, reported_ns=event.time_ns, reported_count=after.count)
                status = FindingStatus.RAISED if before is None else FindingStatus.UPDATED
                findings.append(self._findings(after, status, event.time_ns, topology))
            streaks[key] = after
        for key, streak in tuple(streaks.items()):
            if now_ns - streak.last_ns >= self.limits.clear_after_s * NS_PER_S or len(streaks) > _MAX_STREAKS:
                findings.append(self._findings(streak, FindingStatus.CLEARED, now_ns, topology))
                del streaks[key]
        return GpuErrorsState(streaks=tuple(streaks.values()), orderly=orderly), tuple(findings)

    def _findings(self, streak: Streak, status: FindingStatus, time_ns: int, topology: Topology) -> Finding:
        entity_id, cause, _ = streak.key
        event, seconds = streak.event, (streak.last_ns - streak.since_ns) / NS_PER_S
        name = next((entity.label for entity in topology.entities if entity.id == entity_id), entity_id)
        often = f", {streak.count} times in {duration(seconds)}" if streak.count > 1 else ""
        what = f"{_named(event)} on {name}{often}"
        summary = (
            f"{what}: {event.message}"
            if status is not FindingStatus.CLEARED
            else f"{what}; none for {duration((time_ns - streak.last_ns) / NS_PER_S)}"
        )
        return Finding(
            id=finding_id(f"{self.name}.{event.kind}.{streak.key[2]}", entity_id, streak.since_ns)
            if cause is not Cause.GPU_LOST
            else finding_id(f"{self.name}.{_loss(event)}", entity_id, streak.since_ns),
            time_ns=time_ns,
            since_ns=streak.since_ns,
            detector=self.name,
            cause=cause,
            entity_id=entity_id,
            status=status,
            severity=streak.severity,
            score=(streak.severity.rank + 1) / len(Severity),
            summary=shortened(summary),
            evidence=evidence(
                ("code", float("nan") if event.code is None else event.code, ""),
                ("count", streak.count, ""),
                ("sources", len(event.sources), ""),
                ("window_s", seconds, "s"),
            ),
        )


def _is_judged(event: Event) -> bool:
    fabric = event.kind is EventKind.FABRIC and event.severity is Severity.CRITICAL
    return fabric or (event.kind in _JUDGED and event.severity is not Severity.INFO) or _is_missing(event)


def _is_missing(event: Event) -> bool:
    """Return True if a collector reports missing GPUs; a failing collector alone is a warning."""
    return event.kind is EventKind.COLLECTOR and event.severity is Severity.CRITICAL


def _loss(event: Event) -> str:
    return "missing" if _is_missing(event) else "bus_loss"


def _key(event: Event, entity_id: str) -> tuple[str, Cause, int | None]:
    if is_bus_loss(event) or _is_missing(event):
        return entity_id, Cause.GPU_LOST, None
    fabric = event.kind in (EventKind.SXID, EventKind.FABRIC) or event.code == XID_NVLINK
    return entity_id, Cause.FABRIC_ERROR if fabric else Cause.GPU_ERROR, event.code


def _only_node(topology: Topology) -> str | None:
    nodes = topology.of_kind(EntityKind.NODE)
    return nodes[0].id if len(nodes) == 1 else None


def _begun(event: Event, key: tuple[str, Cause, int | None]) -> Streak:
    return Streak(
        key=key,
        since_ns=event.time_ns,
        last_ns=event.time_ns,
        count=1,
        reported_ns=event.time_ns,
        reported_count=1,
        event=event,
        severity=event.severity,
        recent_ids=(event.id,),
    )


def _continued(streak: Streak, event: Event) -> Streak:
    again = event.id in streak.recent_ids
    return replace(
        streak,
        last_ns=max(streak.last_ns, event.time_ns),
        count=streak.count + (not again),
        event=event,
        severity=max(streak.severity, event.severity, key=lambda severity: severity.rank),
        recent_ids=streak.recent_ids if again else (*streak.recent_ids, event.id)[-_MAX_IDS:],
    )


def _is_worth_reporting(before: Streak, after: Streak) -> bool:
    knows_more = before.event.code is None and after.event.code is not None
    counted_up = after.count > before.reported_count and after.last_ns - before.reported_ns >= REPORT_EVERY_NS
    return knows_more or counted_up or after.severity is not before.severity


def _named(event: Event) -> str:
    if event.kind is EventKind.BUS_DROP:
        return "bus drop"
    if _is_missing(event):
        return "missing GPU"
    if event.kind in (EventKind.FABRIC, EventKind.DRIVER_ERROR):
        return "fabric error" if event.kind is EventKind.FABRIC else "driver error"
    return f"{'SXid' if event.kind is EventKind.SXID else 'Xid'} {event.code}"
