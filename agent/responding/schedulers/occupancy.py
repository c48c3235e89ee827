"""Jobs and pods that would lose work if the node went down, from its schedulers."""

from collections.abc import Sequence

from agent.responding.schedulers.kubernetes import Cluster
from agent.responding.schedulers.slurm import SlurmCommands


class SlurmWork:
    """Slurm jobs on the node, including those that are completing."""

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
        return [f"pod {pod.summary}" for pod in self._cluster.pods(self._node) if pod.works]
