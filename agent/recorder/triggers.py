"""Triggers of a recording: findings, incidents, GPU crashes, and requests of operators."""

from dataclasses import dataclass, replace

from telemetry.clock import NS_PER_S
from telemetry.records import Event, EventKind, Finding, FindingStatus, Incident, IncidentState, Record, Severity

# An incident that opened longer ago is an old one that was reported again, as after a restart.
_NEWS_NS = 60 * NS_PER_S
# Ids of seen incidents and events, so that an update triggers nothing; a node never has that many at once.
_MAX_SEEN = 1024
# Triggers that a recording names; a storm has thousands, and the first ones matter.
_MAX_NAMED = 50
# Heuristic: sources that report late, such as a board controller, report within this.
_MAX_LATE_NS = 30 * NS_PER_S
# Trigger of an operator; it is always named, so that the operator gets the result.
BY_HAND = "by-hand"
_CRASHES = frozenset({EventKind.XID, EventKind.SXID})


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """Reason for a recording: `what` becomes part of its name, `reason` is a sentence, `id` that of the record."""

    what: str
    reason: str
    time_ns: int
    id: str = ""


class TriggerJudge:
    """Selects the records that start a recording; remembers the incidents and events it has seen."""

    def __init__(self) -> None:
        self._seen: dict[str, None] = {}

    def judge(self, record: Record) -> Trigger | None:
        """Return the trigger of a record, None where it triggers nothing."""
        match record:
            case Finding(status=FindingStatus.RAISED):
                return _trigger(str(record.cause), record.summary, record)
            case Incident():
                return self._incident(record)
            case Event() if record.kind is EventKind.BUS_DROP:
                return _trigger("bus_drop", record.message, record) if self._is_news(record.id) else None
            case Event() if record.kind in _CRASHES and record.severity is Severity.CRITICAL:
                what = f"{record.kind}-{record.code}"
                return _trigger(what, record.message, record) if self._is_news(record.id) else None
            case _:
                return None

    def _is_news(self, record_id: str) -> bool:
        if record_id in self._seen:
            return False
        self._seen[record_id] = None
        if len(self._seen) > _MAX_SEEN:
            del self._seen[next(iter(self._seen))]
        return True

    def _incident(self, incident: Incident) -> Trigger | None:
        if not self._is_news(incident.id):
            return None
        opened_now = incident.time_ns - incident.opened_ns <= _NEWS_NS
        if incident.state is not IncidentState.OPEN or not opened_now:
            return None
        return _trigger(str(incident.cause), incident.summary, incident)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingWindow:
    """Open recording: begin and end in monotonic ns, and its triggers."""

    start_ns: int
    end_ns: int
    triggers: tuple[Trigger, ...]
    more_triggers: int = 0


def widen(
    window: RecordingWindow | None,
    trigger: Trigger,
    *,
    now_ns: int,
    utc_ns: int,
    before_s: float,
    after_s: float,
    longest_s: float,
) -> RecordingWindow:
    """Return the window with one more trigger, seen at the monotonic `now_ns` and the UTC `utc_ns`."""
    late_ns = min(max(0, utc_ns - trigger.time_ns), _MAX_LATE_NS)
    start_ns = now_ns - late_ns - round(before_s * NS_PER_S)
    end_ns = now_ns + round(after_s * NS_PER_S)
    if window is None:
        return RecordingWindow(start_ns=start_ns, end_ns=end_ns, triggers=(trigger,))
    end_ns = max(window.end_ns, min(end_ns, window.start_ns + round(longest_s * NS_PER_S)))
    if len(window.triggers) >= _MAX_NAMED and trigger.what != BY_HAND:
        return replace(window, end_ns=end_ns, more_triggers=window.more_triggers + 1)
    return replace(window, end_ns=end_ns, triggers=(*window.triggers, trigger))


def _trigger(what: str, reason: str, record: Record) -> Trigger:
    return Trigger(what=what, reason=reason, time_ns=record.time_ns, id=record.id)
