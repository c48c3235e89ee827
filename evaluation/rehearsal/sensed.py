"""Sensor values of a simulated node, as rows of the ring that the live guard reads."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from agent.ring.ring import Ring, RingTable
from agent.sampler.keeper import RowKeeper
from simulator.files.node import NodeFile
from simulator.plant.clocks import Settings
from simulator.plant.plant import BLOCK_MS
from simulator.plant.state import PlantNodeState
from simulator.runs.description import START_NS
from simulator.runs.fast_tables import fast_values
from simulator.runs.recorder import SLOW_MS
from simulator.runs.slow_tables import SlowTables
from simulator.runs.topology import NodeEntities
from simulator.sensors.bank import SensorBank
from telemetry.clock import NS_PER_MS
from telemetry.entities import EntityKind
from telemetry.frames import TableSpec
from telemetry.signals import RateClass, Source, signals_of

# Rows that a table holds: the guard reads after every fifth block, so a second's worth is plenty. Heuristic.
_ROWS = 256
_GPU_FAST, _SUPPLY = "gpu_fast", "supply"
_RAIL_SIGNALS = ("voltage_v", "current_a")


class SensedTables:
    """The tables of a node, one row a block where a sensor has something new; closed by its owner.

    A table without news gets a row all the same once a second, as a sampler that polls gives one, so that silence is
    seen. What is fresh in a row is found by the keeper of the live sampler.

    Attributes
    ----------
    specs
        The tables, the fast ones first.
    """

    def __init__(self, node: NodeFile, entities: NodeEntities, bank: SensorBank, *, path: Path) -> None:
        self._bank = bank
        self._mem_clock_mhz = float(node.gpu.clocks.memory_mhz)
        signals = tuple(signal.name for signal in signals_of(EntityKind.GPU, source=Source.NVML, rate=RateClass.FAST))
        self._signals = signals
        self._slow = SlowTables(node, entities, bank)
        specs = [TableSpec(name=_GPU_FAST, kind=EntityKind.GPU, entities=entities.gpus, signals=signals)]
        if bank.rail.fast is not None:
            specs.append(
                TableSpec(name=_SUPPLY, kind=EntityKind.SUPPLY, entities=entities.supplies, signals=_RAIL_SIGNALS)
            )
        self.specs: tuple[TableSpec, ...] = (*specs, *self._slow.specs)
        self._ring = Ring.create(
            path,
            self.specs,
            node=node.name,
            topology=entities.topology,
            simulated=True,
            rows={spec.name: _ROWS for spec in self.specs},
        )
        self._keepers = {name: RowKeeper(table) for name, table in self._ring.tables.items()}
        self._row_due_ms = dict.fromkeys((_GPU_FAST, _SUPPLY), 0)
        self._slow_due_ms = 0

    @property
    def tables(self) -> dict[str, RingTable]:
        """The tables by name, for who reads them."""
        return self._ring.tables

    def take(self, start_ms: int, state: PlantNodeState, settings: Settings) -> None:
        """Add the samples of the block that began at `start_ms`; a node that is off has none."""
        if not state.powered:
            return
        now_ns = START_NS + (start_ms + BLOCK_MS) * NS_PER_MS
        if self._due(_GPU_FAST, start_ms, self._bank.driver.power.renewed):
            values = fast_values(self._signals, self._bank, state, mem_clock_mhz=self._mem_clock_mhz)
            values[:, ~self._bank.gpu_answers] = np.nan
            self._keepers[_GPU_FAST].keep(now_ns, np.ascontiguousarray(values.T))
        rail = self._bank.rail
        if rail.fast is not None and self._due(_SUPPLY, start_ms, rail.fast.renewed):
            self._keepers[_SUPPLY].keep(now_ns, np.column_stack([rail.voltage_v, rail.current_a]))
        if start_ms >= self._slow_due_ms:
            self._slow_due_ms = start_ms + SLOW_MS
            for frame in self._slow.frames(now_ns, state, settings):
                self._keepers[frame.spec.name].keep(now_ns, frame.values[0])

    def close(self) -> None:
        """Close the ring."""
        self._keepers = {}
        self._ring.close()

    def _due(self, name: str, start_ms: int, renewed: Iterable[int]) -> bool:
        """Return True if a fast table gets a row now."""
        if not len(np.asarray(renewed)) and start_ms < self._row_due_ms[name]:
            return False
        self._row_due_ms[name] = start_ms + SLOW_MS
        return True
