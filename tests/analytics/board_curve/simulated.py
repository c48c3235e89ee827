"""Rows of the boards of a simulated node under jobs and clock caps."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from simulator.files.node import NodeFile, load_node
from simulator.files.scenario import JobStart, ScenarioFile
from simulator.files.workload import load_workload
from simulator.plant.plant import BLOCK_MS, Plant
from simulator.runs.description import START_NS
from simulator.runs.fast_tables import fast_values
from simulator.runs.topology import entities_of
from simulator.sensors.bank import SensorBank
from telemetry.clock import NS_PER_MS
from telemetry.entities import EntityKind
from telemetry.frames import Frame, TableSpec
from telemetry.signals import RateClass, Source, signals_of

SIGNALS = tuple(signal.name for signal in signals_of(EntityKind.GPU, source=Source.NVML, rate=RateClass.FAST))
# A sampler at its default rate, and frames of some rows, as a guard that wakes late reads them.
_ROW_MS, _FRAME_ROWS = 50, 20


class SimulatedBoards:
    """Node whose GPU rows are read 20 times a second; `jobs` are pairs of a start in seconds and a workload."""

    def __init__(self, name: str, jobs: Sequence[tuple[float, str]], *, seed: int = 1) -> None:
        self.node: NodeFile = load_node(name)
        starts = tuple(JobStart.model_validate({"at": f"{at_s:g}s", "workload": job}) for at_s, job in jobs)
        scenario = ScenarioFile(name="jobs", description="Jobs.", kind="quiet", jobs=starts)
        self._plant = Plant(self.node, scenario, seed, workload=load_workload("idle"))
        self._plant.settle()
        self._bank = SensorBank(self.node, scenario, seed)
        gpus = entities_of(self.node).gpus
        self.spec = TableSpec(name="gpu_fast", kind=EntityKind.GPU, entities=gpus, signals=SIGNALS)

    @property
    def supported_mhz(self) -> dict[str, tuple[float, ...]]:
        """Clocks that can be set, by UUID."""
        return {gpu.key: self.node.gpu.clocks.settable_mhz for gpu in self.spec.entities}

    def cap(self, clock_ratio: float) -> float:
        """Set the clock of every GPU to the supported one nearest to a share of the highest, and return it."""
        clocks = self.node.gpu.clocks
        chosen = min(clocks.settable_mhz, key=lambda clock: abs(clock - clock_ratio * clocks.max_mhz))
        count = self.node.gpu_count
        self._plant.obey(replace(self._plant.settings, app_clock_mhz=np.full(count, chosen)))
        return float(chosen)

    def rows(self, seconds: float) -> Iterator[Frame]:
        """Yield the rows of the next seconds."""
        values, times = [], []
        for _ in range(0, round(seconds * 1000.0), BLOCK_MS):
            stretch = self._plant.advance(BLOCK_MS)
            self._plant.take_events()
            self._bank.advance(stretch, self._plant.state)
            now_ms = int(stretch.time_ms[0]) + BLOCK_MS
            if now_ms % _ROW_MS == 0:
                shown = fast_values(SIGNALS, self._bank, self._plant.state, mem_clock_mhz=877.0)
                values.append(np.ascontiguousarray(shown.T))
                times.append(START_NS + now_ms * NS_PER_MS)
            if len(times) == _FRAME_ROWS:
                yield self._frame(times, values)
                values, times = [], []
        if times:
            yield self._frame(times, values)

    def _frame(self, times: list[int], values: list[np.ndarray]) -> Frame:
        block = np.stack(values)
        return Frame(
            spec=self.spec,
            time_ns=np.array(times, dtype=np.int64),
            values=block,
            fresh=np.ones(block.shape, dtype=np.bool_),
        )
