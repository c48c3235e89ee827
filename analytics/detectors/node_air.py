"""Air and heat of a node, from columns joined from its GPUs and fans."""

from dataclasses import dataclass

import numpy as np

from analytics.connectivity import Kinship
from analytics.detectors.columns import optional
from analytics.detectors.joined_columns import JoinedColumn, Relation
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.frames import FloatArray, Frame, FromZero

JOINED_COLUMNS = (
    JoinedColumn(kind=EntityKind.GPU, signal="gpu_temp_c", how=Relation.MEAN_BELOW, column="mean_gpu_temp_c"),
    JoinedColumn(kind=EntityKind.GPU, signal="gpu_temp_c", how=Relation.MAX_BELOW, column="max_gpu_temp_c"),
    JoinedColumn(kind=EntityKind.GPU, signal="power_w", how=Relation.MEAN_BELOW, column="mean_gpu_power_w"),
    JoinedColumn(kind=EntityKind.GPU, signal="power_w", how=Relation.MAX_BELOW, column="max_gpu_power_w"),
    JoinedColumn(kind=EntityKind.FAN, signal="fan_ratio", how=Relation.MEAN_BELOW),
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GpuCounts:
    """Number of GPUs per node, ``(n_nodes,)``, computed again only when the topology changes."""

    topology: Topology | None
    counts: FromZero

    def under(self, topology: Topology, entities: tuple[Entity, ...]) -> "GpuCounts":
        """Return the counts under this topology."""
        if self.topology is topology:
            return self
        kinship = Kinship.of(topology)
        counts = [float(len(kinship.gpus_under(entity.id))) if kinship.knows(entity.id) else 0.0 for entity in entities]
        return GpuCounts(topology=topology, counts=np.array(counts))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NodeAir:
    """Rows of a node's air and heat, each of shape ``(n_times, n_nodes)``; NaN where unknown.

    `gpu_c` is the mean temperature of its GPUs but the hottest, `power_w` the mean power of those: where some are idle
    the hottest is one that works as much as any.
    """

    gpu_c: FloatArray
    power_w: FloatArray
    inlet_c: FloatArray
    fan_ratio: FloatArray


def node_air(frame: Frame, counts: GpuCounts) -> NodeAir:
    """Return the rows without the hottest GPU, so that one bad interface does not look like bad air."""
    n_gpus = counts.counts

    def without_most(signal: str) -> FloatArray:
        mean, most = optional(frame, f"mean_{signal}"), optional(frame, f"max_{signal}")
        others = (n_gpus * mean - np.where(np.isnan(most), mean, most)) / np.maximum(n_gpus - 1.0, 1.0)
        return np.where(n_gpus > 1, others, mean)

    return NodeAir(
        gpu_c=without_most("gpu_temp_c"),
        power_w=without_most("gpu_power_w"),
        inlet_c=frame.signal("inlet_temp_c"),
        fan_ratio=optional(frame, "fan_ratio"),
    )
