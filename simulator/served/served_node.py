"""A served node with all its interfaces: the plant's files, its controller over IPMI, and Redfish."""

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from simulator.files.node import NodeFile
from simulator.files.scenario import ScenarioFile
from simulator.files.workload import Workload
from simulator.served.board.interface import BoardInterface
from simulator.served.board.ipmi import PASSWORD, USER, IpmiController
from simulator.served.board.redfish.service import RedfishService
from simulator.served.board.redfish.sessions import RedfishSessions
from simulator.served.board.redfish.tree import RedfishTree
from simulator.served.server import PlantServer
from telemetry.clock import Clock
from telemetry.errors import EnvironmentLacksError


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardOptions:
    """Ports and login of the management controller.

    `ipmi_needed` makes a missing ``ipmi_sim`` an error; else it is only noted. Ports of 0 are free ones.
    """

    ipmi_needed: bool = False
    ipmi_port: int = 0
    redfish_port: int = 0
    redfish_login: bool = False


@dataclass(slots=True, kw_only=True)
class ServedNode:
    """A node that is served; `notes` state in one sentence each which interface is missing, and why."""

    server: PlantServer
    ipmi: IpmiController | None = None
    redfish: RedfishService | None = None
    notes: tuple[str, ...] = ()

    def close(self) -> None:
        """Stop everything; the files stay."""
        if self.redfish is not None:
            self.redfish.close()
        self.server.close()  # closes the interfaces too, and with them the controller


def serve_node(
    node: NodeFile,
    scenario: ScenarioFile,
    *,
    seed: int,
    run_dir: Path,
    clock: Clock,
    workload: Workload | None = None,
    board: BoardOptions | None = None,
) -> ServedNode:
    """Serve a node with everything it has; nothing moves until its server runs.

    Parameters
    ----------
    board
        None: without the management controller.

    Raises
    ------
    EnvironmentLacksError
        The folder cannot be written, a port is taken, or ``ipmi_sim`` is needed and missing; nothing is left running.
    """
    server = PlantServer(node, scenario, seed=seed, run_dir=run_dir, clock=clock, workload=workload)
    served = ServedNode(server=server)
    with ExitStack() as begun:
        begun.callback(served.close)
        if board is not None and node.sensors.bmc is None:
            served.notes = (f"{node.name} has no management controller: no IPMI, no Redfish",)
        elif board is not None:
            _serve_board(served, node, board, folder=run_dir / "bmc", clock=clock)
        begun.pop_all()
    return served


def serve_redfish(server: PlantServer, node: NodeFile, options: BoardOptions, clock: Clock) -> RedfishService:
    """Serve the controller of a node over Redfish alone; ValueError where it has none."""
    interface = BoardInterface(node)
    server.add(interface)
    return _redfish(interface, node, options, clock)


def _serve_board(served: ServedNode, node: NodeFile, options: BoardOptions, *, folder: Path, clock: Clock) -> None:
    interface = BoardInterface(node)
    served.server.add(interface)
    try:
        served.ipmi = interface.start_ipmi(folder, port=options.ipmi_port)
    except EnvironmentLacksError as err:
        if options.ipmi_needed:
            raise
        served.notes = (f"no IPMI: {err}",)
    served.redfish = _redfish(interface, node, options, clock)


def _redfish(interface: BoardInterface, node: NodeFile, options: BoardOptions, clock: Clock) -> RedfishService:
    return RedfishService(
        RedfishTree(node, interface.board, clock),
        RedfishSessions(user=USER, password=PASSWORD, clock=clock),
        port=options.redfish_port,
        login_needed=options.redfish_login,
    )
