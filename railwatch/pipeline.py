"""What the pipeline of a node is made of: its policies, rails and limits out of the configuration, its topology."""

from collections.abc import Sequence

from agent.guard.pipeline import PipelineSettings
from railwatch.config.models import Config
from railwatch.config.thresholds import limits_of
from railwatch.policies import policies_of
from rules.policy import ActionClass
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.frames import TableSpec


def pipeline_settings(config: Config, *, simulated: bool) -> PipelineSettings:
    """Give what the guard judges and decides by."""
    modes = {action: config.actions.of(action).resolve(simulated=simulated) for action in ActionClass}
    return PipelineSettings(
        policies=policies_of(config),
        rails=config.rails.rails(modes),
        limits=limits_of(config),
        book=config.incidents,
    )


def topology_of(node: Entity, specs: Sequence[TableSpec]) -> Topology:
    """Give who feeds whom: the node holds its supplies and GPUs, every supply is taken to feed every GPU.

    A GPU holds its NVLinks, the node runs its jobs and holds its fans.
    """
    found = {entity.id: entity for spec in specs for entity in spec.entities}
    found[node.id] = node
    supplies = [entity for entity in found.values() if entity.kind is EntityKind.SUPPLY]
    gpus = [entity for entity in found.values() if entity.kind is EntityKind.GPU]
    fans = [entity for entity in found.values() if entity.kind is EntityKind.FAN]
    held = [(node.id, part.id) for part in (*supplies, *gpus, *fans)]
    fed = [(supply.id, gpu.id) for supply in supplies for gpu in gpus]
    links = [entity for entity in found.values() if entity.kind is EntityKind.LINK]
    joined = [(gpu.id, link.id) for gpu in gpus for link in links if link.tag("gpu") == gpu.key]
    run = [(node.id, job.id) for job in found.values() if job.kind is EntityKind.JOB]
    return Topology(entities=tuple(found.values()), edges=(*held, *fed, *joined, *run))
