"""Interfaces of the board's controller: readings go to IPMI and Redfish, events into its log."""

from pathlib import Path

from simulator.files.node import NodeFile
from simulator.files.sensor import load_sensor
from simulator.plant.events import PlantEvent, PlantEventKind
from simulator.plant.state import PlantNodeState
from simulator.sensors.bank import SensorBank
from simulator.sensors.bmc import BmcReadings
from simulator.served.board.ipmi import IpmiController
from simulator.served.board.sensors import SensorQuantity
from simulator.served.board.status import BoardHealth, ControllerState

INTERRUPT_MS = 500  # long enough for the controller's own scan to see it


class BoardInterface:
    """A controller that follows the sensors of a node.

    Attributes
    ----------
    board
        What it knows; Redfish shows it.
    controller
        The IPMI side once it was started, None before.

    Raises
    ------
    ValueError
        The node has no controller.
    """

    def __init__(self, node: NodeFile) -> None:
        if node.sensors.bmc is None:
            raise ValueError(f"{node.name} has no management controller")
        self._node = node
        self.board = ControllerState(node, load_sensor(node.sensors.bmc))
        (self._interrupt,) = (s for s in self.board.sensors if s.kind is SensorQuantity.CRITICAL_INTERRUPT)
        self.controller: IpmiController | None = None
        self._readings: BmcReadings | None = None
        self._interrupt_until_ms: int | None = None
        self._interrupt_wanted = False

    def start_ipmi(self, folder: Path, *, port: int = 0) -> IpmiController:
        """Start the IPMI side with what was measured so far.

        Raises
        ------
        EnvironmentLacksError
            ``ipmi_sim`` is not installed, or the port is taken.
        """
        sensors, raw = self.board.sensors, self.board.status.raw
        self.controller = IpmiController(folder, sensors, first=raw, name=self._node.name, port=port)
        return self.controller

    def receive_event(self, event: PlantEvent, *, time_ns: int) -> None:
        """Log what a controller notices by itself."""
        if event.kind is PlantEventKind.BMC_CRITICAL:
            place = "" if event.gpu is None else f" at {self._node.slots[event.gpu].pci}"
            message = f"Critical interrupt: bus fatal error{place}"
            self.board.log(BoardHealth.CRITICAL, message, time_ns=time_ns, sensor=self._interrupt)
            self._interrupt_wanted = True
        elif event.kind in (PlantEventKind.POWER_OFF, PlantEventKind.POWER_ON):
            off = event.kind is PlantEventKind.POWER_OFF
            health = BoardHealth.CRITICAL if off else BoardHealth.OK
            self.board.log(health, f"System power turned {'off' if off else 'on'}", time_ns=time_ns)

    def show(self, state: PlantNodeState, bank: SensorBank, *, time_ns: int) -> None:
        """Pass on what was measured since the last time."""
        self._hold_interrupt(state.now_ms)
        readings = bank.bmc
        if readings is None or (readings is self._readings and state.powered is self.board.status.powered):
            return
        self._readings = readings
        self.board.show(readings, time_ns=time_ns, powered=state.powered)
        if self.controller is not None:
            self.controller.show(self.board.status.raw)
            self.controller.switch(on=state.powered)

    def close(self) -> None:
        """Stop the IPMI side."""
        if self.controller is not None:
            self.controller.close()
            self.controller = None

    def _hold_interrupt(self, now_ms: int) -> None:
        """Keep the interrupt up for a while and then down for as long, so that two of them are two entries."""
        if self.controller is None:
            return
        if self._interrupt_until_ms is None:
            if self._interrupt_wanted:
                self._interrupt_wanted = False
                self._interrupt_until_ms = now_ms + INTERRUPT_MS
                self.controller.interrupt(on=True)
        elif now_ms >= self._interrupt_until_ms + INTERRUPT_MS:
            self._interrupt_until_ms = None
        elif now_ms >= self._interrupt_until_ms:
            self.controller.interrupt(on=False)
