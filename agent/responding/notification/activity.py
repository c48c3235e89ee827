"""Decisions and actions of railwatch on an incident, as lines of text, from the journals of its processes."""

from collections import OrderedDict
from collections.abc import Iterable, Sequence

from telemetry.entities import label_of_id
from telemetry.record_journal import RecordJournalReader
from telemetry.records import Action, ActionState, Decision, Mode, Record, Verdict

# heuristic: incidents whose decisions are kept; the least recently updated are dropped first.
_MOST_INCIDENTS = 256
# Notifications themselves are left out.
_NOTIFY = "notify"
_TRIED = {
    ActionState.APPLIED: "done",
    ActionState.DONE: "done",
    ActionState.RENEWED: "holds",
    ActionState.RELAXED: "loosened",
    ActionState.EXPIRED: "its lease ran out",
    ActionState.RELEASED: "released",
    ActionState.REFUSED: "refused",
    ActionState.FAILED: "failed",
}


class IncidentActivity:
    """Decisions and actions by incident; reads new records of the journals at each call."""

    def __init__(self, readers: Sequence[RecordJournalReader]) -> None:
        self._readers = tuple(readers)
        self._texts: OrderedDict[str, dict[str, str]] = OrderedDict()

    def of(self, incident_id: str) -> tuple[str, ...]:
        """Return the decisions and actions on an incident, the newest state of each."""
        for reader in self._readers:
            self._take(reader.read())
        return tuple(self._texts.get(incident_id, {}).values())

    def _take(self, records: Iterable[Record]) -> None:
        for record in records:
            match record:
                case Decision() if record.action != _NOTIFY:
                    self._note(record.incident_id, record.action, _decided(record))
                case Action() if record.knob != _NOTIFY:
                    self._note(record.incident_id, f"{record.knob} {record.entity_id}", _acted(record))

    def _note(self, incident_id: str, subject: str, text: str) -> None:
        known = self._texts.setdefault(incident_id, {})
        known.pop(subject, None)
        known[subject] = text
        self._texts.move_to_end(incident_id)
        while len(self._texts) > _MOST_INCIDENTS:
            self._texts.popitem(last=False)


def _decided(decision: Decision) -> str:
    match decision.verdict:
        case Verdict.EXECUTE:
            return f"decided {decision.action}: {decision.reason}"
        case Verdict.PENDING:
            return f"{decision.action} needs approval ({decision.reason}): railwatch actions approve {decision.id}"
        case Verdict.REFUSE:
            return f"refused {decision.action}: {decision.reason}"
        case _:
            return f"would decide {decision.action} (mode {decision.mode.value}, nothing done): {decision.reason}"


def _acted(action: Action) -> str:
    setting = "" if action.wanted is None else f" {action.wanted:g} {action.unit}".rstrip()
    would = "" if action.mode is Mode.ENFORCE else f" (mode {action.mode.value}, nothing done)"
    ends = action.state in (ActionState.REFUSED, ActionState.FAILED, ActionState.EXPIRED)
    why = f": {action.reason}" if ends else ""
    return f"{action.knob}{setting} on {label_of_id(action.entity_id)}: {_TRIED[action.state]}{would}{why}"
