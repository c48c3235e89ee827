"""Wakes the guard for new rows: at once where it must answer at once, else at a steady rate."""

import math
from collections.abc import Callable, Mapping

from agent.ring.ring import RingTable
from physics.rail_classes import LEAST_PLAUSIBLE_RATIO, assumed_nominal_v, limit_scale
from telemetry.clock import Clock
from telemetry.frames import CellView
from telemetry.gpu import REASON_HW_SLOWDOWN, REASON_HW_THERMAL, REASON_POWER_BRAKE

# heuristic: a step of all detectors takes about 3 ms right after a sleep. What does not wake the guard at once is
# temperatures, which are read once a second, and what lasts for longer.
EVERY_S = 0.3
# Bits of a GPU's throttle reasons that the guard acts on.
_URGENT_REASONS = REASON_POWER_BRAKE | REASON_HW_SLOWDOWN | REASON_HW_THERMAL
_VOLTAGES = ("voltage_v", "voltage_min_v")
_REASONS = "throttle_reasons"


class Waking:
    """Wakes the guard for new rows; `note` may be called from the thread that wrote the row.

    Parameters
    ----------
    wake
        Wakes the guard.
    low_v
        A rail below this at 12 V, or below the same share of its nominal voltage, wakes the guard at once, and so does
        a GPU whose hardware slows it down or that is lost. A rail that is off does not: it stays so.
    on_low
        Called with the table and its newest row where a rail is low, before the guard wakes; it may not block or raise.
    """

    def __init__(
        self,
        tables: Mapping[str, RingTable],
        wake: Callable[[], None],
        clock: Clock,
        *,
        low_v: float,
        on_low: Callable[[str, CellView], None] = lambda _name, _row: None,
    ) -> None:
        self._wake = wake
        self._on_low = on_low
        self._clock = clock
        self._rails = {
            name: (table, _low_cells(table, low_v))
            for name, table in tables.items()
            if "voltage_v" in table.spec.signals
        }
        self._gpus = {name: _GpuRows(table) for name, table in tables.items() if _REASONS in table.spec.signals}
        self._last_s = -EVERY_S

    def note(self, name: str) -> None:
        """Wake the guard for a table's new row where that is due."""
        is_urgent = self._is_low(name) or (name in self._gpus and self._gpus[name].changed())
        now_s = self._clock.monotonic_s()
        if is_urgent or now_s - self._last_s >= EVERY_S:
            self._last_s = now_s
            self._wake()

    def _is_low(self, name: str) -> bool:
        """Return True if the newest row shows a low rail, and report it."""
        rails = self._rails.get(name)
        if rails is None:
            return False
        table, voltages = rails
        row = table.newest()
        for cell, least_v, low_v in voltages:
            if least_v < row[cell] < low_v:  # what is absent or off is not low
                self._on_low(name, row)
                return True
        return False


class _GpuRows:
    """The throttle reasons of a table's newest row, to be compared with those of the next."""

    def __init__(self, table: RingTable) -> None:
        self._table = table
        self._cells = _cells(table, (_REASONS,))
        self._before = [0.0] * len(self._cells)

    def changed(self) -> bool:
        """Return True if an urgent reason came or went, or a GPU disappeared or came back, since the last call."""
        row = self._table.newest()
        now = [row[cell] for cell in self._cells]
        before, self._before = self._before, now
        if now == before:
            return False
        return any(
            (math.isnan(old) != math.isnan(new))
            if old != old or new != new  # noqa: PLR0124 -- one is absent
            else (int(old) ^ int(new)) & _URGENT_REASONS != 0
            for old, new in zip(before, now, strict=True)
        )


def _low_cells(table: RingTable, low_v: float) -> tuple[tuple[int, float, float], ...]:
    """Return where the voltages lie in a row, each with the least plausible one and the limit of its rail.

    `low_v` is the limit at 12 V.
    """
    _, signals = table.spec.shape
    nominals_v = [assumed_nominal_v(entity) for entity in table.spec.entities]
    limits = [(LEAST_PLAUSIBLE_RATIO * one, low_v * limit_scale(one)) for one in nominals_v]
    return tuple((cell, *limits[cell // signals]) for cell in _cells(table, _VOLTAGES))


def _cells(table: RingTable, names: tuple[str, ...]) -> tuple[int, ...]:
    """Return where some signals lie in a row."""
    entities, signals = table.spec.shape
    columns = [table.spec.signals.index(signal) for signal in names if signal in table.spec.signals]
    return tuple(row * signals + column for row in range(entities) for column in columns)
