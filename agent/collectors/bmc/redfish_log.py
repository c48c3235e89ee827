"""Reader of new entries of a Redfish event log: schema LogEntry of DMTF DSP0268."""

import contextlib
import logging
import re
from collections.abc import Iterator

from agent.collectors.bmc import naming
from agent.collectors.bmc.point import LogEntry, Place
from agent.collectors.bmc.redfish_client import RESOURCE_ERRORS, RedfishClient, Resource, children, link, text_field
from agent.collectors.bmc.redfish_points import seconds_of
from telemetry.clock import NS_PER_S, Clock
from telemetry.records import EventKind, Severity

logger = logging.getLogger(__name__)

# The hardware log: by LogEntryType, else by the names that vendors use (iDRAC, iLO, OpenBMC, XCC).
_NAMES = ("SEL", "IEL", "EventLog", "Event", "Log1", "PlatformLog", "StandardLog")
_OWNERS = ("Managers", "Systems", "Chassis")
# heuristic: pages of a log that are read at one time.
_MAX_PAGES = 10
_SEVERITIES = {"Critical": Severity.CRITICAL, "Warning": Severity.WARNING}
_SUPPLY = re.compile(r"\bpsu|power suppl|\bps ?\d|\bac (?:input|lost)|input (?:lost|power)|\bvin\b", re.IGNORECASE)
_FAN = re.compile(r"\bfan", re.IGNORECASE)
_HEAT = re.compile(r"temp(?:erature)?\b|thermal|overheat", re.IGNORECASE)
_UNIT = re.compile(r"(?:psu|ps|power[ _]?supply)[ _#-]?\d+", re.IGNORECASE)
_FAN_UNIT = re.compile(r"(?:sys_)?fan[ _-]?\w*\d+\w*", re.IGNORECASE)
_MAX_TEXT = 500
# End of the identity of an entry that is listed without a time.
_NO_TIME = "@"


class RedfishLog:
    """The log of one service.

    Known entries are remembered by path and time, so a log that was cleared and restarts its numbers is reported in
    full, and no entry twice. Where a service lists only paths, a log that is shorter than before was cleared.
    """

    def __init__(self, client: RedfishClient, *, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._service: str | None = None
        self._entries: str | None = None
        self._seen: frozenset[str] | None = None
        self._warned_long = False

    def begin(self, root: Resource) -> None:
        """Find the log; the first time also its end, so that old entries are not reported."""
        if self._entries is None:
            found = next(self._services(root), None)
            if found is None:
                logger.debug("%s has no event log", self._client.name)
                return
            self._service, self._entries = found
        with contextlib.suppress(*RESOURCE_ERRORS):  # read again by `new_entries`, which reports errors
            if self._seen is None:
                self._seen = frozenset(self._listed(self._entries))

    def new_entries(self) -> tuple[LogEntry, ...]:
        """Return new entries, oldest first; none the first time."""
        if self._entries is None:
            return ()
        listed = self._listed(self._entries)
        seen = frozenset(listed) if self._seen is None else self._seen
        if len(listed) < len(seen):
            seen = frozenset(identity for identity in seen if not identity.endswith(_NO_TIME))
        new = [self._whole(entry) for identity, entry in listed.items() if identity not in seen]
        offset_s = self._offset_s() if new else None
        now_ns = self._clock.utc_ns()
        entries = [_entry(entry, now_ns=now_ns, offset_s=offset_s) for entry in new]
        self._seen = frozenset(listed)
        return tuple(sorted(entries, key=lambda entry: entry.time_ns))

    def _listed(self, path: str) -> dict[str, Resource]:
        """Return the entries by their identity; some are only a link."""
        found: dict[str, Resource] = {}
        for _ in range(_MAX_PAGES):
            page = self._client.get_tagged(path)
            found |= {_identity(member): member for member in children(page, "Members")}
            following = page.get("Members@odata.nextLink")
            if not isinstance(following, str) or not following.startswith("/"):
                return found
            path = following
        if not self._warned_long:
            self._warned_long = True
            logger.warning("%s: event log has more than %d pages; ignoring the rest", self._client.name, _MAX_PAGES)
        return found

    def _whole(self, entry: Resource) -> Resource:
        """Return an entry with its fields, fetched if the list has only a link; the link where that fails."""
        at = link(entry)
        if at is None or "Message" in entry or "Created" in entry:
            return entry
        try:
            return self._client.get(at)
        except RESOURCE_ERRORS as err:
            logger.debug("cannot read log entry: %s", err)
            return entry

    def _services(self, root: Resource) -> Iterator[tuple[str, str]]:
        """Yield the logs, each with the path of its entries, the most likely one first."""
        holders = (holder for owner in _OWNERS for holder in self._followed(root, owner))
        found = sorted((service for holder in holders for service in self._followed(holder, "LogServices")), key=_rank)
        for service in found:
            path, entries = link(service), link(service, "Entries")
            if path is not None and entries is not None and _rank(service) <= len(_NAMES):
                yield path, entries

    def _followed(self, resource: Resource, name: str) -> Iterator[Resource]:
        """Yield members of a collection, without those that this user may not read, such as OpenBMC's crash dumps."""
        path = link(resource, name)
        collection = None if path is None else self._readable(path)
        for member in () if collection is None else children(collection, "Members"):
            at = link(member)
            found = None if at is None else self._readable(at)
            if found is not None:
                yield found

    def _readable(self, path: str) -> Resource | None:
        try:
            return self._client.get(path)
        except RESOURCE_ERRORS as err:
            logger.debug("ignoring log: %s", err)
            return None

    def _offset_s(self) -> float | None:
        """Return the seconds by which this node's clock is ahead of the log's; None where the log shows no clock."""
        if self._service is None:
            return None
        its_s = seconds_of(text_field(self._client.get(self._service), "DateTime"))
        return None if its_s is None else self._clock.utc_ns() / NS_PER_S - its_s


def _rank(service: Resource) -> int:
    if text_field(service, "LogEntryType") == "SEL":
        return 0
    name = text_field(service, "Id")
    return 1 + _NAMES.index(name) if name in _NAMES else 1 + len(_NAMES)


def _identity(entry: Resource) -> str:
    return f"{link(entry) or text_field(entry, 'Id')}{_NO_TIME}{text_field(entry, 'Created')}"


def _entry(entry: Resource, *, now_ns: int, offset_s: float | None) -> LogEntry:
    message = text_field(entry, "Message")[:_MAX_TEXT] or text_field(entry, "MessageId") or "entry without a message"
    text = f"{text_field(entry, 'SensorType')} {message}"
    kind, place, unit = _classify(text)
    created_s = seconds_of(text_field(entry, "Created"))
    time_ns = now_ns
    if created_s is not None and offset_s is not None:
        time_ns = min(now_ns, round((created_s + offset_s) * NS_PER_S))
    return LogEntry(
        id=_identity(entry),
        time_ns=time_ns,
        kind=kind,
        severity=_SEVERITIES.get(text_field(entry, "Severity"), Severity.INFO),
        message=message,
        place=place,
        unit=unit,
    )


def _classify(text: str) -> tuple[EventKind, Place, str]:
    if _SUPPLY.search(text):
        named = _UNIT.search(text)
        return EventKind.SUPPLY, Place.SUPPLY, "" if named is None else naming.supply_unit(named[0])
    if _FAN.search(text):
        named = _FAN_UNIT.search(text)
        return EventKind.FAN, Place.FAN, "" if named is None else naming.fan_unit(named[0])
    return (EventKind.BOARD_HEAT if _HEAT.search(text) else EventKind.BOARD), Place.BOARD, ""
