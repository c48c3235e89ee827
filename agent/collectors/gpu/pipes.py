"""Activity of the arithmetic pipes, the memory and the links of each GPU in the last second (GPM, Hopper and newer)."""

from agent.collectors.gpu.table import gpu_entities
from agent.driver.port import PipeReader
from telemetry.entities import EntityKind
from telemetry.frames import FloatArray, TableSpec
from telemetry.signals import RateClass, Source, signals_of


class GpuPipes:
    """The signals of a `PipeReader`; GPUs without performance metrics have no row."""

    name = "gpu_pipes"
    rate = RateClass.SLOW

    def __init__(self, reader: PipeReader) -> None:
        self._reader = reader
        self.spec = TableSpec(
            name=self.name,
            kind=EntityKind.GPU,
            entities=gpu_entities(reader.gpus),
            signals=tuple(signal.name for signal in signals_of(EntityKind.GPU, source=Source.GPM)),
        )

    def open(self) -> None:
        """Do nothing: the first read allocates the driver's samples."""

    def read(self, values: FloatArray) -> None:
        """Fill ``(n_gpus, n_signals)`` with the activity since the last read, NaN at the first one."""
        self._reader.read(values)

    def close(self) -> None:
        """Release the driver's samples."""
        self._reader.close()
