"""Driver measurements of the GPUs: power, temperatures and utilisation."""

from collections.abc import Sequence

import numpy as np

from simulator.files.sensor import SensorKind
from simulator.plant.state import GpuState, NodeState, Stretch
from simulator.sensors.building import REQUIRED, Building, Role
from simulator.sensors.instrument import signals_of, view_of
from telemetry.frames import FloatArray

_SLOW = REQUIRED[Role.DRIVER]  # its power sensors belong to the GPU part


class DriverSensors:
    """The sensors of all boards.

    Attributes
    ----------
    power, average
        The power sensors, and the longer mean; the same where the part has none.
    gpu_temp_c, hbm_temp_c
        Whole degrees of each die and of each GPU's memory, shape ``(n_gpus,)``.
    gpu_util_ratio, mem_util_ratio
        Share of time in which a kernel ran, and in which memory was busy, in whole per cent.
    """

    def __init__(self, building: Building, kind: SensorKind) -> None:
        self.power, average = building.board_power(kind)
        self.average = average or self.power
        labels = {signal: [f"gpu{index}.{signal}" for index in range(building.node.gpu_count)] for signal in _SLOW}
        instruments = building.instruments(kind, list(labels.items()))
        self._slow = [(instrument, signals_of(instrument)) for instrument in instruments]
        self.gpu_temp_c = view_of(instruments, labels["gpu_temp_c"])
        self.hbm_temp_c = view_of(instruments, labels["hbm_temp_c"])
        self.gpu_util_ratio = view_of(instruments, labels["gpu_util_ratio"])
        self.mem_util_ratio = view_of(instruments, labels["mem_util_ratio"])

    def begin(self, block: Stretch, state: NodeState) -> None:
        """Show everything at once."""
        for instrument in {self.power, self.average}:
            instrument.begin(block.power_w[0])
        for instrument, signals in self._slow:
            instrument.begin(_true(signals, state.gpus))

    def advance(self, start_ms: int, block: Stretch, state: NodeState) -> None:
        """Process a block; an absent GPU keeps its last values."""
        present = state.gpus.present
        answering = None if present.all() else present
        self.power.advance(start_ms, block.power_w, answering=answering)
        if self.average is not self.power:
            self.average.advance(start_ms, block.power_w, answering=answering)
        for instrument, signals in self._slow:
            if instrument.awaits(start_ms):
                every = None if answering is None else np.tile(present, len(signals))
                instrument.advance(start_ms, _true(signals, state.gpus), answering=every)
            else:
                instrument.rest()


def _true(signals: Sequence[str], gpus: GpuState) -> FloatArray:
    """Return what is true of some signals, one after another."""
    truths = {
        "gpu_temp_c": gpus.die_c,
        "hbm_temp_c": gpus.memory_c,
        "gpu_util_ratio": gpus.util_ratio,
        "mem_util_ratio": gpus.mem_util_ratio,
    }
    return np.concatenate([truths[signal] for signal in signals])
