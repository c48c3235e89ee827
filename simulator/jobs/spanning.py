"""Jobs that span nodes: which runs when, and on which nodes."""

from collections.abc import Sequence
from dataclasses import dataclass

from simulator.files.node import NodeFile
from simulator.files.rack_scenario import RackJobStart
from simulator.jobs.building import build_job
from simulator.jobs.plan import job_workload
from simulator.jobs.port import Job
from simulator.plant.chance import stream


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanningJob:
    """Job on all GPUs of some nodes, in the order of `nodes`, from a time up to another."""

    job: Job
    nodes: tuple[int, ...]
    from_s: float
    until_s: float


class SpanningPlan:
    """The jobs of a rack; one ends when another takes a node of it.

    Attributes
    ----------
    jobs
        All of them, in the order in which they begin.

    Raises
    ------
    ConfigError
        A workload that is named does not exist or cannot be used.
    """

    def __init__(self, starts: Sequence[RackJobStart], nodes: Sequence[NodeFile], seed: int) -> None:
        ordered = sorted(starts, key=lambda start: start.at)
        jobs = []
        for number, start in enumerate(ordered):
            job = build_job(
                job_workload(start.workload, start.input_factor),
                gpus_of_nodes=[nodes[node].gpu_count for node in start.nodes],
                part=nodes[start.nodes[0]].gpu,
                chance=stream(seed, f"spanning job {number}"),
            )
            ends_s = [later.at for later in ordered[number + 1 :] if set(later.nodes) & set(start.nodes)]
            until_s = min(ends_s, default=float("inf"))
            jobs.append(SpanningJob(job=job, nodes=start.nodes, from_s=start.at, until_s=until_s))
        self.jobs = tuple(jobs)

    def at(self, time_s: float) -> tuple[SpanningJob, ...]:
        """Return the jobs that run at a time; no node is in two of them."""
        return tuple(job for job in self.jobs if job.from_s <= time_s < job.until_s)
