"""Board controller over Redfish: sensors, power supplies and cooling of its chassis, and its event log."""

import logging
import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from agent.collectors.bmc.point import LogEntry, Place, Point, Quantity
from agent.collectors.bmc.redfish_client import (
    RESOURCE_ERRORS,
    RedfishClient,
    Resource,
    child,
    children,
    link,
    text_field,
)
from agent.collectors.bmc.redfish_log import RedfishLog
from agent.collectors.bmc.redfish_points import Extract, Extractor, OddValues, RedfishReading, supply_unit
from telemetry.clock import Clock
from telemetry.errors import NotSupportedError, RailwatchError, TransientError

logger = logging.getLogger(__name__)

# heuristic: a sensor whose time stamp is so far behind the newest one is no longer measured.
_STALE_S = 60.0
# Key of the newest time stamp of the service's sensors, returned with the values so that it counts as a change.
NEWEST_READING = "newest_reading"
_MAX_CHASSIS = 32
# heuristic: resources that may fail to respond while the service is surveyed.
_MAX_FAILURES = 3
# ChassisType (schema Chassis) of a whole node; others are parts of one, or hold several.
_NODE_TYPES = frozenset({"", "Blade", "Other", "RackMount", "Sled", "StandAlone"})
_THERMAL = frozenset({Quantity.TEMPERATURE, Quantity.FAN_SPEED, Quantity.FAN_DUTY})


@dataclass(frozen=True, slots=True, kw_only=True)
class RedfishPage:
    """A resource that is read each round, and the function that extracts its readings."""

    path: str
    extract: Extract


class RedfishLink:
    """A `BoardLink` over Redfish.

    `round_s` is the time limit of one round over all sensors; `odd` counts values that were neither a number nor
    absent.
    """

    def __init__(self, client: RedfishClient, *, clock: Clock, round_s: float) -> None:
        self._client = client
        self._round_s = round_s
        self._clock = clock
        self.odd = OddValues()
        self._extractor = Extractor(self.odd)
        self._pages: deque[RedfishPage] = deque()
        self._values: dict[str, float] = {}
        self._measured_s: dict[str, float] = {}
        self._keys_of: dict[str, tuple[str, ...]] = {}
        self._warned_odd = self._warned_log = False
        self._log = RedfishLog(client, clock=clock)
        self.name = client.name

    def open(self) -> tuple[Point, ...]:
        """Log in, find the chassis and return every point that can be measured.

        NotSupportedError where the service has no chassis.
        """
        root = self._client.root()
        points: dict[str, Point] = {}
        for held in (self._pages, self._values, self._measured_s, self._keys_of):
            held.clear()
        failures: list[RailwatchError] = []
        every = self._members(root, "Chassis")[:_MAX_CHASSIS]
        for chassis in every:
            is_node = len(every) == 1 or text_field(chassis, "ChassisType") in _NODE_TYPES
            points |= self._survey(chassis, failures, expand=_expand(root), is_node=is_node)
        if failures:
            logger.warning(
                "%s: ignoring %d unreadable resources, the last one: %s",
                self.name,
                len(failures),
                failures[-1],
            )
        if not points:
            raise failures[-1] if failures else NotSupportedError(f"{self.name} has no chassis with sensors")
        self._log.begin(root)
        return tuple(points.values())

    def read(self) -> Mapping[str, float]:
        """Return the values by key; pages that did not fit into the time limit keep their values of the previous round.

        A page that fails has NaN for its values; other pages are not affected.
        """
        end_s = self._clock.monotonic_s() + self._round_s
        failure: RailwatchError | None = None
        some, silent = False, 0
        for _ in range(len(self._pages)):
            page = self._pages[0]
            self._pages.rotate(-1)
            try:
                self._read(page)
            except (*RESOURCE_ERRORS, TransientError) as err:
                self._forget(page)
                failure, silent = err, 0 if isinstance(err, RESOURCE_ERRORS) else silent + 1
                if silent > 1:  # two in a row without a response are no failure of one page
                    raise
            else:
                some, silent = True, 0
            if self._clock.monotonic_s() > end_s:
                break
        if failure is not None and not some:
            raise failure
        self._warn_odd()
        return self._fresh()

    def new_entries(self) -> tuple[LogEntry, ...]:
        """Return new log entries; a log that cannot be read does not affect the sensors."""
        try:
            entries = self._log.new_entries()
        except RESOURCE_ERRORS as err:
            if not self._warned_log:
                self._warned_log = True
                logger.warning("cannot read event log, will retry: %s", err)
            return ()
        self._warned_log = False
        return entries

    def close(self) -> None:
        """Close session and connection."""
        self._client.close()

    def _read(self, page: RedfishPage) -> list[RedfishReading]:
        readings = list(page.extract(self._client.get(page.path)))
        self._forget(page)  # a part that it no longer shows is gone: a supply that was pulled
        self._keys_of[page.path] = tuple(reading.point.key for reading in readings)
        for reading in readings:
            self._values[reading.point.key] = reading.value
            if reading.measured_s is not None:
                self._measured_s[reading.point.key] = reading.measured_s
        return readings

    def _forget(self, page: RedfishPage) -> None:
        for key in self._keys_of.get(page.path, ()):
            self._values[key] = math.nan
            self._measured_s.pop(key, None)

    def _fresh(self) -> Mapping[str, float]:
        """Return the values, NaN for those that the service has not measured for too long."""
        if not self._measured_s:
            return dict(self._values)
        newest_s = max(self._measured_s.values())
        stale = {key for key, measured_s in self._measured_s.items() if newest_s - measured_s > _STALE_S}
        values = {key: math.nan if key in stale else value for key, value in self._values.items()}
        return values | {NEWEST_READING: newest_s}

    def _warn_odd(self) -> None:
        if self.odd.count and not self._warned_odd:
            self._warned_odd = True
            logger.warning("%s: ignoring values that are no numbers, such as %s", self.name, self.odd.example)

    def _survey(
        self, chassis: Resource, failures: list[RailwatchError], *, expand: str, is_node: bool
    ) -> Mapping[str, Point]:
        """Read every page of a chassis; keep those with points, and append errors to `failures`."""
        found: dict[str, Point] = {}
        for page in self._pages_of(chassis, found, expand=expand, is_node=is_node):
            try:
                readings = self._read(page)
            except NotSupportedError:
                continue
            except (*RESOURCE_ERRORS, TransientError) as err:
                failures.append(err)
                if sum(not isinstance(failure, RESOURCE_ERRORS) for failure in failures) > _MAX_FAILURES:
                    raise
                continue
            if readings:
                self._pages.append(page)
                found |= {reading.point.key: reading.point for reading in readings}
        return found

    def _members(self, resource: Resource, name: str) -> list[Resource]:
        """Return the members of a collection that a resource links to, without those that cannot be read."""
        path = link(resource, name)
        if path is None:
            return []
        found = []
        for member in children(self._client.get(path), "Members"):
            at = link(member)
            if at is None:
                continue
            try:
                found.append(self._client.get(at))
            except RESOURCE_ERRORS as err:
                logger.debug("ignoring resource: %s", err)
        return found

    def _pages_of(
        self, chassis: Resource, found: Mapping[str, Point], *, expand: str, is_node: bool
    ) -> Iterator[RedfishPage]:
        """Yield the resources of a chassis to read, the newer schema first: it takes precedence over the older one.

        `found` are the points of the pages yielded so far.
        """
        extract = self._extractor
        yield from self._sensor_pages(chassis, expand=expand)
        supplies = list(self._supply_pages(chassis))
        yield from supplies
        wanted: list[tuple[str, Callable[[Resource], Iterator[RedfishReading]]]] = []
        if is_node:
            wanted.append(("EnvironmentMetrics", extract.environment))
        if not supplies:
            wanted.append(("Power", partial(extract.power, is_node=is_node)))
        if not any(point.quantity in _THERMAL and point.place is not Place.SUPPLY for point in found.values()):
            wanted.append(("Thermal", extract.thermal))
        for name, how in wanted:
            path = link(chassis, name)
            if path is not None:
                yield RedfishPage(path=path, extract=how)

    def _sensor_pages(self, chassis: Resource, *, expand: str) -> Iterator[RedfishPage]:
        path = link(chassis, "Sensors")
        if path is None:
            return
        if expand:
            yield RedfishPage(path=f"{path}{expand}", extract=self._extractor.sensors)
            return
        try:
            members = children(self._client.get(path), "Members")
        except RESOURCE_ERRORS:
            return
        for member in members:
            at = link(member)
            if at is not None:
                yield RedfishPage(path=at, extract=self._extractor.sensor)

    def _supply_pages(self, chassis: Resource) -> Iterator[RedfishPage]:
        path = link(chassis, "PowerSubsystem")
        if path is None:
            return
        try:
            supplies = self._members(self._client.get(path), "PowerSupplies")
        except RESOURCE_ERRORS:
            return
        for index, supply in enumerate(supplies):
            at = link(supply)
            if at is not None:
                yield RedfishPage(path=at, extract=partial(self._extractor.supply, index=index))
            metrics = link(supply, "Metrics")
            if metrics is not None:
                unit = supply_unit(supply, index)
                yield RedfishPage(path=metrics, extract=partial(self._extractor.supply_metrics, unit=unit))


def _expand(root: Resource) -> str:
    """Return the query that expands a collection's members, empty where unsupported; iLO supports no levels."""
    can = child(child(root, "ProtocolFeaturesSupported"), "ExpandQuery")
    if can.get("NoLinks") is not True:
        return ""
    return "?$expand=.($levels=1)" if can.get("Levels") is True else "?$expand=."
