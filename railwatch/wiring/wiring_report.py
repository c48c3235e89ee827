"""Described wiring of the node, published to the store for the fleet."""

import logging
from collections.abc import Mapping
from typing import Protocol

from config.topology import TopologySection
from config.topology_document import SCHEMA, document_of
from telemetry.clock import Clock
from telemetry.errors import ConfigError
from telemetry.node_wiring import DOCUMENT_FIELD, REPORT_EVERY_S, SCHEMA_FIELD, WIRING

logger = logging.getLogger(__name__)


class DescriptionStore(Protocol):
    """Store that keeps what describes the node."""

    def describe(self, measurement: str, fields: Mapping[str, float | str]) -> None:
        """Write what describes the node now."""
        ...


class WiringReport:
    """Publishes the described wiring at start and every ten minutes; an empty one where none is described.

    A fleet loop that starts later finds the newest one, and one that was described before ends with an empty one.
    """

    def __init__(self, topology: TopologySection, store: DescriptionStore, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._due_s = clock.monotonic_s()
        try:
            self._document = document_of(topology)
        except ConfigError as err:
            logger.warning("described wiring is not sent to the fleet, which infers it: %s", err)
            self._document = ""

    def publish(self) -> None:
        """Write the wiring if it is due."""
        now_s = self._clock.monotonic_s()
        if now_s >= self._due_s:
            self._due_s = now_s + REPORT_EVERY_S
            self._store.describe(WIRING, {SCHEMA_FIELD: float(SCHEMA), DOCUMENT_FIELD: self._document})
