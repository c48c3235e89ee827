"""When new rows wake the guard: at once where a rail is low, else as often as everything else needs it."""

from collections.abc import Callable, Mapping

from agent.ring.ring import RingTable
from telemetry.cells import CellView
from telemetry.clock import Clock

# Heuristic: a step of all detectors costs about 2 ms right after a sleep; what is not a sag of a rail has time.
EVERY_S = 0.1
_VOLTAGES = ("voltage_v", "voltage_min_v")


class Waking:
    """Passes on what the sampler tells of new rows; `note` may be called from the thread that wrote the row.

    Parameters
    ----------
    wake
        Wakes the guard.
    low_v
        Below this a rail cannot wait.
    on_low
        Told of the table and its newest row where a rail is low, before the guard wakes; it may not block or raise.
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
        self._low_v = low_v
        self._rails = {
            name: (table, _voltages(table)) for name, table in tables.items() if "voltage_v" in table.spec.signals
        }
        self._last_s = -EVERY_S

    def note(self, name: str) -> None:
        """Learn that a table has a new row."""
        is_low = self._look(name)
        now_s = self._clock.monotonic_s()
        if is_low or now_s - self._last_s >= EVERY_S:
            self._last_s = now_s
            self._wake()

    def _look(self, name: str) -> bool:
        """Return whether the newest row shows a low rail, and pass it on if so."""
        rails = self._rails.get(name)
        if rails is None:
            return False
        table, voltages = rails
        row = table.newest()
        for cell in voltages:
            if row[cell] < self._low_v:  # what is absent is not low
                self._on_low(name, row)
                return True
        return False


def _voltages(table: RingTable) -> tuple[int, ...]:
    """Return where the voltages lie in a row."""
    entities, signals = table.spec.shape
    columns = [table.spec.signals.index(signal) for signal in _VOLTAGES if signal in table.spec.signals]
    return tuple(row * signals + column for row in range(entities) for column in columns)
