"""GPUs as entities: what every GPU table of a node has in common."""

from collections.abc import Sequence

from agent.driver.port import GpuIdentity
from telemetry.entities import Entity, EntityKind


def gpu_entities(gpus: Sequence[GpuIdentity]) -> tuple[Entity, ...]:
    """Give GPUs as entities keyed by UUID, named by their index in the driver."""
    return tuple(
        Entity(
            kind=EntityKind.GPU,
            key=gpu.uuid,
            name=f"gpu{gpu.index}",
            tags=(("pci", gpu.pci), ("model", gpu.name)),
        )
        for gpu in gpus
    )
