"""Power, clocks, utilisation and throttle reasons of every GPU, at the fast rate."""

from agent.collectors.gpu_table import gpu_entities
from agent.driver.port import GpuReader
from telemetry.entities import EntityKind
from telemetry.frames import FloatArray, TableSpec
from telemetry.signals import RateClass, Source, signals_of


class GpuFast:
    """The fast signals of a `GpuReader`. The reader belongs to the caller, who closes it."""

    name = "gpu_fast"
    rate = RateClass.FAST

    def __init__(self, reader: GpuReader) -> None:
        self._reader = reader
        columns = signals_of(EntityKind.GPU, source=Source.NVML, rate=self.rate)
        self.spec = TableSpec(
            name=self.name,
            kind=EntityKind.GPU,
            entities=gpu_entities(reader.gpus()),
            signals=tuple(signal.name for signal in columns),
        )

    def open(self) -> None:
        """Nothing to open."""

    def read(self, values: FloatArray) -> None:
        """Fill ``(n_gpus, n_fast_signals)``; a lost GPU is a row of NaN."""
        self._reader.read_fast(values)

    def close(self) -> None:
        """Nothing to close."""
