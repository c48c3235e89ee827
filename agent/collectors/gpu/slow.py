"""Energy, temperatures, limits, memory, PCIe, ECC and throttle counters of every GPU, at the slow rate."""

from agent.collectors.gpu.table import gpu_spec
from agent.driver.port import GpuReader
from telemetry.frames import FloatArray
from telemetry.signals import RateClass


class GpuSlow:
    """The slow signals of a `GpuReader`. The reader belongs to the caller, who closes it."""

    name = "gpu_slow"
    rate = RateClass.SLOW

    def __init__(self, reader: GpuReader) -> None:
        self._reader = reader
        self.spec = gpu_spec(reader, name=self.name, rate=self.rate)

    def open(self) -> None:
        """Do nothing: the caller opens the reader."""

    def read(self, values: FloatArray) -> None:
        """Fill ``(n_gpus, n_slow_signals)``; a lost GPU is a row of NaN."""
        self._reader.read_slow(values)

    def close(self) -> None:
        """Do nothing: the caller closes the reader."""
