"""Budget of reading: above it the time between polls is stretched, below it shortened again."""

from dataclasses import dataclass

# How long a share is measured over. heuristic: long enough to leave out a single slow call.
WINDOW_S = 5.0
# heuristic: slow down fast, come back carefully, and never further apart than this.
_SLOWER, _FASTER = 1.5, 0.9
_MOST = 32.0
# Come back only from well below the budget, or it is left and entered again every few seconds. heuristic.
_ROOM = 0.6


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetSettings:
    """Shares of the wall time that the fast group may take.

    assumption: a tenth of a core, and a tenth of the time inside the driver, whose calls take its global lock: a loop
    that held it for two thirds of the time stalled an application (github.com/flightlessmango/MangoHud issue 2104).
    """

    cpu_ratio: float = 0.10
    driver_ratio: float = 0.10


class Budget:
    """Measures both shares and derives the stretch of the time between polls.

    Attributes
    ----------
    stretch
        1 within the budget, more while it slows.
    cpu_ratio, driver_ratio
        Measured over the last whole window; NaN before the first.
    """

    def __init__(self, settings: BudgetSettings) -> None:
        self._settings = settings
        self.stretch = 1.0
        self.cpu_ratio = float("nan")
        self.driver_ratio = float("nan")
        self._since: tuple[float, float, float] | None = None

    @property
    def over(self) -> str:
        """Return what is over its budget, an empty string where nothing is."""
        if self.cpu_ratio > self._settings.cpu_ratio:
            return f"CPU {self.cpu_ratio:.1%} of {self._settings.cpu_ratio:.1%}"
        if self.driver_ratio > self._settings.driver_ratio:
            return f"driver calls {self.driver_ratio:.1%} of {self._settings.driver_ratio:.1%}"
        return ""

    def spend(self, now_s: float, *, cpu_s: float, driver_s: float) -> bool:
        """Record the seconds used so far; return True where a window ended and the stretch may have changed."""
        if self._since is None or cpu_s < self._since[1] or driver_s < self._since[2]:  # a new thread starts from zero
            self._since = (now_s, cpu_s, driver_s)
            return False
        began_s, cpu_before_s, driver_before_s = self._since
        passed_s = now_s - began_s
        if passed_s < WINDOW_S:
            return False
        self._since = (now_s, cpu_s, driver_s)
        self.cpu_ratio = (cpu_s - cpu_before_s) / passed_s
        self.driver_ratio = (driver_s - driver_before_s) / passed_s
        used = max(self.cpu_ratio / self._settings.cpu_ratio, self.driver_ratio / self._settings.driver_ratio)
        if used > 1.0:
            self.stretch = min(_MOST, self.stretch * _SLOWER)
        elif used < _ROOM:
            self.stretch = max(1.0, self.stretch * _FASTER)
        return True
