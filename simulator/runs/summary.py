"""A run in a few numbers, as its recording shows it."""

from dataclasses import dataclass

import numpy as np

from simulator.sensors.bank import SensorBank
from telemetry.frames import FloatArray

_PARTS = 1000  # counted in together: a few values at a time cost more to add up than to keep


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """Result of a run; volts and watts are those of the sensors, None where there are none."""

    tier: str
    simulated_s: float
    rows: int
    drops: int
    steps: int
    rail_min_v: float | None
    rail_mean_v: float | None
    gpu_power_mean_w: float | None
    gpu_power_peak_w: float | None


class Spread:
    """Mean and extremes of values that come in parts; NaN does not count."""

    def __init__(self) -> None:
        self._parts: list[FloatArray] = []
        self._sum, self._count = 0.0, 0
        self._lowest, self._highest = np.inf, -np.inf

    def take(self, values: FloatArray) -> None:
        """Add values of any shape, which are not modified."""
        self._parts.append(values.ravel())
        if len(self._parts) >= _PARTS:
            self._count_in()

    def _count_in(self) -> None:
        values = np.concatenate([*self._parts, np.empty(0)])
        self._parts.clear()
        known = values[~np.isnan(values)]
        if known.size:
            self._sum += float(known.sum())
            self._count += known.size
            self._lowest = min(self._lowest, float(known.min()))
            self._highest = max(self._highest, float(known.max()))

    def mean(self, decimals: int) -> float | None:
        """Return the mean, None where there was no value."""
        self._count_in()
        return round(self._sum / self._count, decimals) if self._count else None

    def lowest(self, decimals: int) -> float | None:
        """Return the lowest value, None where there was none."""
        self._count_in()
        return round(self._lowest, decimals) if self._count else None

    def highest(self, decimals: int) -> float | None:
        """Return the highest value, None where there was none."""
        self._count_in()
        return round(self._highest, decimals) if self._count else None


class Tally:
    """Power and rail by their sensors, each update counted once."""

    def __init__(self) -> None:
        self._power, self._rail = Spread(), Spread()

    def take(self, bank: SensorBank) -> None:
        """Process the updates of the last block."""
        power, rail = bank.driver.power, bank.rail
        new = power.renewed
        if len(new):
            self._power.take(power.shown[new[bank.gpu_answers[new]]])
        if rail.fast is not None and len(rail.fast.renewed):
            new = rail.fast.renewed
            self._rail.take(rail.voltage_v[new[new < len(rail.voltage_v)]])

    def summary(self, *, simulated_s: float, rows: int, drops: int, steps: int) -> RunSummary:
        """Return the numbers of a run of milliseconds."""
        return RunSummary(
            tier="a",
            simulated_s=simulated_s,
            rows=rows,
            drops=drops,
            steps=steps,
            rail_min_v=self._rail.lowest(4),
            rail_mean_v=self._rail.mean(4),
            gpu_power_mean_w=self._power.mean(2),
            gpu_power_peak_w=self._power.highest(2),
        )
