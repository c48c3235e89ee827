"""Everything a served node offers, put together: the plant's files, its controller over IPMI, and Redfish."""

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from simulator.files.node import NodeFile
from simulator.files.scenario import ScenarioFile
from simulator.files.workload import Workload
from simulator.served.board.face import BoardFace
from simulator.served.board.ipmi import PASSWORD, USER, IpmiController
from simulator.served.board.redfish.service import RedfishService
from simulator.served.board.redfish.sessions import Sessions
from simulator.served.board.redfish.tree import RedfishTree
from simulator.served.server import PlantServer
from telemetry.clock import Clock
from telemetry.errors import EnvironmentLacksError


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardWish:
    """Ports and login of the management controller.

    `ipmi_needed` makes a missing ``ipmi_sim`` an error; else it is only noted. Ports of 0 are free ones.
    """

    ipmi_needed: bool = False
    ipmi_port: int = 0
    redfish_port: int = 0
    redfish_login: bool = False


@dataclass(slots=True, kw_only=True)
class Offering:
    """A node that is served; `notes` say in one sentence each what is not offered, and why."""

    server: PlantServer
    ipmi: IpmiController | None = None
    redfish: RedfishService | None = None
    notes: tuple[str, ...] = ()

    def close(self) -> None:
        """Stop everything; the files stay."""
        if self.redfish is not None:
            self.redfish.close()
        self.server.close()  # its faces too, and with them the controller


def offer(
    node: NodeFile,
    scenario: ScenarioFile,
    *,
    seed: int,
    run_dir: Path,
    clock: Clock,
    workload: Workload | None = None,
    board: BoardWish | None = None,
) -> Offering:
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
    offering = Offering(server=server)
    with ExitStack() as begun:
        begun.callback(offering.close)
        if board is not None and node.sensors.bmc is None:
            offering.notes = (f"{node.name} has no management controller: no IPMI, no Redfish",)
        elif board is not None:
            _offer_board(offering, node, board, folder=run_dir / "bmc", clock=clock)
        begun.pop_all()
    return offering


def _offer_board(offering: Offering, node: NodeFile, wish: BoardWish, *, folder: Path, clock: Clock) -> None:
    face = BoardFace(node)
    offering.server.add(face)
    try:
        offering.ipmi = face.start_ipmi(folder, port=wish.ipmi_port)
    except EnvironmentLacksError as err:
        if wish.ipmi_needed:
            raise
        offering.notes = (f"no IPMI: {err}",)
    offering.redfish = RedfishService(
        RedfishTree(node, face.board, clock),
        Sessions(user=USER, password=PASSWORD, clock=clock),
        port=wish.redfish_port,
        login_needed=wish.redfish_login,
    )
