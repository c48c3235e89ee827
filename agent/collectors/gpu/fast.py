"""Power, clocks, utilisation and throttle reasons of every GPU, at the fast rate."""

from agent.collectors.gpu.table import gpu_spec
from agent.driver.port import GpuReader
from telemetry.frames import FloatArray
from telemetry.signals import RateClass


class GpuFast:
    """The fast signals of a `GpuReader`. The reader belongs to the caller, who closes it."""

    name = "gpu_fast"
    rate = RateClass.FAST
    pace_signal = "power_w"
    load_signal = "gpu_util_ratio"
    age_signal = "power_age_s"

    def __init__(self, reader: GpuReader) -> None:
        self._reader = reader
        self.spec = gpu_spec(reader, name=self.name, rate=self.rate)

    def open(self) -> None:
        """Do nothing: the caller opens the reader."""

    def read(self, values: FloatArray) -> None:
        """Fill ``(n_gpus, n_fast_signals)``; a lost GPU is a row of NaN."""
        self._reader.read_fast(values)

    def close(self) -> None:
        """Do nothing: the caller closes the reader."""
