"""The board controller behind its collectors and event source: one of them reads it, the others use what it read."""

import logging
import math
import threading
from collections.abc import Mapping
from types import MappingProxyType

from agent.collectors.bmc.layout import AGE, Layout, TableLayout, lay_out, signals_by_point
from agent.collectors.bmc.point import BoardLink, LogEntry, Place
from agent.collectors.bmc.settings import RARE_FROM_S
from telemetry.clock import Clock
from telemetry.controller_names import unit_key
from telemetry.entities import EntityKind
from telemetry.errors import RailwatchError
from telemetry.frames import FloatArray
from telemetry.records import Event
from telemetry.signals import RateClass, Signal

logger = logging.getLogger(__name__)

# heuristic, in intervals: a value that was not read for so long is dropped, as for rare sources.
_HELD_INTERVALS = 3
# heuristic: sensors and log wait so long for one another at most, and each is then tried at its next turn. A longer
# wait for one that hangs would exceed the time limit of a read.
_TURN_WAIT_S = 0.5
# heuristic: a lost supply is reported within seconds; where a read takes long, as of a Redfish log with many pages,
# it uses no more than a fifth of the controller's time.
_POLL_EVERY_S = 2.0
_MAX_SHARE = 0.2


class Board:
    """The controller of this node.

    `sweep` and `new_entries` are called from two threads and take turns; `values` never waits.

    `interval_s` is the time from one round over all sensors to the next. `layout` has the tables, None until the
    controller was reached once; `refused` counts implausible values, which are reported as absent.
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
        self._warned_new_parts = False
        self._signals: Mapping[str, Signal] = MappingProxyType({})
        self._logged: set[str] = set()
        self.refused = 0

    def survey(self) -> Layout:
        """Connect and return the tables; raises the errors of the link."""
        with self._lock:
            self._open()
        if self.layout is None:
            raise AssertionError
        return self.layout

    def sweep(self) -> None:
        """Read all sensors if due, unless the log is being read; raises the errors of the link.

        After an error the next call reconnects.
        """
        # Half a second of slack, so that a tick exactly at the interval is not early.
        if self._is_open and self._clock.monotonic_s() - self._read_at_s < self.interval_s - 0.5:
            return
        if not self._lock.acquire(timeout=_TURN_WAIT_S):
            return
        try:
            self._round()
        finally:
            self._lock.release()

    def values(self) -> Mapping[str, float]:
        """Return the newest values by key of their point; none once they are too old."""
        is_old = self._clock.monotonic_s() - self._read_at_s > _HELD_INTERVALS * self.interval_s
        return MappingProxyType({}) if is_old else self._values

    @property
    def age_s(self) -> float:
        """Seconds since any value changed: a frozen controller still responds. NaN before the first value."""
        age_s = self._clock.monotonic_s() - self._changed_at_s
        return age_s if math.isfinite(age_s) else math.nan

    def new_entries(self) -> tuple[LogEntry, ...]:
        """Return new log entries; none while there is no connection, which `sweep` reports."""
        if not self._lock.acquire(timeout=_TURN_WAIT_S):
            return ()
        try:
            if not self._is_open:
                return ()
            try:
                return self.link.new_entries()
            except RailwatchError as err:
                logger.debug("cannot read event log of %s: %s", self.link.name, err)
                self._drop()
                return ()
        finally:
            self._lock.release()

    def close(self) -> None:
        """Close the connection; closing twice is harmless."""
        if self._lock.acquire(timeout=_TURN_WAIT_S):
            try:
                self._drop()
            finally:
                self._lock.release()

    def _round(self) -> None:
        """Read all sensors once; the caller holds the lock."""
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
        """Return the value of a point, NaN where it is implausible: counted, and logged once per point."""
        signal = self._signals.get(key)
        if signal is None or signal.is_plausible(value):
            return value
        self.refused += 1
        if key not in self._logged:
            self._logged.add(key)
            logger.warning("%s: ignoring value of %s: %g, expected %s", self.link.name, key, value, signal.range_text)
        return math.nan

    def _open(self) -> None:
        """Connect unless connected; the caller holds the lock."""
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
        elif _entities(layout) - _entities(self.layout) and not self._warned_new_parts:
            self._warned_new_parts = True
            logger.warning("%s has new supplies or fans; restart railwatch to read them", self.link.name)

    def _drop(self) -> None:
        """Close the connection; the caller holds the lock."""
        self._is_open = False
        self.link.close()


def _entities(layout: Layout) -> set[str]:
    tables = [table for table in (layout.supplies, layout.fans) if table is not None]
    return {entity.id for table in tables for entity in table.spec.entities}


def _differ(new: Mapping[str, float], old: Mapping[str, float]) -> bool:
    return new.keys() != old.keys() or any(
        value != old[key] and not (math.isnan(value) and math.isnan(old[key])) for key, value in new.items()
    )


class BoardNode:
    """The node as its controller measures it. Only this collector reads the controller, and fails when it hangs.

    A round takes from milliseconds over LAN to seconds through the kernel's device.
    """

    def __init__(self, board: Board, table: TableLayout) -> None:
        self.name = table.spec.name
        self.spec = table.spec
        self.rate = RateClass.RARE if board.interval_s >= RARE_FROM_S else RateClass.SLOW
        self._board = board
        self._table = table
        self._age = table.spec.signals.index(AGE)

    @property
    def refused(self) -> int:
        """Implausible values of the controller so far, including its supplies and fans."""
        return self._board.refused

    def open(self) -> None:
        """Do nothing: a read connects."""

    def read(self, values: FloatArray) -> None:
        """Fill ``(1, n_signals)``; raises the errors of the controller's link."""
        self._board.sweep()
        self._table.fill(self._board.values(), values)
        values[0, self._age] = self._board.age_s

    def close(self) -> None:
        """Close the connection; closing twice is harmless."""
        self._board.close()


class BoardTable:
    """The supplies or the fans of the controller: values of the last round, NaN once too old. Never waits."""

    rate = RateClass.SLOW

    def __init__(self, board: Board, table: TableLayout) -> None:
        self.name = table.spec.name
        self.spec = table.spec
        self._board = board
        self._table = table

    def open(self) -> None:
        """Do nothing: the node's collector connects."""

    def read(self, values: FloatArray) -> None:
        """Fill ``(n_entities, n_signals)``."""
        self._table.fill(self._board.values(), values)

    def close(self) -> None:
        """Do nothing: the node's collector closes the connection."""


class BoardLog:
    """New entries of the controller's log, each one once.

    While the controller does not respond there are no events: its collector reports the failure.
    """

    name = "bmc_log"

    def __init__(self, board: Board, *, node: str, clock: Clock) -> None:
        self._board = board
        self._node = node
        self._clock = clock
        self._due_s = 0.0

    def open(self) -> None:
        """Do nothing: the board opens the connection."""

    def poll(self, timeout_s: float) -> tuple[Event, ...]:
        """Return new entries if a poll is due, else wait up to the time-out."""
        now_s = self._clock.monotonic_s()
        if now_s < self._due_s:
            self._clock.sleep_until(min(self._due_s, now_s + timeout_s))
            return ()
        entries = self._board.new_entries()
        self._due_s = now_s + max(_POLL_EVERY_S, (self._clock.monotonic_s() - now_s) / _MAX_SHARE)
        return tuple(self._event(entry) for entry in entries)

    def close(self) -> None:
        """Do nothing: the board closes the connection."""

    def _event(self, entry: LogEntry) -> Event:
        return Event(
            id=f"bmc:{self._node}:{entry.id}",
            time_ns=entry.time_ns,
            kind=entry.kind,
            entity_id=self._entity_id(entry),
            code=entry.code,
            severity=entry.severity,
            message=entry.message,
            sources=(self.name,),
        )

    def _entity_id(self, entry: LogEntry) -> str:
        """Return the supply or fan of the entry if a table has it, else the node."""
        layout = self._board.layout
        tables = {} if layout is None else {Place.SUPPLY: layout.supplies, Place.FAN: layout.fans}
        table = tables.get(entry.place)
        if table is not None and entry.unit:
            found = next((e.id for e in table.spec.entities if e.key == unit_key(entry.unit)), None)
            if found is not None:
                return found
        return f"{EntityKind.NODE}:{self._node}"
