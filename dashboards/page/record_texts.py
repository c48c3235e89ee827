"""JSON text of the recent records, encoded once however many watch, and what changed between two states of them."""

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from dashboards.page.source import Records
from telemetry.json_text import json_text
from telemetry.record_json import to_json
from telemetry.records import Record

# Fields of `Records`, and keys of the JSON object.
KINDS = ("incidents", "decisions", "actions", "outcomes", "events")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordState:
    """Texts of the records of one version: of each kind by id, newest first."""

    version: int
    kinds: Mapping[str, Mapping[str, str]]

    def to_json(self) -> str:
        """Return all records as one JSON object."""
        arrays = (f'"{kind}":{array_of(texts.values())}' for kind, texts in self.kinds.items())
        return f'{{"version":{self.version},{",".join(arrays)}}}'

    def changes_since(self, before: "RecordState") -> str:
        """Return what is new or changed as one JSON object; ``gone`` has the ids that are not recent any more."""
        changed = {
            kind: {key: text for key, text in texts.items() if before.kinds[kind].get(key) != text}
            for kind, texts in self.kinds.items()
        }
        gone = {kind: [key for key in before.kinds[kind] if key not in texts] for kind, texts in self.kinds.items()}
        return f'{RecordState(version=self.version, kinds=changed).to_json()[:-1]},"gone":{json_text(gone)}}}'


class RecordTexts:
    """Encoder of records; a record that is the same as last time keeps its text. Any thread may call it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._records = Records(version=-1)
        self._encoded: dict[tuple[str, str], tuple[Record, str]] = {}
        self._state = RecordState(version=-1, kinds={kind: {} for kind in KINDS})

    def state(self, records: Records) -> RecordState:
        """Return the texts of these records."""
        with self._lock:
            if records is not self._records:
                listed = {kind: getattr(records, kind) for kind in KINDS}
                self._encoded = {(kind, one.id): self._encode(kind, one) for kind in KINDS for one in listed[kind]}
                kinds = {kind: {one.id: self._encoded[kind, one.id][1] for one in listed[kind]} for kind in KINDS}
                self._records, self._state = records, RecordState(version=records.version, kinds=kinds)
            return self._state

    def _encode(self, kind: str, record: Record) -> tuple[Record, str]:
        known = self._encoded.get((kind, record.id))
        return known if known is not None and known[0] == record else (record, json_text(to_json(record)))


def array_of(texts: Iterable[str]) -> str:
    """Return JSON texts as one array."""
    return f"[{','.join(texts)}]"
