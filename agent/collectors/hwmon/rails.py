"""Voltage and current of the rails that the kernel's hwmon drivers measure, at the speed of their sensors."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from agent.collectors.hwmon.tree import Rail, survey_rails
from agent.collectors.rails.pair import RailPair
from agent.collectors.rails.sweep import Sweep, SweepSettings
from telemetry.cells import Cells
from telemetry.clock import Clock
from telemetry.entities import Entity, EntityKind
from telemetry.frames import FloatArray, TableSpec
from telemetry.signals import RateClass

# Outside this a 12 V reading is a dead or disturbed sensor. Above: a supply has shut down by then (over-voltage trips
# at 15.6 V at most: Intel, Desktop Platform Form Factors Power Supply Design Guide, 336521, over-voltage protection).
# Below: heuristic, half the rail; the node that reads it would be off.
PLAUSIBLE_12V = (6.0, 16.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepOptions:
    """That rails are looked at between two rows too, how, and by whose clock."""

    settings: SweepSettings
    clock: Clock


def rail_entities(rails: Sequence[Rail]) -> tuple[Entity, ...]:
    """Return the rails as supplies; tagged where current and voltage are not of one conversion."""
    return tuple(
        Entity(
            kind=EntityKind.SUPPLY,
            key=rail.key,
            name=rail.key,
            tags=(("sensor", rail.device), *((("pair", "skewed"),) if _is_skewed(rail) else ())),
        )
        for rail in rails
    )


def _is_skewed(rail: Rail) -> bool:
    return rail.current is not None and not rail.one_conversion


class RailTable:
    """Some rails as one table: newest voltage and current, and their extremes since the row before.

    One that vanishes is NaN until it is back. Rails of one chip type and pace share a thread, so that one bus that
    hangs silences its own rails only.
    """

    rate = RateClass.FAST

    def __init__(
        self,
        name: str,
        rails: Sequence[Rail],
        signals: tuple[str, str, str, str],
        *,
        plausible_v: Sequence[tuple[float, float]],
        sweeping: SweepOptions | None,
    ) -> None:
        self.name = name
        self.spec = TableSpec(name=name, kind=EntityKind.SUPPLY, entities=rail_entities(rails), signals=signals)
        self._sweeping = sweeping
        self._values = Cells()
        self._pairs = [RailPair(rail, span_v) for rail, span_v in zip(rails, plausible_v, strict=True)]
        rows: dict[tuple[str, float | None], list[int]] = {}
        for row, rail in enumerate(rails):
            rows.setdefault((rail.device, rail.period_s), []).append(row)
        self.sweeps = tuple(
            Sweep([self._pairs[row] for row in own], own, period_s=period_s) for (_, period_s), own in rows.items()
        )

    @property
    def refused(self) -> int:
        """Reads so far that gave no number, or one that no live rail has."""
        return sum(pair.refused for pair in self._pairs)

    def alert(self, call: Callable[[], None]) -> None:
        """Call this from then on where a rail falls low between two rows."""
        for sweep in self.sweeps:
            sweep.on_low = call

    def open(self) -> None:
        """Begin to look at the rails between two rows, where that is asked for."""
        if self._sweeping is not None:
            for sweep in self.sweeps:
                sweep.start(self._sweeping.settings, self._sweeping.clock)

    def read(self, values: FloatArray) -> None:
        """Fill ``(n_rails, 4)``: volts, amperes, lowest volts and highest amperes since the row before."""
        cells = self._values.of(values)
        for sweep in self.sweeps:
            sweep.take(cells)

    def close(self) -> None:
        """End the threads and let the descriptors go; closing twice is harmless."""
        for sweep in self.sweeps:
            sweep.stop()


class Hwmon:
    """The 12 V rails found under a sysfs root when it was made."""

    name = "supply"
    rate = RateClass.FAST

    def __init__(self, sysfs_root: Path, sweeping: SweepOptions | None = None) -> None:
        survey = survey_rails(sysfs_root)
        self.rails, self.implausible = survey.rails, survey.implausible
        self._table = RailTable(
            self.name,
            self.rails,
            ("voltage_v", "current_a", "voltage_min_v", "current_max_a"),
            plausible_v=[PLAUSIBLE_12V] * len(self.rails),
            sweeping=sweeping,
        )
        self.spec = self._table.spec

    @property
    def sweeps(self) -> tuple[Sweep, ...]:
        """The groups of rails that are read together, and at which pace each is."""
        return self._table.sweeps

    @property
    def refused(self) -> int:
        """Reads so far that gave no number, or one that no live rail has."""
        return self._table.refused

    def alert(self, call: Callable[[], None]) -> None:
        """Call this from then on where a rail falls low between two rows."""
        self._table.alert(call)

    def open(self) -> None:
        """Begin to look at the rails between two rows, where that is asked for."""
        self._table.open()

    def read(self, values: FloatArray) -> None:
        """Fill ``(n_rails, 4)`` with volts and amperes; a voltage that no live rail has is NaN."""
        self._table.read(values)

    def close(self) -> None:
        """Let the descriptors go; closing twice is harmless."""
        self._table.close()
