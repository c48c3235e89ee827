"""Serves a plant as a machine would: a driver's state, a sysfs tree and a kernel log, in real time."""

import logging
import os
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from simulator.driver.build import build_driver
from simulator.driver.layout import STATE_VARIABLE
from simulator.driver.state import StateFile
from simulator.files.node import NodeFile
from simulator.files.scenario import ScenarioFile
from simulator.kernel_log import KernelLog
from simulator.plant.plant import BLOCK_MS, Plant
from simulator.publish import PlantPublisher, describe_node
from simulator.sysfs_tree import SysfsTree
from telemetry.clock import Clock
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.errors import EnvironmentLacksError

logger = logging.getLogger(__name__)

BATCH_MS = 100  # how much is caught up before the wall clock is looked at again
MAX_LAG_MS = 1000  # what lies further behind is skipped and counted


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """Where a served plant is found.

    `library_dir` is None where no driver library was built; then only the in-process driver can read the plant.
    """

    node: str
    scenario: str
    seed: int
    state: Path
    sysfs_root: Path
    kernel_log: Path
    library_dir: Path | None
    topology: Topology

    @property
    def environment(self) -> dict[str, str]:
        """Give the variables that make a program load the simulated driver."""
        variables = {STATE_VARIABLE: str(self.state)}
        if self.library_dir is not None:
            variables["LD_LIBRARY_PATH"] = str(self.library_dir)
        return variables


def describe(
    node: NodeFile, scenario: ScenarioFile, *, seed: int, run_dir: Path, library_dir: Path | None = None
) -> Served:
    """Give where the plant will be found once it is served under this folder."""
    return Served(
        node=node.name,
        scenario=scenario.name,
        seed=seed,
        state=run_dir / "plant.state",
        sysfs_root=run_dir / "sys",
        kernel_log=run_dir / "kmsg",
        library_dir=library_dir,
        topology=topology_of(node),
    )


def topology_of(node: NodeFile) -> Topology:
    """Give who feeds whom: the node holds its supplies, and every supply on the common bus feeds every GPU."""
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
    fed = [(supply.id, gpu.id) for supply in supplies for gpu in gpus]
    return Topology(entities=(box, *supplies, *gpus), edges=(*held, *fed))


class PlantServer:
    """A plant and everything through which it is seen.

    Parameters
    ----------
    clocks_unrestricted
        Whether applications clocks may be set without being root, as after ``nvidia-smi -acp UNRESTRICTED``; None:
        only where this process is not root itself, since nobody could set them otherwise.

    Attributes
    ----------
    skipped_ms
        Simulated time given up because the machine was too busy to keep up.
    """

    def __init__(
        self,
        node: NodeFile,
        scenario: ScenarioFile,
        *,
        seed: int,
        run_dir: Path,
        clock: Clock,
        clocks_unrestricted: bool | None = None,
    ) -> None:
        self.served = describe(node, scenario, seed=seed, run_dir=run_dir)
        self.plant = Plant(node, scenario, seed)
        self.skipped_ms = 0
        self._clock = clock
        self._listed = set(range(node.gpu_count))
        try:
            run_dir.mkdir(parents=True, exist_ok=True)
            self._sysfs = SysfsTree(self.served.sysfs_root, node)
            self._log = KernelLog(self.served.kernel_log)
            self._state = StateFile(self.served.state, mode="create")
        except OSError as err:
            raise EnvironmentLacksError(f"cannot serve a plant in {run_dir}: {err.strerror}") from err
        unrestricted = os.geteuid() != 0 if clocks_unrestricted is None else clocks_unrestricted
        describe_node(self._state, node, clocks_unrestricted=unrestricted)
        self._publisher = PlantPublisher(self.plant, self._state, start_us=0)
        self._start()
        self._log.loaded(node, time_us=self._kernel_us())
        self._show()
        self._state.seal()

    def advance(self, n_ms: int) -> None:
        """Move the plant on, whatever the wall clock says, and show every block of it."""
        for _ in range(n_ms // BLOCK_MS):
            self._publisher.obey_requests()
            self.plant.advance(BLOCK_MS)
            self._show()

    def run(self, stopped: Callable[[], bool]) -> None:
        """Keep step with the wall clock until told to stop.

        A machine that was busy for less than a second is caught up with in batches; beyond that, time is skipped.
        """
        self._start()
        while not stopped():
            behind_ms = self._wall_ms() - self.plant.now_ms
            if behind_ms < BLOCK_MS:
                self._clock.sleep_until(self._clock.monotonic_s() + (BLOCK_MS - behind_ms) / 1000.0)
                continue
            if behind_ms > MAX_LAG_MS:
                self._skip(int(behind_ms) - MAX_LAG_MS)
            self.advance(min(int(behind_ms), BATCH_MS))

    def close(self) -> None:
        """Let all files go; they stay as they are."""
        self._sysfs.close()
        self._log.close()
        self._state.close()

    def _start(self) -> None:
        self._start_s = self._clock.monotonic_s() - self.plant.now_ms / 1000.0
        self._publisher.start_us = self._clock.utc_ns() // 1000 - self.plant.now_ms * 1000

    def _skip(self, n_ms: int) -> None:
        if self.skipped_ms == 0:
            logger.warning(
                "the machine is too busy for the plant; simulated time is skipped", extra={"skipped_ms": n_ms}
            )
        self.skipped_ms += n_ms
        self._start_s += n_ms / 1000.0
        self._publisher.start_us += n_ms * 1000

    def _wall_ms(self) -> float:
        return (self._clock.monotonic_s() - self._start_s) * 1000.0

    def _kernel_us(self) -> int:
        return int(self._clock.monotonic_s() * 1e6)

    def _show(self) -> None:
        for gpu in [index for index in self._listed if not self.plant.present[index]]:
            self._listed.remove(gpu)
            self._sysfs.remove_gpu(gpu)
        for event in self.plant.take_xids():
            self._log.fell_off_the_bus(self.plant.node, event.gpu, event.code, time_us=self._kernel_us())
            self._publisher.report_xid(event.gpu, event.code)
        self._publisher.publish()
        self._sysfs.show(self.plant.rail, self.plant.inlet_c)


def serve(
    node: NodeFile,
    scenario: ScenarioFile,
    *,
    seed: int,
    run_dir: Path,
    clock: Clock,
    ready: Callable[[], None] = lambda: None,
) -> None:
    """Serve a plant until SIGTERM or SIGINT: the main function of a process of its own.

    `ready` is called once everything stands.
    """
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    server = PlantServer(node, scenario, seed=seed, run_dir=run_dir, clock=clock)
    try:
        ready()
        server.run(stop.is_set)
    finally:
        server.close()


def library_for(cache_dir: Path) -> tuple[Path | None, str]:
    """Give the folder of the driver library, or None and why there is none."""
    try:
        return build_driver(cache_dir), "the simulated driver library is built"
    except EnvironmentLacksError as err:
        return None, str(err)
