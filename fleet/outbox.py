"""Outbox of the fleet: records go to a spool towards the store and to the record file, each window once.

A marker file holds the end of the last published window. A loop that was killed judges some windows again from its last
state and publishes only records that are not in the record file yet, so that none is lost and none is published twice.
The store may receive the window of the kill again, with the same ids and times, which it keeps once.
"""

import json
import logging
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from analytics.connectivity import Kinship
from analytics.fleet.topology import at_home
from telemetry.atomic_files import replace_file
from telemetry.clock import Clock
from telemetry.commands import Command
from telemetry.entities import EntityKind
from telemetry.errors import TransientError
from telemetry.frames import Frame
from telemetry.json_text import json_bytes
from telemetry.line_protocol import encode_frame, encode_records, simulated_tag
from telemetry.records import Action, Decision, Event, Finding, Incident, Outcome
from telemetry.rollup import Resolution
from telemetry.spool.spool import Spool
from telemetry.store.records import RecordFile
from telemetry.uplink.port import Destination
from telemetry.uplink.sender import Sender, UplinkStatus

logger = logging.getLogger(__name__)

# Tag `by` of lines that the fleet service wrote; lines of nodes lack it.
BY_FLEET = "fleet"
Published = Finding | Incident
Audited = Decision | Action | Outcome | Event | Command | Incident
# heuristic: time at the end to send waiting records; the rest stays in the spool for the next start.
DRAIN_S = 5.0


class Outbox:
    """Publishes the records of the fleet; one thread owns it."""

    def __init__(
        self, directory: Path, destination: Destination, clock: Clock, *, name: str, spool_max_bytes: int
    ) -> None:
        self._name = name
        self._clock = clock
        self._marker = directory / "fleet.told.json"
        self._spool = Spool(directory / "spool", max_bytes=spool_max_bytes)
        self._records = RecordFile(directory / "records")
        self._sender = Sender(self._spool, destination, clock)
        self._sender.start()
        self._resumed = True
        self._waiting: list[Published] = []
        self.published_until_ns = _read_marker(self._marker)

    @property
    def is_blocked(self) -> bool:
        """True while records of the last window wait for the disk."""
        return bool(self._waiting)

    def publish(
        self, records: Sequence[Published], until_ns: int, kinship: Kinship, *, simulated: frozenset[str]
    ) -> tuple[Published, ...]:
        """Publish the records of a window once and return those that are new."""
        again = self._resumed or until_ns <= self.published_until_ns
        self._resumed = False
        fresh = tuple(one for one in records if not (again and self._is_kept(one)))
        if again and not fresh and until_ns <= self.published_until_ns:
            return ()
        published_ns = self._clock.utc_ns()
        for (node, home_simulated), own in groupby(
            sorted(((self._home(one, kinship, simulated), one) for one in fresh), key=lambda pair: pair[0]),
            key=lambda pair: pair[0],
        ):
            tags = {"node": node, "simulated": simulated_tag(simulated=home_simulated), "by": BY_FLEET}
            # Under the entity id of its node, so that it is listed with the records of the node.
            at_node = [replace(one, entity_id=at_home(one.entity_id, node)) for _, one in own]
            body = encode_records(at_node, tags=tags)
            self._spool.append(Resolution.ROLLUP, body, newest_ns=published_ns)
        self._spool.sync()
        self._waiting = list(fresh)
        self._keep(until_ns)
        return fresh

    def audit(self, records: Sequence[Audited], *, simulated: bool) -> None:
        """Publish commands, decisions and actions under the node that each is about, else under the fleet itself."""
        by_node: dict[str, list[Audited]] = {}
        for record in records:
            by_node.setdefault(_node_of(record) or self._name, []).append(record)
        for node, own in by_node.items():
            tags = {"node": node, "simulated": simulated_tag(simulated=simulated), "by": BY_FLEET}
            self._spool.append(Resolution.ROLLUP, encode_records(own, tags=tags), newest_ns=self._clock.utc_ns())
        try:
            self._records.append(records)
        except TransientError as err:
            logger.error("cannot save fleet records, they are in the store alone: %s", err)  # noqa: TRY400 -- the reason suffices

    def retry(self, until_ns: int) -> None:
        """Retry to save the records that wait for the disk."""
        if self._waiting:
            self._keep(until_ns)

    def publish_self_metrics(self, frames: Sequence[Frame], *, simulated: bool) -> None:
        """Send metrics of the service; each entity is a node, or the fleet itself."""
        for frame in frames:
            for place, entity in enumerate(frame.spec.entities):
                one = Frame(
                    spec=replace(frame.spec, entities=(entity,)),
                    time_ns=frame.time_ns,
                    values=frame.values[:, place : place + 1],
                    fresh=frame.fresh[:, place : place + 1],
                )
                tags = {"node": entity.key, "simulated": simulated_tag(simulated=simulated), "by": BY_FLEET}
                body = encode_frame(one, tags=tags)
                if body:
                    self._spool.append(Resolution.RAW, body, newest_ns=self._clock.utc_ns())

    def status(self) -> UplinkStatus:
        """Return the state of the sender."""
        return self._sender.status()

    def close(self) -> None:
        """Send waiting records while the server accepts them; the rest stays on disk for the next start."""
        self._sender.stop(drain_s=DRAIN_S)
        self._spool.close()
        self._records.close()

    def _keep(self, until_ns: int) -> None:
        try:
            if self._waiting:
                self._records.append(self._waiting)
            until_ns = max(until_ns, self.published_until_ns)
            replace_file(self._marker, json_bytes({"told_until_ns": until_ns}))
        except (TransientError, OSError) as err:
            logger.error("cannot save fleet records, they wait in memory: %s", err)  # noqa: TRY400 -- the reason suffices
            return
        self._waiting = []
        self.published_until_ns = until_ns

    def _is_kept(self, record: Published) -> bool:
        try:
            return any(one.time_ns == record.time_ns for one in self._records.history(record.id))
        except TransientError:
            return False  # published twice is better than never

    def _home(self, record: Published, kinship: Kinship, simulated: frozenset[str]) -> tuple[str, bool]:
        """Return the node that a record is about, or the fleet itself where it is about several."""
        kind, _, key = kinship.top(record.entity_id).partition(":")
        nodes = {one.key for one in kinship.topology.of_kind(EntityKind.NODE)} if kind != EntityKind.NODE else {key}
        name = key if kind == EntityKind.NODE else self._name
        return name, nodes <= simulated


def _node_of(record: Audited) -> str:
    entity_id = record.entity_id if isinstance(record, Action | Event) else None
    kind, _, key = (entity_id or "").partition(":")
    return key if kind == EntityKind.NODE else ""


def _read_marker(path: Path) -> int:
    try:
        return int(json.loads(path.read_text(encoding="utf-8"))["told_until_ns"])
    except FileNotFoundError:
        return 0
    except (OSError, ValueError, KeyError, TypeError) as err:
        logger.warning("cannot read last published window from %s, records may be published again: %s", path, err)
        return 0
