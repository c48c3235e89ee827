"""Described wirings that nodes send, read from the store; what cannot be a wiring is refused, counted and logged."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

from config.topology_document import wiring_of_document
from physics.wiring import Wiring
from telemetry.clock import NS_PER_S
from telemetry.errors import ConfigError
from telemetry.node_wiring import DOCUMENT_FIELD, REPORT_EVERY_S, SCHEMA_FIELD, WIRING
from telemetry.store.servers import ServerStore, StoredRecord

logger = logging.getLogger(__name__)

# heuristic: half as long again as nodes take between two of them, since one may come late.
_LOOK_BACK_NS = round(1.5 * REPORT_EVERY_S * NS_PER_S)
# heuristic: more nodes than send a wrong wiring at a time; anybody who may write to the store may name one.
_REFUSED_KEPT = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadWirings:
    """Newest wiring of each node that sent one, None for a node without; `refused` counts new ones that cannot be."""

    found: Mapping[str, Wiring | None] = field(default_factory=dict)
    refused: int = 0


class WiringReader:
    """Reads wirings window by window; the first time back to the last one that each node sent. One thread owns it."""

    def __init__(self, store: ServerStore) -> None:
        self._store = store
        self._is_first = True
        # Why the last wiring of a node was refused: it is counted and logged once, and not every time it is sent.
        self._refused: dict[str, str] = {}

    def read(self, start_ns: int, stop_ns: int) -> ReadWirings:
        """Return the newest wirings in ``[start_ns, stop_ns)``."""
        since_ns = max(start_ns - _LOOK_BACK_NS, 0) if self._is_first else start_ns
        newest = {record[0].get("node", ""): record for record in self._store.records(WIRING, since_ns, stop_ns)}
        self._is_first = False
        found: dict[str, Wiring | None] = {}
        refused = 0
        for node, record in newest.items():
            try:
                found[node] = _wiring(record)
            except ConfigError as err:
                found[node] = None
                refused += self._refuse(node, str(err))
            else:
                self._refused.pop(node, None)
        return ReadWirings(found=found, refused=refused)

    def _refuse(self, node: str, reason: str) -> bool:
        """Log a refused wiring; return False where it was refused for the same reason before."""
        before = self._refused.pop(node, "")
        self._refused[node] = reason
        if len(self._refused) > _REFUSED_KEPT:
            del self._refused[next(iter(self._refused))]
        if reason == before:
            return False
        logger.warning("wiring of node %r refused, judging the node without it: %s", node, reason)
        return True


def _wiring(record: StoredRecord) -> Wiring | None:
    fields = record[2]
    schema, document = fields.get(SCHEMA_FIELD), fields.get(DOCUMENT_FIELD)
    if not isinstance(schema, int | float) or not isinstance(document, str | None):
        raise ConfigError.at("wiring", "no schema and document", "a number and a text")
    return wiring_of_document(document or "", schema=float(schema))
