"""Site of a rack: inlet air, the voltage of a PDU, and the breaker before it."""

import math
from typing import TypeVar

from simulator.files.rack import RackAir, RackFeed
from telemetry.frames import FloatArray

_DAY_S = 86_400.0

Number = TypeVar("Number", float, FloatArray)  # one rack, or many side by side


def day_swing(time_s: float) -> float:
    """Return the phase of the day, -1 to 1: mean at its start, warmest after a quarter, coolest after three."""
    return math.sin(2.0 * math.pi * time_s / _DAY_S)


def inlet_c(air: RackAir, *, power_w: Number, noise_k: Number, time_s: float, crac_c: float | None = None) -> Number:
    """Return the temperature of the air that the nodes take in.

    Parameters
    ----------
    power_w
        What the rack draws, as its exhaust shows it; a share of that comes round.
    noise_k
        See `next_noise_k`.
    crac_c
        What the room's cooling delivers, where it differs from the file.
    """
    base_c = (air.crac_c if crac_c is None else crac_c) + air.diurnal_k * day_swing(time_s)
    return base_c + air.recirculation_k_per_w * power_w + noise_k


def next_noise_k(air: RackAir, noise_k: Number, *, after_s: float, normal: Number) -> Number:
    """Return the air's noise some time later: AR(1) whose spread stays `air.noise_k`; `normal` is a standard normal."""
    return wandered(noise_k, spread=air.noise_k, memory_s=air.noise_memory, after_s=after_s, normal=normal)


def wandered(value: Number, *, spread: float, memory_s: float, after_s: float, normal: Number) -> Number:
    """Return a value of mean zero some time later: AR(1) with the standard deviation `spread`."""
    keep = math.exp(-after_s / memory_s)
    return keep * value + spread * math.sqrt(1.0 - keep * keep) * normal


def input_ratio(feed: RackFeed, *, power_w: Number, time_s: float, mains_ratio: float = 1.0) -> Number:
    """Return the PDU's voltage over its nominal: lowest on a warm afternoon, and lower with load.

    Parameters
    ----------
    power_w
        What the nodes take from the PDU.
    mains_ratio
        What arrives, before swing and load.
    """
    return mains_ratio * (1.0 - feed.swing * day_swing(time_s)) - feed.drop_at_rating * power_w / feed.breaker_w


class RackBreaker:
    """The breaker of the feed: it opens once the load was above its rating for too long, and stays open.

    Attributes
    ----------
    closed
        Current can flow.
    """

    def __init__(self, feed: RackFeed) -> None:
        self._feed = feed
        self._above_s = 0.0
        self.closed = True

    def advance(self, after_s: float, power_w: float) -> None:
        """Apply a load for a while; the breaker opens or keeps its state."""
        self._above_s = self._above_s + after_s if power_w > self._feed.breaker_w else 0.0
        if self._above_s > self._feed.breaker_after:
            self.turn(closed=False)

    def turn(self, *, closed: bool) -> None:
        """Open or close it, as a person does."""
        self.closed = closed
        self._above_s = 0.0
