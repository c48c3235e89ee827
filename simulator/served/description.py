"""Address of a served node, and how a program reads it."""

from dataclasses import dataclass
from pathlib import Path

from simulator.driver.build import build_driver
from simulator.driver.layout import STATE_VARIABLE
from simulator.files.node import NodeFile
from simulator.files.scenario import ScenarioFile
from simulator.runs.topology import feeding
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.errors import EnvironmentLacksError


@dataclass(frozen=True, slots=True, kw_only=True)
class PlantAddress:
    """Address of a served plant.

    `library_dir` is None where no driver library was built; then only the in-process driver can read the plant.
    """

    node: str
    scenario: str
    seed: int
    state: Path
    sysfs_root: Path
    proc_root: Path
    kernel_log: Path
    library_dir: Path | None
    topology: Topology

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables that make a program load the simulated driver."""
        variables = {STATE_VARIABLE: str(self.state)}
        if self.library_dir is not None:
            variables["LD_LIBRARY_PATH"] = str(self.library_dir)
        return variables

    @property
    def sources(self) -> dict[str, str]:
        """Return the variables for the rest: railwatch's own, and those that many exporters heed for sysfs and proc."""
        return {
            "RAILWATCH_SOURCES__SYSFS": str(self.sysfs_root),
            "RAILWATCH_SOURCES__KMSG": str(self.kernel_log),
            "RAILWATCH_SOURCES__PROC": str(self.proc_root),
            "HOST_SYS": str(self.sysfs_root),
            "HOST_PROC": str(self.proc_root),
        }


def describe(
    node: NodeFile, scenario: ScenarioFile, *, seed: int, run_dir: Path, library_dir: Path | None = None
) -> PlantAddress:
    """Return where the plant will be found once it is served under this folder."""
    return PlantAddress(
        node=node.name,
        scenario=scenario.name,
        seed=seed,
        state=run_dir / "plant.state",
        sysfs_root=run_dir / "sys",
        proc_root=run_dir / "proc",
        kernel_log=run_dir / "kmsg",
        library_dir=library_dir,
        topology=topology_of(node),
    )


def topology_of(node: NodeFile) -> Topology:
    """Return who feeds whom: the node holds its supplies, and each supply feeds the GPUs on its bus."""
    box = Entity(kind=EntityKind.NODE, key=node.name, name=node.name)
    supplies = [Entity(kind=EntityKind.SUPPLY, key=unit.name, name=unit.name) for unit in node.supply.units]
    gpus = [
        Entity(
            kind=EntityKind.GPU,
            key=node.gpu_uuid(index),
            name=f"gpu{index}",
            tags=(("pci", slot.pci), ("slot", str(index))),
        )
        for index, slot in enumerate(node.slots)
    ]
    held = [(box.id, supply.id) for supply in supplies]
    return Topology(entities=(box, *supplies, *gpus), edges=(*held, *feeding(supplies, gpus, node.wiring)))


def library_for(cache_dir: Path) -> tuple[Path | None, str]:
    """Return the folder of the driver library, or None and why there is none."""
    try:
        return build_driver(cache_dir), "the simulated driver library is built"
    except EnvironmentLacksError as err:
        return None, str(err)
