"""Collectors whose tables a reader of the GPU driver fills; the reader belongs to the caller."""

from collections.abc import Callable, Sequence

from agent.collectors.tables import gpu_table
from agent.driver.port import GpuReader, LinkIdentity, LinkReader, PipeReader
from telemetry.entities import Entity, EntityKind
from telemetry.frames import FloatArray, TableSpec
from telemetry.signals import RateClass, Source, signals_of

SLOW, RARE, LINKS, PIPES = "gpu_slow", "gpu_rare", "gpu_links", "gpu_pipes"


class GpuFast:
    """Power, clocks, utilisation and throttle reasons of every GPU, at the fast rate."""

    name = "gpu_fast"
    rate = RateClass.FAST
    pace_signal = "power_w"
    load_signal = "gpu_util_ratio"
    age_signal = "power_age_s"

    def __init__(self, reader: GpuReader) -> None:
        self._reader = reader
        self.spec = gpu_table(self.name, reader.gpus(), Source.NVML, self.rate)

    def open(self) -> None:
        """Do nothing: the caller opens the reader."""

    def read(self, values: FloatArray) -> None:
        """Fill ``(n_gpus, n_fast_signals)``; a lost GPU is a row of NaN."""
        self._reader.read_fast(values)

    def close(self) -> None:
        """Do nothing: the caller closes the reader."""


class DriverTable:
    """A table that `fill` fills, ``(n_entities, n_signals)``; a lost GPU is NaN in all of its rows."""

    def __init__(
        self,
        spec: TableSpec,
        rate: RateClass,
        fill: Callable[[FloatArray], None],
        *,
        release: Callable[[], None] = lambda: None,
    ) -> None:
        self.name = spec.name
        self.spec = spec
        self.rate = rate
        self._fill = fill
        self._release = release

    def open(self) -> None:
        """Do nothing: the caller opens the reader."""

    def read(self, values: FloatArray) -> None:
        """Fill every cell."""
        self._fill(values)

    def close(self) -> None:
        """Release the driver's memory, where the reader has any."""
        self._release()


def slow_table(reader: GpuReader) -> DriverTable:
    """Return energy, temperatures, limits, memory, PCIe, ECC and throttle counters of every GPU."""
    spec = gpu_table(SLOW, reader.gpus(), Source.NVML, RateClass.SLOW)
    return DriverTable(spec, RateClass.SLOW, reader.read_slow)


def rare_table(reader: GpuReader) -> DriverTable:
    """Return limits, modes, fans and other values of every GPU that seldom change or are expensive to read."""
    spec = gpu_table(RARE, reader.gpus(), Source.NVML, RateClass.RARE)
    return DriverTable(spec, RateClass.RARE, reader.read_rare)


def link_table(reader: LinkReader) -> DriverTable:
    """Return state, errors and traffic of every NVLink."""
    signals = tuple(signal.name for signal in signals_of(EntityKind.LINK, source=Source.NVLINK))
    spec = TableSpec(name=LINKS, kind=EntityKind.LINK, entities=link_entities(reader.links), signals=signals)
    return DriverTable(spec, RateClass.SLOW, reader.read)


def link_entities(links: Sequence[LinkIdentity]) -> tuple[Entity, ...]:
    """Return NVLinks as entities keyed by GPU and number; a tag names the peer."""
    return tuple(
        Entity(
            kind=EntityKind.LINK,
            key=f"{link.gpu_uuid}/nvlink{link.link}",
            name=f"gpu{link.gpu_index}-nvlink{link.link}",
            tags=(("gpu", link.gpu_uuid), ("peer", link.peer or "none")),
        )
        for link in links
    )


def pipe_table(reader: PipeReader) -> DriverTable:
    """Return the activity of pipes, memory and links since the last read (GPM), NaN at the first one.

    GPUs without performance metrics have no row.
    """
    spec = gpu_table(PIPES, reader.gpus, Source.GPM)
    return DriverTable(spec, RateClass.SLOW, reader.read, release=reader.close)
