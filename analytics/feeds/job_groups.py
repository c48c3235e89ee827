"""Nodes of one job as groups."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from analytics.connectivity import GroupArray
from analytics.connectivity.kinship import ByIdentity
from telemetry.entities import Entity, EntityKind, Topology


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JobGroups:
    """The jobs of a table's nodes as numbers, worked out again only when the topology is another one."""

    topology: Topology | None
    groups: GroupArray

    @staticmethod
    def start(shape: int) -> "JobGroups":
        """Return the groups before the first row."""
        return JobGroups(topology=None, groups=np.zeros(shape, dtype=np.intp))

    def under(self, topology: Topology, entities: Sequence[Entity]) -> "JobGroups":
        """Return the groups under this topology."""
        if self.topology is topology:
            return self
        return JobGroups(topology=topology, groups=_job_groups(ByIdentity(topology), ByIdentity(entities)))


@lru_cache(maxsize=16)
def _job_groups(topology: ByIdentity[Topology], entities: ByIdentity[Sequence[Entity]]) -> GroupArray:
    """Return a number for each node, the same for nodes on which one job computes.

    Without any job that is known to be on several nodes all of them are compared; `SiblingRatio.in_step` keeps apart
    what does not work together.
    """
    node_of = {child: parent for parent, child in topology.it.edges if parent.startswith(f"{EntityKind.NODE}:")}
    nodes_of: dict[str, set[str]] = {}
    for parent, child in topology.it.edges:
        if parent.startswith(f"{EntityKind.JOB}:"):
            nodes_of.setdefault(parent, set()).add(node_of.get(child, child))
    job_of = {node: job for job, nodes in nodes_of.items() if len(nodes) > 1 for node in nodes}
    numbers: dict[str, int] = {}
    found = [numbers.setdefault(job_of.get(entity.id, ""), len(numbers)) for entity in entities.it]
    groups = np.array(found, dtype=np.intp)
    groups.flags.writeable = False
    return groups
