"""One controller as several sources: it is asked by one of them, and the others take what it said."""

import logging
import math
import threading
from collections.abc import Mapping
from types import MappingProxyType

from agent.collectors.bmc.layout import Layout, lay_out, signals_by_point
from agent.collectors.bmc.point import BoardLink, LogEntry
from telemetry.clock import Clock
from telemetry.errors import RailwatchError
from telemetry.signals import Signal

logger = logging.getLogger(__name__)

# heuristic, in intervals: a value that was not read for so long is no longer held. As that of the rare sources.
_HELD_INTERVALS = 3
# heuristic: sensors and log wait so long for one another at most; each is then tried again at its next turn. Waiting
# for one that hangs, and then hanging oneself, would take longer than a read may.
_TURN_WAIT_S = 0.5


class Board:
    """The controller of this node.

    `sweep` and `new_entries` come from two threads and take turns; `values` never waits.

    Parameters
    ----------
    interval_s
        Time from one round over all sensors to the next.

    Attributes
    ----------
    layout
        The tables, None while the controller was never reached.
    refused
        Values so far that no sensor can mean; they are absent.
    """

    def __init__(
        self, link: BoardLink, *, node: str, clock: Clock, interval_s: float = 10.0, with_inlet: bool = True
    ) -> None:
        self.link = link
        self.interval_s = interval_s
        self.layout: Layout | None = None
        self._node = node
        self._clock = clock
        self._with_inlet = with_inlet
        self._lock = threading.Lock()
        self._is_open = False
        self._values: Mapping[str, float] = MappingProxyType({})
        self._read_at_s = -math.inf
        self._changed_at_s = -math.inf
        self._outgrown = False
        self._signals: Mapping[str, Signal] = MappingProxyType({})
        self._odd: set[str] = set()
        self.refused = 0

    def survey(self) -> Layout:
        """Connect and find out what there is; raises what the link raises."""
        with self._lock:
            self._open()
        if self.layout is None:
            raise AssertionError
        return self.layout

    def sweep(self) -> None:
        """Read all sensors where that is due and nobody else asks; raises what the link raises.

        After an error the next call connects anew.
        """
        # Half a second of slack: ticks that come at the very interval must not be taken for too early.
        if self._is_open and self._clock.monotonic_s() - self._read_at_s < self.interval_s - 0.5:
            return
        if not self._lock.acquire(timeout=_TURN_WAIT_S):
            return
        try:
            self._round()
        finally:
            self._lock.release()

    def values(self) -> Mapping[str, float]:
        """Return the newest values by key of their point; nothing once they are too old to be held."""
        is_old = self._clock.monotonic_s() - self._read_at_s > _HELD_INTERVALS * self.interval_s
        return MappingProxyType({}) if is_old else self._values

    @property
    def age_s(self) -> float:
        """Seconds since any value changed: a controller that stands still goes on answering. NaN before the first."""
        age_s = self._clock.monotonic_s() - self._changed_at_s
        return age_s if math.isfinite(age_s) else math.nan

    def new_entries(self) -> tuple[LogEntry, ...]:
        """Return what came into the log; nothing while there is no connection, which `sweep` tells of."""
        if not self._lock.acquire(timeout=_TURN_WAIT_S):
            return ()
        try:
            if not self._is_open:
                return ()
            try:
                return self.link.new_entries()
            except RailwatchError as err:
                logger.debug("the log of %s: %s", self.link.name, err)
                self._drop()
                return ()
        finally:
            self._lock.release()

    def close(self) -> None:
        """Let the connection go; closing twice is harmless."""
        if self._lock.acquire(timeout=_TURN_WAIT_S):
            try:
                self._drop()
            finally:
                self._lock.release()

    def _round(self) -> None:
        """Read all sensors once; under the lock."""
        self._open()
        try:
            values = {key: self._checked(key, value) for key, value in self.link.read().items()}
        except RailwatchError:
            self._drop()
            raise
        now_s = self._clock.monotonic_s()
        if _differ(values, self._values):
            self._changed_at_s = now_s
        self._values, self._read_at_s = MappingProxyType(values), now_s

    def _checked(self, key: str, value: float) -> float:
        """Return the value of a point, NaN where no sensor can mean it: that is counted, and said once."""
        signal = self._signals.get(key)
        if signal is None or signal.is_plausible(value):
            return value
        self.refused += 1
        if key not in self._odd:
            self._odd.add(key)
            logger.warning("%s: %s is refused: %g, expected %s", self.link.name, key, value, signal.range_text)
        return math.nan

    def _open(self) -> None:
        """Connect where there is no connection; under the lock."""
        if self._is_open:
            return
        try:
            points = self.link.open()
        except RailwatchError:
            self._drop()
            raise
        self._is_open = True
        layout = lay_out(points, node=self._node, with_inlet=self._with_inlet)
        self._signals = signals_by_point(layout)
        if self.layout is None:
            self.layout = layout
        elif _entities(layout) - _entities(self.layout) and not self._outgrown:
            self._outgrown = True
            logger.warning("%s has supplies or fans that were not there at start; restart to see them", self.link.name)

    def _drop(self) -> None:
        """Let the connection go; under the lock."""
        self._is_open = False
        self.link.close()


def _entities(layout: Layout) -> set[str]:
    tables = [table for table in (layout.supplies, layout.fans) if table is not None]
    return {entity.id for table in tables for entity in table.spec.entities}


def _differ(new: Mapping[str, float], old: Mapping[str, float]) -> bool:
    return new.keys() != old.keys() or any(
        value != old[key] and not (math.isnan(value) and math.isnan(old[key])) for key, value in new.items()
    )
