"""Limits, modes, fans and other values of each GPU that seldom change or are expensive to read, every few seconds."""

from agent.collectors.gpu.table import gpu_spec
from agent.driver.port import GpuReader
from telemetry.frames import FloatArray
from telemetry.signals import RateClass


class GpuRare:
    """The rare signals of a `GpuReader`. The reader belongs to the caller, who closes it."""

    name = "gpu_rare"
    rate = RateClass.RARE

    def __init__(self, reader: GpuReader) -> None:
        self._reader = reader
        self.spec = gpu_spec(reader, name=self.name, rate=self.rate)

    def open(self) -> None:
        """Do nothing: the caller opens the reader."""

    def read(self, values: FloatArray) -> None:
        """Fill ``(n_gpus, n_rare_signals)``; a lost GPU is a row of NaN."""
        self._reader.read_rare(values)

    def close(self) -> None:
        """Do nothing: the caller closes the reader."""
