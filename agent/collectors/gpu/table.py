"""GPU entities and tables."""

from collections.abc import Sequence

from agent.driver.port import GpuIdentity, GpuReader
from telemetry.entities import Entity, EntityKind
from telemetry.frames import TableSpec
from telemetry.signals import RateClass, Source, signals_of


def gpu_entities(gpus: Sequence[GpuIdentity]) -> tuple[Entity, ...]:
    """Return GPUs as entities keyed by UUID, named by their index in the driver."""
    return tuple(
        Entity(
            kind=EntityKind.GPU,
            key=gpu.uuid,
            name=f"gpu{gpu.index}",
            tags=(("pci", gpu.pci), ("model", gpu.name)),
        )
        for gpu in gpus
    )


def gpu_spec(reader: GpuReader, *, name: str, rate: RateClass) -> TableSpec:
    """Return the table with the columns that a reader fills at one rate."""
    columns = signals_of(EntityKind.GPU, source=Source.NVML, rate=rate)
    return TableSpec(
        name=name,
        kind=EntityKind.GPU,
        entities=gpu_entities(reader.gpus()),
        signals=tuple(signal.name for signal in columns),
    )
