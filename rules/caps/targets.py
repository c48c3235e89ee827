"""Target GPUs of an action, and the clocks that they share."""

from collections.abc import Sequence

from physics.node_state import MeasuredGpu, MeasuredNode
from rules.policy.model import Target
from telemetry.entities import EntityKind, Topology
from telemetry.records import Incident


def kind_of(entity_id: str) -> str:
    """Return the kind of an entity by its id."""
    return entity_id.partition(":")[0]


def gpus_of_supply(supply_id: str, topology: Topology) -> tuple[str, ...]:
    """Return the GPUs that a supply feeds; empty if the topology does not define it."""
    return tuple(child.id for child in topology.children(supply_id) if child.kind is EntityKind.GPU)


def supplies_of_gpu(gpu_id: str, topology: Topology) -> tuple[str, ...]:
    """Return the supplies that feed a GPU; empty if the topology does not define it."""
    return tuple(parent.id for parent in topology.parents(gpu_id) if parent.kind is EntityKind.SUPPLY)


def supplies_of_incident(incident: Incident) -> tuple[str, ...]:
    """Return the supplies of an incident."""
    named = (incident.entity_id, *incident.affected, *(finding.entity_id for finding in incident.findings))
    return tuple(dict.fromkeys(name for name in named if kind_of(name) == EntityKind.SUPPLY))


def node_of(topology: Topology) -> str | None:
    """Return the node itself, None if the topology has none."""
    return next((entity.id for entity in topology.of_kind(EntityKind.NODE)), None)


def gpus_by_job(incident: Incident, topology: Topology) -> dict[str, tuple[str, ...]]:
    """Return every job of the incident with its GPUs; empty if the job of one of its GPUs is not known.

    The GPUs of an incident are those that it names, else those that its supplies feed.
    """
    named = {incident.entity_id, *incident.affected}
    if not any(kind_of(name) in (EntityKind.GPU, EntityKind.JOB) for name in named):
        named = {gpu for supply in supplies_of_incident(incident) for gpu in gpus_of_supply(supply, topology)}
    found: dict[str, tuple[str, ...]] = {}
    for job in topology.of_kind(EntityKind.JOB):
        tied = [entity.id for entity in (*topology.children(job.id), *topology.parents(job.id))]
        gpus = tuple(name for name in tied if kind_of(name) == EntityKind.GPU)
        if job.id in named or named.intersection(gpus):
            found[job.id] = gpus
    working = {gpu for gpus in found.values() for gpu in gpus}
    return found if all(kind_of(name) != EntityKind.GPU or name in working for name in named) else {}


def reach_summary(target: Target | None, incident: Incident, topology: Topology) -> str:
    """Return the jobs whose GPUs an action targets, as a phrase; empty unless the target is a job."""
    if target is not Target.ALL_GPUS_OF_JOB:
        return ""
    jobs = gpus_by_job(incident, topology)
    if not any(jobs.values()):
        return "for every GPU of the node: its jobs are not known"
    names = {job: ", ".join(sorted(topology.entity(gpu).name for gpu in gpus)) for job, gpus in jobs.items()}
    return f"for the job {' and '.join(f'{topology.entity(job).key} on {gpus}' for job, gpus in names.items())}"


def targets_of(target: Target, incident: Incident, node: MeasuredNode, topology: Topology) -> tuple[str, ...]:
    """Return the target GPUs that answer, in the order of the node.

    If the topology defines for no supply what it feeds, each feeds every GPU: a cap too many costs speed, one too few a
    GPU. If it does, a supply that feeds none, such as a 5 V rail, or none that still answers, means none.
    """
    present = tuple(gpu.entity_id for gpu in node.gpus)
    if target is Target.ALL_GPUS:
        return present
    if target is Target.ALL_GPUS_OF_JOB:  # one synchronous job goes at the pace of its slowest GPU
        shared = {gpu for gpus in gpus_by_job(incident, topology).values() for gpu in gpus}
        return tuple(gpu for gpu in present if gpu in shared) if shared else present
    if target is Target.THIS_GPU:
        meant = {incident.entity_id} if kind_of(incident.entity_id) == EntityKind.GPU else set(incident.affected)
        return tuple(gpu for gpu in present if gpu in meant)
    supplies = set(supplies_of_incident(incident))
    if not supplies:
        gpus = (incident.entity_id, *incident.affected)
        supplies = {supply for gpu in gpus for supply in supplies_of_gpu(gpu, topology)}
    fed = {gpu for supply in supplies for gpu in gpus_of_supply(supply, topology)}
    if not fed and not (supplies and _is_wired(topology)):
        return present
    return tuple(gpu for gpu in present if gpu in fed)


def _is_wired(topology: Topology) -> bool:
    """Return True if the topology defines for any supply what it feeds."""
    return any(gpus_of_supply(one.id, topology) for one in topology.of_kind(EntityKind.SUPPLY))


def common_clocks_mhz(gpus: Sequence[MeasuredGpu], *, min_clock_ratio: float) -> tuple[float, ...]:
    """Return the clocks that all of them support within the limits, ascending; at least the highest."""
    if not gpus:
        raise ValueError("there is no GPU to choose a clock for")
    shared = set(gpus[0].supported_mhz).intersection(*(gpu.supported_mhz for gpu in gpus[1:]))
    # Different parts share no list: the actuator takes the nearest clock below on each.
    clocks = sorted(shared or set(gpus[0].supported_mhz) or {gpus[0].max_clock_mhz})
    floor_mhz = min_clock_ratio * max(gpu.max_clock_mhz for gpu in gpus)
    return tuple(clock for clock in clocks if clock >= floor_mhz) or (clocks[-1],)


def at_or_below(clocks_mhz: Sequence[float], clock_mhz: float) -> float:
    """Return the highest clock that does not exceed this one, else the lowest of all."""
    return max((clock for clock in clocks_mhz if clock <= clock_mhz), default=clocks_mhz[0])
