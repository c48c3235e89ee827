"""Collector of voltage and current of the rails that hwmon drivers measure, at the speed of their sensors."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agent.collectors.hwmon.ratings import rated_power_of
from agent.collectors.hwmon.tree import Rail
from agent.collectors.rails.pair import RailPair
from agent.collectors.rails.sweep import Sweep, SweepSettings
from analytics.supply.sampling import SAMPLED_TAG, Sampled
from telemetry.clock import Clock
from telemetry.entities import INPUT_NOMINAL_TAG, NOMINAL_SOURCE_TAG, NOMINAL_TAG, Entity, EntityKind
from telemetry.frames import Cells, FloatArray, TableSpec
from telemetry.ratings import RatingSource, rating_tags
from telemetry.signals import RateClass

MAIN_RAILS = "supply"


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepOptions:
    """Settings and clock of reads between two rows."""

    settings: SweepSettings
    clock: Clock


def rail_entities(rails: Sequence[Rail]) -> tuple[Entity, ...]:
    """Return the rails as supply entities, tagged with their nominal voltage, what named it, and a reported rating.

    Those whose current and voltage are of two conversions are tagged ``pair=skewed``, those whose readings are means
    ``sampled=means``, converters with the nominal voltage of their input.
    """
    return tuple(
        Entity(
            kind=EntityKind.SUPPLY,
            key=rail.key,
            name=rail.key,
            tags=(
                ("sensor", rail.device),
                (NOMINAL_TAG, f"{rail.rail_class.nominal_v:g}"),
                (NOMINAL_SOURCE_TAG, rail.nominal_from),
                *rating_tags(rated_power_of(rail), RatingSource.SUPPLY),
                *(() if rail.input_class is None else ((INPUT_NOMINAL_TAG, f"{rail.input_class.nominal_v:g}"),)),
                *((("pair", "skewed"),) if rail.current is not None and not rail.one_conversion else ()),
                *(((SAMPLED_TAG, Sampled.MEANS.value),) if rail.is_mean else ()),
            ),
        )
        for rail in rails
    )


class RailTable:
    """Rails as one table: newest voltage and current, and their extremes since the previous row.

    A rail that vanishes is NaN until it is back. Rails of one chip type and pace share a thread, so that a bus that
    hangs affects its own rails only.
    """

    rate = RateClass.FAST

    name = MAIN_RAILS

    def __init__(self, rails: Sequence[Rail], sweeping: SweepOptions | None = None) -> None:
        signals = ("voltage_v", "current_a", "voltage_min_v", "current_max_a")
        self.spec = TableSpec(name=self.name, kind=EntityKind.SUPPLY, entities=rail_entities(rails), signals=signals)
        self._sweeping = sweeping
        self._values = Cells()
        self._pairs = [RailPair(rail) for rail in rails]
        rows: dict[tuple[str, float | None], list[int]] = {}
        for row, rail in enumerate(rails):
            rows.setdefault((rail.device, rail.period_s), []).append(row)
        self.sweeps = tuple(
            Sweep([self._pairs[row] for row in own], own, period_s=period_s) for (_, period_s), own in rows.items()
        )

    @property
    def refused(self) -> int:
        """Reads so far that returned no number, or an implausible one."""
        return sum(pair.refused for pair in self._pairs)

    def alert(self, call: Callable[[], None]) -> None:
        """Set the callback for a rail that falls low between two rows."""
        for sweep in self.sweeps:
            sweep.on_low = call

    def add_rows_by(self, add: Callable[[float, float], bool]) -> None:
        """Set the callback that adds a row; not used where several threads read the rails of a row."""
        if len(self.sweeps) == 1:
            self.sweeps[0].add_row = add

    def open(self) -> None:
        """Start to read the rails between two rows, where that is configured."""
        if self._sweeping is not None:
            for sweep in self.sweeps:
                sweep.start(self._sweeping.settings, self._sweeping.clock)

    def read(self, values: FloatArray) -> None:
        """Fill ``(n_rails, 4)``: volts, amperes, lowest volts and highest amperes since the previous row."""
        cells = self._values.of(values)
        for sweep in self.sweeps:
            sweep.take(cells)

    def close(self) -> None:
        """Stop the threads and close the descriptors; closing twice is harmless."""
        for sweep in self.sweeps:
            sweep.stop()
