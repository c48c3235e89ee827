"""A board's controller by Redfish: its chassis' sensors, power supplies and cooling, and its event log."""

import logging
import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from agent.collectors.bmc.point import LogEntry, Point
from agent.collectors.bmc.redfish_client import RedfishClient, Resource, child, children, link
from agent.collectors.bmc.redfish_log import RedfishLog
from agent.collectors.bmc.redfish_points import Extract, Extractor, OddValues, Reading, supply_unit
from telemetry.clock import Clock
from telemetry.errors import NotSupportedError, TransientError

logger = logging.getLogger(__name__)

# Own choice: what a round may take. The sampler gives rare sources 30 s; what is left over comes first in the next one.
_ROUND_S = 15.0
# Own choice: a sensor whose own time stamp lies so far behind that of the newest is no longer measured.
_STALE_S = 60.0
# The newest time stamp of the service's sensors goes with the values, so that it counts as a change.
NEWEST = "newest_reading"
_MOST_CHASSIS = 32
# Own choice: so many resources may be out of order when the service is surveyed.
_MOST_FAILURES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One resource that is read each round, and how its readings are taken out."""

    path: str
    extract: Extract


class RedfishLink:
    """A `BoardLink` over Redfish.

    Attributes
    ----------
    odd
        Values so far that were neither a number nor absent.
    """

    def __init__(self, client: RedfishClient, *, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self.odd = OddValues()
        self._extractor = Extractor(self.odd)
        self._pages: deque[Page] = deque()
        self._values: dict[str, float] = {}
        self._measured_s: dict[str, float] = {}
        self._told_odd = False
        self._log = RedfishLog(client, clock=clock)
        self.name = client.name

    def open(self) -> tuple[Point, ...]:
        """Log in, find the chassis and give every point that can be measured.

        Raises
        ------
        NotSupportedError
            The service has no chassis.
        """
        root = self._client.root()
        can_expand = _can_expand(root)
        points: dict[str, Point] = {}
        self._pages.clear()
        self._values.clear()
        self._measured_s.clear()
        failures = 0
        for chassis in self._members(root, "Chassis")[:_MOST_CHASSIS]:
            for page in self._pages_of(chassis, can_expand=can_expand):
                try:
                    readings = self._read(page)
                except NotSupportedError:
                    continue
                except TransientError:
                    failures += 1
                    if failures > _MOST_FAILURES:
                        raise
                    continue
                if readings:
                    self._pages.append(page)
                    points |= {reading.point.key: reading.point for reading in readings}
        if not points:
            raise NotSupportedError(f"{self.name} has no chassis with sensors")
        self._log.begin(root)
        return tuple(points.values())

    def read(self) -> Mapping[str, float]:
        """Give the values by key; those of a page that the round had no time for are the ones of the round before.

        A page that fails leaves its values NaN and the others alone.
        """
        end_s = self._clock.monotonic_s() + _ROUND_S
        failures: list[TransientError | NotSupportedError] = []
        for _ in range(len(self._pages)):
            page = self._pages[0]
            self._pages.rotate(-1)
            try:
                self._read(page)
            except (TransientError, NotSupportedError) as err:
                self._forget(page)
                failures.append(err)
                if len(failures) > 1:  # two in a row are no single page's trouble
                    raise
            else:
                failures.clear()
            if self._clock.monotonic_s() > end_s:
                break
        if failures and len(self._pages) == 1:
            raise failures[0]
        self._tell_odd()
        return self._fresh()

    def new_entries(self) -> tuple[LogEntry, ...]:
        """Give what came into the log."""
        return self._log.new_entries()

    def close(self) -> None:
        """End session and connection."""
        self._client.close()

    def _read(self, page: Page) -> list[Reading]:
        readings = list(page.extract(self._client.get(page.path)))
        for reading in readings:
            self._values[reading.point.key] = reading.value
            if reading.measured_s is not None:
                self._measured_s[reading.point.key] = reading.measured_s
        return readings

    def _forget(self, page: Page) -> None:
        bare = page.path.split("?", 1)[0]
        for key in self._values:
            if key == bare or key.startswith((f"{bare}#", f"{bare}/")):
                self._values[key] = math.nan

    def _fresh(self) -> Mapping[str, float]:
        """Leave out what the service itself has not measured for too long."""
        if not self._measured_s:
            return dict(self._values)
        newest_s = max(self._measured_s.values())
        stale = {key for key, measured_s in self._measured_s.items() if newest_s - measured_s > _STALE_S}
        values = {key: math.nan if key in stale else value for key, value in self._values.items()}
        return values | {NEWEST: newest_s}

    def _tell_odd(self) -> None:
        if self.odd.count and not self._told_odd:
            self._told_odd = True
            logger.warning("%s gives values that are no numbers, such as %s", self.name, self.odd.example)

    def _members(self, resource: Resource, name: str) -> list[Resource]:
        """Give the members of a collection that a resource points to; those that cannot be read are left out."""
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
            except NotSupportedError as err:
                logger.debug("left out: %s", err)
        return found

    def _pages_of(self, chassis: Resource, *, can_expand: bool) -> Iterator[Page]:
        """Give the resources of a chassis to read, the newer schema first: what it has wins over what the older has."""
        extract = self._extractor
        sensors = list(self._sensor_pages(chassis, can_expand=can_expand))
        yield from sensors
        supplies = list(self._supply_pages(chassis))
        yield from supplies
        wanted: list[tuple[str, Callable[[Resource], Iterator[Reading]]]] = [
            ("EnvironmentMetrics", extract.environment)
        ]
        if not supplies:
            wanted.append(("Power", extract.power))
        if not sensors:
            wanted.append(("Thermal", extract.thermal))
        for name, how in wanted:
            path = link(chassis, name)
            if path is not None:
                yield Page(path=path, extract=how)

    def _sensor_pages(self, chassis: Resource, *, can_expand: bool) -> Iterator[Page]:
        path = link(chassis, "Sensors")
        if path is None:
            return
        if can_expand:
            yield Page(path=f"{path}?$expand=.($levels=1)", extract=self._extractor.sensors)
            return
        try:
            members = children(self._client.get(path), "Members")
        except NotSupportedError:
            return
        for member in members:
            at = link(member)
            if at is not None:
                yield Page(path=at, extract=self._extractor.sensor)

    def _supply_pages(self, chassis: Resource) -> Iterator[Page]:
        path = link(chassis, "PowerSubsystem")
        if path is None:
            return
        try:
            supplies = self._members(self._client.get(path), "PowerSupplies")
        except NotSupportedError:
            return
        for index, supply in enumerate(supplies):
            at = link(supply)
            if at is not None:
                yield Page(path=at, extract=partial(self._extractor.supply, index=index))
            metrics = link(supply, "Metrics")
            if metrics is not None:
                unit = supply_unit(supply, index)
                yield Page(path=metrics, extract=partial(self._extractor.supply_metrics, unit=unit))


def _can_expand(root: Resource) -> bool:
    expand = child(child(root, "ProtocolFeaturesSupported"), "ExpandQuery")
    return expand.get("NoLinks") is True and expand.get("Levels") is True
