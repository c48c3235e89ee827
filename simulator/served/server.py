"""Serves a plant as a machine would: a driver's state, sysfs, proc and a kernel log, in real time."""

import logging
import os
import signal
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

from simulator.driver.describing import describe_node
from simulator.driver.state import StateFile
from simulator.files.node import NodeFile
from simulator.files.scenario import ScenarioFile
from simulator.files.workload import Workload
from simulator.plant.events import PlantEvent
from simulator.plant.plant import BLOCK_MS, Plant
from simulator.plant.state import PlantNodeState
from simulator.publish import PlantPublisher
from simulator.sensors.bank import SensorBank
from simulator.served.description import describe
from simulator.served.kernel_lines import KernelMessages, SimulatedKernelLog
from simulator.served.pci_tree import PciTree
from simulator.served.proc_tree import ProcTree
from simulator.served.sysfs_tree import HwmonTree
from telemetry.clock import NS_PER_S, Clock
from telemetry.errors import EnvironmentLacksError
from telemetry.stop_signals import set_on_signals

logger = logging.getLogger(__name__)

BATCH_MS = 100  # how much is caught up before the wall clock is looked at again
MAX_LAG_MS = 1000  # what lies further behind is skipped and counted


class NodeInterface(Protocol):
    """Additional interface to the node; called after every block, events first."""

    def receive_event(self, event: PlantEvent, *, time_ns: int) -> None:
        """Process an event; `time_ns` is now, in UTC."""

    def show(self, state: PlantNodeState, bank: SensorBank, *, time_ns: int) -> None:
        """Show the node as it is now."""

    def close(self) -> None:
        """Stop showing anything."""


class PlantServer:
    """A plant and everything through which it is seen.

    Parameters
    ----------
    workload
        What runs before the first job of the scenario; None: what the node file names.
    clocks_unrestricted
        Whether applications clocks may be set without being root, as after ``nvidia-smi -acp UNRESTRICTED``; None:
        only where this process is not root itself, since no process could set them otherwise.

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
        workload: Workload | None = None,
        clocks_unrestricted: bool | None = None,
    ) -> None:
        self.served = describe(node, scenario, seed=seed, run_dir=run_dir)
        self.plant = Plant(node, scenario, seed, workload=workload)
        self.bank = SensorBank(node, scenario, seed)
        self.skipped_ms = 0
        self._clock = clock
        self._interfaces: list[NodeInterface] = []
        with ExitStack() as opened:
            self._make_files(run_dir, opened)
            self._opened = opened.pop_all()
        unrestricted = os.geteuid() != 0 if clocks_unrestricted is None else clocks_unrestricted
        describe_node(self._state, node, clocks_unrestricted=unrestricted)
        self._publisher = PlantPublisher(
            self.plant,
            self.bank,
            self._state,
            start_us=clock.utc_ns() // 1000 - BLOCK_MS * 1000,  # the first block is over when the clock begins
            driver_faults=scenario.driver_faults,
        )
        self._voice = KernelMessages(node)
        self._log.write(self._voice.loaded(), time_us=self._kernel_us())
        self._step()  # so that there is something to read at once
        self._start()
        self._publisher.publish()
        self._state.seal()

    def add(self, interface: NodeInterface) -> None:
        """Show the node in this way too, from now on; it is closed with the server."""
        self._interfaces.append(interface)
        self._opened.callback(interface.close)
        interface.show(self.plant.state, self.bank, time_ns=self._clock.utc_ns())

    def advance(self, n_ms: int) -> None:
        """Advance the plant, regardless of the wall clock, and show every block of it."""
        for _ in range(n_ms // BLOCK_MS):
            self._publisher.obey_requests()
            self._step()

    def run(self, stopped: Callable[[], bool]) -> None:
        """Keep step with the wall clock until `stopped` returns True.

        A machine that was busy for less than a second is caught up with in batches; beyond that, time is skipped.
        """
        self._start()
        while not stopped():
            behind_ms = (self._clock.monotonic_s() - self._start_s) * 1000.0 - self.plant.state.now_ms
            if behind_ms < BLOCK_MS:
                self._clock.sleep_until(self._clock.monotonic_s() + (BLOCK_MS - behind_ms) / 1000.0)
                continue
            if behind_ms > MAX_LAG_MS:
                self._skip(int(behind_ms) - MAX_LAG_MS)
            self.advance(min(int(behind_ms), BATCH_MS))

    def close(self) -> None:
        """Close the interfaces and release all files, which stay as they are."""
        self._interfaces.clear()
        self._opened.close()

    def _make_files(self, run_dir: Path, opened: ExitStack) -> None:
        """Create all files of the folder; what has to be closed is added to `opened`."""
        node, served = self.plant.node, self.served
        try:
            run_dir.mkdir(parents=True, exist_ok=True)
            self._hwmon = HwmonTree(served.sysfs_root, node)
            opened.callback(self._hwmon.close)
            self._pci = PciTree(served.sysfs_root, node)
            self._proc = ProcTree(served.proc_root, node, start_s=self._clock.utc_ns() // NS_PER_S)
            self._log = SimulatedKernelLog(served.kernel_log)
            opened.callback(self._log.close)
            self._state = StateFile(served.state, mode="create")
            opened.callback(self._state.close)
        except OSError as err:
            raise EnvironmentLacksError(f"cannot serve a plant in {run_dir}: {err.strerror}") from err

    def _start(self) -> None:
        now_ms = self.plant.state.now_ms
        self._start_s = self._clock.monotonic_s() - now_ms / 1000.0
        self._publisher.start_us = self._clock.utc_ns() // 1000 - now_ms * 1000

    def _skip(self, n_ms: int) -> None:
        if self.skipped_ms == 0:
            logger.warning(
                "the machine is too busy for the plant; simulated time is skipped", extra={"skipped_ms": n_ms}
            )
        self.skipped_ms += n_ms
        self._start_s += n_ms / 1000.0
        self._publisher.start_us += n_ms * 1000

    def _kernel_us(self) -> int:
        return int(self._clock.monotonic_s() * 1e6)

    def _step(self) -> None:
        self.bank.advance(self.plant.advance(BLOCK_MS), self.plant.state)
        self._show()

    def _show(self) -> None:
        state, bank = self.plant.state, self.bank
        self._pci.show(state.gpus)
        for event in self.plant.take_events():
            self._log.write(self._voice.lines(event), time_us=self._kernel_us())
            self._publisher.report(event)
            for interface in self._interfaces:
                interface.receive_event(event, time_ns=self._clock.utc_ns())
        self._publisher.publish()
        self._hwmon.show(bank, present=self.plant.state.gpus.present)
        self._proc.show(state)
        for interface in self._interfaces:
            interface.show(state, bank, time_ns=self._clock.utc_ns())


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
    set_on_signals(stop, (signal.SIGTERM, signal.SIGINT))
    server = PlantServer(node, scenario, seed=seed, run_dir=run_dir, clock=clock)
    try:
        ready()
        server.run(stop.is_set)
    finally:
        server.close()
