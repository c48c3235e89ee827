"""What the driver measures of the GPUs: power, temperatures and utilisation."""

import numpy as np

from simulator.files.sensor import SensorKind
from simulator.plant.state import NodeState, Stretch
from simulator.sensors.building import Building
from simulator.sensors.instrument import Instrument
from telemetry.frames import FloatArray

_SLOW = ("gpu_temp_c", "hbm_temp_c", "gpu_util_ratio", "mem_util_ratio")


class DriverSensors:
    """The sensors of all boards.

    Attributes
    ----------
    power, average
        The power sensors, and the longer mean; the same where the part has none.
    """

    def __init__(self, building: Building, kind: SensorKind) -> None:
        count = building.node.gpu_count
        self.power, average = building.board_power(kind)
        self.average = average or self.power
        channels = [(signal, [f"gpu{index}.{signal}" for index in range(count)]) for signal in _SLOW]
        self._slow = building.instruments(kind, channels)
        self._shown = {signal: _find(self._slow, labels) for signal, labels in channels}

    @property
    def gpu_temp_c(self) -> FloatArray:
        """Whole degrees of each die."""
        return self._values("gpu_temp_c")

    @property
    def hbm_temp_c(self) -> FloatArray:
        """Whole degrees of each GPU's memory."""
        return self._values("hbm_temp_c")

    @property
    def gpu_util_ratio(self) -> FloatArray:
        """Share of time in which a kernel ran."""
        return self._values("gpu_util_ratio")

    @property
    def mem_util_ratio(self) -> FloatArray:
        """Share of time in which memory was busy."""
        return self._values("mem_util_ratio")

    def begin(self, block: Stretch, state: NodeState) -> None:
        """Show everything at once."""
        for instrument in {self.power, self.average}:
            instrument.begin(block.power_w[0])
        for instrument in self._slow:
            instrument.begin(_true(instrument, state))

    def advance(self, start_ms: int, block: Stretch, state: NodeState) -> None:
        """Take a block; a GPU that is not there keeps what it showed."""
        present = state.gpus.present
        answering = None if present.all() else present
        self.power.advance(start_ms, block.power_w, answering=answering)
        if self.average is not self.power:
            self.average.advance(start_ms, block.power_w, answering=answering)
        for instrument in self._slow:
            if instrument.awaits(start_ms):
                every = None if answering is None else np.tile(present, len(instrument.labels) // len(present))
                instrument.advance(start_ms, _true(instrument, state), answering=every)

    def _values(self, signal: str) -> FloatArray:
        instrument, place = self._shown[signal]
        return instrument.shown[place]


def _find(instruments: tuple[Instrument, ...], labels: list[str]) -> tuple[Instrument, slice]:
    for instrument in instruments:
        if labels[0] in instrument.labels:
            first = instrument.labels.index(labels[0])
            return instrument, slice(first, first + len(labels))
    raise ValueError(f"no instrument measures {labels[0]}")


def _true(instrument: Instrument, state: NodeState) -> FloatArray:
    gpus = state.gpus
    truths = {
        "gpu_temp_c": gpus.die_c,
        "hbm_temp_c": gpus.memory_c,
        "gpu_util_ratio": gpus.util_ratio,
        "mem_util_ratio": gpus.mem_util_ratio,
    }
    signals = dict.fromkeys(label.partition(".")[2] for label in instrument.labels)
    return np.concatenate([truths[signal] for signal in signals])
