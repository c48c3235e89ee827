"""Voltage and current of one rail as a pair, with the lowest voltage and the highest current since the last row."""

import math
import threading

from agent.collectors.hwmon.tree import Rail
from agent.collectors.sysfs.attribute_file import AttributeFile
from physics.rail_classes import limit_scale

_MILLI = 1e-3
_NAN = float("nan")
# heuristic: a conversion that failed shows 0 V once; a supply that is off shows it in row after row.
_OFF_ROWS = 2
# heuristic: as `analytics.supply.branches.MIN_USUAL_A`, above the offset of a sensor that carries nothing.
_OFF_A = 3.0


class RailPair:
    """Reads one rail repeatedly.

    Where one chip converts both (an INA2xx on a shunt), the voltage is read once more after the current: the same
    number twice means that the current in between is of the same conversion, and where it changed the current is read
    again with the new voltage. A PMBus supply converts them one after the other; that skew is the supply's own, and
    the rail is tagged with it.

    A voltage too low for the rail's class is dropped as a failed conversion, until the last two rows saw nothing else
    and no current: then the supply is off, and what it shows is true.

    Attributes
    ----------
    voltage_v, current_a
        The newest pair; NaN where it is absent, and for a voltage that is implausible for the rail's class.
    voltage_changes, current_changes
        Reads so far that found a new number.
    implausible
        Voltages that were read and dropped, so far.
    limit_scale
        Limits of the rail over those at 12 V; NaN without limits.
    """

    def __init__(self, rail: Rail) -> None:
        self.voltage_v = _NAN
        self.current_a = _NAN
        self.implausible = 0
        self.voltage_changes = self.current_changes = 0
        self._lowest_v, self._highest_v = rail.rail_class.plausible_v
        self.limit_scale = limit_scale(rail.rail_class.nominal_v)
        self._voltage = AttributeFile(rail.voltage, factor=_MILLI)
        self._current = None if rail.current is None else AttributeFile(rail.current, factor=_MILLI)
        self._together = rail.one_conversion
        self._lock = threading.Lock()
        self._min_v = math.inf
        self._max_a = -math.inf
        self._is_dead = False  # the newest pair is that of a supply that is off
        self._dead_rows = 0

    @property
    def refused(self) -> int:
        """Reads so far that returned no number, or an implausible one."""
        files = (self._voltage,) if self._current is None else (self._voltage, self._current)
        return self.implausible + sum(file.refused + file.failed for file in files)

    def is_low(self, below_v: float) -> bool:
        """Return True if the newest voltage is below one, and not that of a supply that is off."""
        return self._lowest_v <= self.voltage_v < below_v

    def read(self) -> bool:
        """Read the pair and update its extremes; return True if the pair has changed."""
        voltage_v, current_a = self._voltage.read(), _NAN
        if self._current is not None:
            current_a = self._current.read()
            if self._together and (again_v := self._voltage.read()) != voltage_v:
                voltage_v, current_a = again_v, self._current.read()
        if (
            voltage_v == self.voltage_v
            and (current_a == self.current_a or self._current is None)
            and self._min_v <= voltage_v  # the first read after a row sets its extremes, changed or not
            and (self._current is None or self._max_a >= current_a)
        ):
            return False
        is_dead = voltage_v < self._lowest_v and abs(current_a) < _OFF_A
        if not (self._lowest_v <= voltage_v <= self._highest_v or (is_dead and self._dead_rows >= _OFF_ROWS)):
            self.implausible += not math.isnan(voltage_v)
            voltage_v = _NAN
        new_v = voltage_v != self.voltage_v and not math.isnan(voltage_v)
        new_a = current_a != self.current_a and not math.isnan(current_a)
        with self._lock:  # never held during a read, which may hang
            self.voltage_v, self.current_a, self._is_dead = voltage_v, current_a, is_dead
            self._dead_rows = self._dead_rows if is_dead else 0
            # Python's min and max return the first of two where the second is NaN, so absent values change no extreme.
            self._min_v = min(self._min_v, voltage_v)
            self._max_a = max(self._max_a, current_a)
        self.voltage_changes += new_v
        self.current_changes += new_a
        return new_v or new_a

    def take(self) -> tuple[float, float, float, float]:
        """Return the newest pair with the lowest voltage and the highest current since the last call; reset both.

        Without a read since then, the extremes are those of the newest pair.
        """
        with self._lock:
            lowest_v = self.voltage_v if self._min_v == math.inf else self._min_v
            highest_a = self.current_a if self._max_a == -math.inf else self._max_a
            self._min_v, self._max_a = math.inf, -math.inf
            self._dead_rows += self._is_dead
            return self.voltage_v, self.current_a, lowest_v, highest_a

    def close(self) -> None:
        """Close the descriptors; closing twice is harmless."""
        self._voltage.close()
        if self._current is not None:
            self._current.close()
