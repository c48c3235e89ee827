"""Power of a GPU over its clock and its load, as a share of that at the highest clock under full load."""

from bisect import bisect_left
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerCurve:
    """Power as a share of the power at the highest clock under full load.

    ``share(x, u) = idle + (static - idle) u + (1 - static) u x v(x)^2`` with ``x`` the clock over the highest clock,
    ``u`` the load from 0 to 1 and ``v`` the core voltage, which falls in a line from 1 at ``x = 1`` to `voltage_floor`
    at `knee` and stays there: the CMOS law ``P = C f V^2`` over a floor that no clock changes.

    Defaults are a V100 SXM2: 40 to 45 W idle, about 350 W at 1530 MHz and about 205 W at 1005 MHz under the same
    training load (https://blbadger.github.io/gpu-server). The split into static and dynamic power and the floor are
    assumptions that fit those points; the floor only matters below half of the highest clock.
    """

    idle: float = 0.12
    static: float = 0.323
    voltage_floor: float = 0.65
    knee: float = 0.48

    def share(self, clock_ratio: float, load: float = 1.0) -> float:
        """Return the power at this clock and load over that at the highest clock and full load."""
        ratio = min(max(clock_ratio, 0.0), 1.0)
        slope = (1.0 - self.voltage_floor) / (1.0 - self.knee)
        voltage = max(self.voltage_floor, 1.0 - slope * (1.0 - ratio))
        return self.idle + (self.static - self.idle) * load + (1.0 - self.static) * load * ratio * voltage**2

    def load_of(self, share: float, clock_ratio: float) -> float:
        """Return the load from 0 to 1 at which the power at this clock is that share: `share` inverted."""
        idle = self.share(clock_ratio, 0.0)
        span = self.share(clock_ratio, 1.0) - idle
        if span <= 0.0:  # at no clock, on a curve whose static share is idle alone, every load draws the same
            return 0.0
        return min(max((share - idle) / span, 0.0), 1.0)


# A V100's; also of a board of which nothing at all is known, not even its name (`physics.board_curve` has the others).
DEFAULT_CURVE = PowerCurve()


@dataclass(frozen=True, slots=True, kw_only=True)
class HeightCurve:
    """Power as a share of that at the highest clock under full load, by points: ``idle + (1 - idle) u h(x)``.

    Parameters
    ----------
    ratios
        Clocks over the highest clock, ascending to 1.
    idle
        Share without a load.
    heights
        ``h`` at these clocks, not falling, 1 at the last; linear between them, the first below the first.
    """

    ratios: tuple[float, ...]
    idle: float
    heights: tuple[float, ...]

    def share(self, clock_ratio: float, load: float = 1.0) -> float:
        """Return the power at this clock and load over that at the highest clock and full load."""
        return self.idle + (1.0 - self.idle) * load * self._height(clock_ratio)

    def load_of(self, share: float, clock_ratio: float) -> float:
        """Return the load from 0 to 1 at which the power at this clock is that share: `share` inverted."""
        span = (1.0 - self.idle) * self._height(clock_ratio)
        return min(max((share - self.idle) / span, 0.0), 1.0) if span > 0.0 else 0.0

    def _height(self, clock_ratio: float) -> float:
        place = bisect_left(self.ratios, clock_ratio)
        if place == 0:
            return self.heights[0]
        if place == len(self.ratios):
            return self.heights[-1]
        below, above = self.ratios[place - 1], self.ratios[place]
        low, high = self.heights[place - 1], self.heights[place]
        return low + (high - low) * (clock_ratio - below) / (above - below)
