"""Tables with a row per sensor update: the boards' power and its companions, the rails."""

import numpy as np

from simulator.files.node import NodeFile
from simulator.plant.plant import BLOCK_MS
from simulator.plant.state import CountArray, PlantNodeState
from simulator.runs.description import START_NS, places_of
from simulator.runs.stream import RowStream
from simulator.runs.topology import NodeEntities
from simulator.sensors.bank import SensorBank
from simulator.sensors.instrument import Instrument
from telemetry.catalogue.pins import PIN_CURRENTS, PIN_VOLTAGES, PINS
from telemetry.clock import NS_PER_MS
from telemetry.entities import EntityKind
from telemetry.frames import FloatArray, MaskArray, TableSpec
from telemetry.recording_rows import TICK
from telemetry.signals import RateClass, Source, signals_of

_POWER = 0


class FastTables:
    """The tables ``gpu_fast``, ``supply`` and ``gpu_pins``.

    Power, voltage and current stand in it once per update of their sensor, at the sensor's own time; clock, throttle
    reasons and utilisation are looked at whenever the power of their board is new, and stand in it when they change.

    Attributes
    ----------
    specs
        The tables.
    """

    def __init__(self, node: NodeFile, entities: NodeEntities, bank: SensorBank, *, out: RowStream) -> None:
        self._bank, self._out = bank, out
        self._mem_clock_mhz = float(node.gpu.clocks.memory_mhz)
        signals = tuple(signal.name for signal in signals_of(EntityKind.GPU, source=Source.NVML, rate=RateClass.FAST))
        gpus = TableSpec(name="gpu_fast", kind=EntityKind.GPU, entities=entities.gpus, signals=signals)
        specs = [gpus]
        self._signals = signals
        self._gpu_places = out.places(places_of([gpus])).reshape(len(signals), -1)
        self._held: FloatArray = np.full(self._gpu_places.shape, np.nan)
        self._answered = np.zeros(node.gpu_count, dtype=np.bool_)
        self._ticks = _Ticks(out, "gpu_fast", every_ms=node.gpu.sensor.period_ms)
        self._rail = bank.rail.fast
        if self._rail is not None:
            signals = ("voltage_v", "current_a")
            rails = TableSpec(name="supply", kind=EntityKind.SUPPLY, entities=entities.supplies, signals=signals)
            specs.append(rails)
            self._rail_places = out.places(places_of([rails]))
            self._rail_ticks = _Ticks(out, "supply", every_ms=BLOCK_MS)
        self._pins = None if bank.pins is None else bank.pins.instrument
        if self._pins is not None:
            specs.append(TableSpec(name="gpu_pins", kind=EntityKind.GPU, entities=entities.gpus, signals=PINS))
            self._pin_places = out.places(
                [
                    (str(EntityKind.GPU), gpu.key, name)
                    for names in (PIN_VOLTAGES, PIN_CURRENTS)
                    for gpu in entities.gpus
                    for name in names
                ]
            )
            self._with_pins = np.ones(node.gpu_count, dtype=np.bool_)
        self.specs = tuple(specs)

    def take(self, start_ms: int, state: PlantNodeState) -> None:
        """Add the rows of the block that began at `start_ms`; a node that is off records none."""
        if not state.powered:
            self._held[:] = np.nan
            self._answered[:] = False
            return
        now_ns = START_NS + (start_ms + BLOCK_MS) * NS_PER_MS
        self._ticks.look(start_ms, now_ns, rows=self._take_gpus(now_ns, state))
        if self._rail is not None:
            self._rail_ticks.look(start_ms, now_ns, rows=self._take_new(self._rail, self._rail_places))
        if self._pins is not None:
            self._take_new(self._pins, self._pin_places)
            self._end_pins(now_ns, state.gpus.present)

    def _take_gpus(self, now_ns: int, state: PlantNodeState) -> int:
        power, answers = self._bank.driver.power, self._bank.gpu_answers
        rows = self._write_silent(now_ns)
        if not len(power.renewed):
            return rows
        written = np.zeros(len(answers), dtype=np.bool_)
        written[power.renewed] = True
        written &= answers
        now, held = fast_values(self._signals, self._bank, state, mem_clock_mhz=self._mem_clock_mhz), self._held
        changed = now != held
        changed[_POWER] = True
        changed &= written & ~(np.isnan(now) & np.isnan(held))
        np.copyto(held, now, where=written)
        gpu = changed.nonzero()[1]
        self._out.add(self._stamps(power)[gpu], self._gpu_places[changed], now[changed])
        return rows + len(gpu)

    def _take_new(self, instrument: Instrument, places: CountArray) -> int:
        """Add what an instrument renewed, at the place of each of its columns; return the number of rows."""
        new = instrument.renewed
        if len(new):
            self._out.add(self._stamps(instrument)[new], places[new], instrument.shown[new])
        return len(new)

    def _end_pins(self, now_ns: int, present: MaskArray) -> None:
        """End the pins of GPUs that left their bus, and their monitor with them: one empty row of each."""
        (gone,) = (self._with_pins & ~present).nonzero()
        self._with_pins = present.copy()
        if len(gone):
            places = self._pin_places.reshape(2, len(present), -1)[:, gone].ravel()
            self._out.add(np.full(len(places), now_ns), places, np.full(len(places), np.nan))

    def _write_silent(self, now_ns: int) -> int:
        """End the series of GPUs that no longer answer: one empty row of each."""
        answers = self._bank.gpu_answers
        (silent,) = (self._answered & ~answers).nonzero()
        self._answered[:] = answers
        if not len(silent):
            return 0
        self._held[:, silent] = np.nan
        places = self._gpu_places[:, silent].ravel()
        self._out.add(np.full(len(places), now_ns), places, np.full(len(places), np.nan))
        return len(places)

    def _stamps(self, instrument: Instrument) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return START_NS + (instrument.at_ms + instrument.skew_ms) * NS_PER_MS


class _Ticks:
    """Mark a table as read where none of its values changed for a period."""

    def __init__(self, out: RowStream, table: str, *, every_ms: int) -> None:
        self._out = out
        self._place = out.places([(TICK, table, "")])
        self._every_ms = every_ms
        self._last_ms: int | None = None

    def look(self, start_ms: int, now_ns: int, *, rows: int) -> None:
        """Count the rows of a block; a table that never had one has no ticks."""
        if rows:
            self._last_ms = start_ms
        elif self._last_ms is not None and start_ms - self._last_ms >= self._every_ms:
            self._out.add(np.array([now_ns]), self._place, np.array([np.nan]))
            self._last_ms = start_ms


def fast_values(
    signals: tuple[str, ...], bank: SensorBank, state: PlantNodeState, *, mem_clock_mhz: float
) -> FloatArray:
    """Return the fast signals of all GPUs, ``(n_signals, n_gpus)``; the caller fills in the age of the power."""
    gpus = state.gpus
    columns: dict[str, FloatArray | float] = {
        "power_w": bank.driver.power.shown,
        "sm_clock_mhz": np.floor(gpus.clock_mhz),
        "mem_clock_mhz": mem_clock_mhz,
        "gpu_util_ratio": bank.driver.gpu_util_ratio,
        "mem_util_ratio": bank.driver.mem_util_ratio,
        "throttle_reasons": gpus.reasons.astype(np.float64),
        "power_age_s": np.nan,
    }
    values = np.empty((len(signals), len(gpus.clock_mhz)))
    for place, name in enumerate(signals):
        values[place] = columns[name]
    return values
