"""Build the power cycle of this node from the configuration."""

from collections.abc import Sequence
from pathlib import Path

from agent.collectors.bmc.redfish_client import RedfishClient
from agent.responding.power_cycle import Drained, Occupancy, PowerCycle, approver_of
from agent.responding.schedulers.kubernetes import KubernetesDrain, KubernetesWork
from agent.responding.schedulers.kubernetes_api import KubernetesApi
from agent.responding.schedulers.slurm import SlurmCommands, SlurmDrain, SlurmWork
from config.actuators import Actuators, Scheduler
from telemetry.clock import Clock


def power_cycle_for(actuators: Actuators, *, node: str, folder: Path, clock: Clock) -> PowerCycle | None:
    """Return the power cycle with every scheduler that drains this node; None if no BMC is configured for it."""
    section = actuators.power_cycle
    if not section.address:
        return None
    settings = section.bmc()
    drains, work = _schedulers(actuators, node=node, clock=clock)
    return PowerCycle(
        section.settings(node),
        lambda: RedfishClient(settings, clock=clock),
        folder=folder,
        clock=clock,
        approver=approver_of,
        drains=drains,
        occupancies=work,
    )


def _schedulers(actuators: Actuators, *, node: str, clock: Clock) -> tuple[Sequence[Drained], Sequence[Occupancy]]:
    drains: list[Drained] = []
    work: list[Occupancy] = []
    if Scheduler.SLURM in actuators.drain:
        slurm = actuators.slurm.settings(node)
        commands = SlurmCommands(slurm, clock)
        drains.append(Drained(switch=SlurmDrain(commands), target=slurm.node))
        work.append(SlurmWork(commands, node=slurm.node))
    if Scheduler.KUBERNETES in actuators.drain:
        name, api = actuators.kubernetes.node_of(node), KubernetesApi(actuators.kubernetes.settings())
        drains.append(Drained(switch=KubernetesDrain(api, clock=clock), target=name))
        work.append(KubernetesWork(api, node=name))
    return drains, work
