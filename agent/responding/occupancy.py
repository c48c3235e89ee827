"""Who would lose work if the node went down, as its schedulers know it."""

from collections.abc import Sequence

from agent.responding.kubernetes import Cluster
from agent.responding.slurm import SlurmCommands


class SlurmWork:
    """Jobs of Slurm on the node, also those that are just ending."""

    def __init__(self, commands: SlurmCommands, *, node: str) -> None:
        self._commands = commands
        self._node = node

    def busy(self) -> Sequence[str]:
        """Return the jobs."""
        states = "RUNNING,COMPLETING,CONFIGURING,SUSPENDED,STOPPED"
        jobs = self._commands.ask("squeue", "-h", "-w", self._node, "-t", states, "-o", "%A").split()
        return [f"Slurm job {job}" for job in dict.fromkeys(jobs)]


class KubernetesWork:
    """Pods on the node that do not belong to it."""

    def __init__(self, cluster: Cluster, *, node: str) -> None:
        self._cluster = cluster
        self._node = node

    def busy(self) -> Sequence[str]:
        """Return the pods."""
        return [f"pod {pod.words}" for pod in self._cluster.pods(self._node) if pod.works]
