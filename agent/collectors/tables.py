"""Tables of nodes and GPUs: their entities, and the catalogue's signals of one source."""

from collections.abc import Sequence

from telemetry.entities import Entity, EntityKind
from telemetry.frames import TableSpec
from telemetry.gpu import GpuIdentity
from telemetry.signals import RateClass, Source, signals_of


def node_entity(node: str) -> Entity:
    """Return the entity of a node."""
    return Entity(kind=EntityKind.NODE, key=node, name=node)


def node_table(name: str, node: str, source: Source) -> TableSpec:
    """Return a table of one row with the node's signals of a source."""
    signals = tuple(signal.name for signal in signals_of(EntityKind.NODE, source=source))
    return TableSpec(name=name, kind=EntityKind.NODE, entities=(node_entity(node),), signals=signals)


def gpu_entities(gpus: Sequence[GpuIdentity]) -> tuple[Entity, ...]:
    """Return GPUs as entities keyed by UUID, named by their index in the driver."""
    return tuple(
        Entity(kind=EntityKind.GPU, key=gpu.uuid, name=f"gpu{gpu.index}", tags=(("pci", gpu.pci), ("model", gpu.name)))
        for gpu in gpus
    )


def gpu_table(name: str, gpus: Sequence[GpuIdentity], source: Source, rate: RateClass | None = None) -> TableSpec:
    """Return a table of GPUs with their signals of a source, of all rates or of one."""
    signals = tuple(signal.name for signal in signals_of(EntityKind.GPU, source=source, rate=rate))
    return TableSpec(name=name, kind=EntityKind.GPU, entities=gpu_entities(gpus), signals=signals)
