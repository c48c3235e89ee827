"""The plant process: the simulated node, in real time."""

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from threading import Event

from railwatch.processes.child import Ready, run_child
from railwatch.run_context import RunContext
from railwatch.wiring.simulated_wiring import described_topology, supply_names
from simulator.files.node import NodeFile, load_node
from simulator.files.scenario import load_scenario
from simulator.served.description import library_for
from simulator.served.server import PlantServer
from telemetry.clock import Clock, SystemClock

LOOK_S = 0.02


def main(context: RunContext, stop: Event, ready: Ready) -> None:
    """Serve the node and the scenario of the run until the request to stop."""
    if context.plant_node is None or context.scenario is None:
        raise ValueError("the run names no simulated node")
    library, why = library_for(Path("~/.cache/railwatch").expanduser())
    node = load_node(context.plant_node)
    scenario = load_scenario(context.scenario, node)
    clock = SystemClock()
    server = PlantServer(node, scenario, seed=context.seed, run_dir=context.run_dir / "plant", clock=clock)
    served = replace(server.served, library_dir=library)
    with ExitStack() as opened:
        opened.callback(server.close)
        redfish_port = None if node.sensors.bmc is None else _serve_board(server, node, clock, opened)
        ready(
            {
                "library_dir": None if library is None else str(library),
                "why_in_process": "" if library is not None else f"read in process, since there is {why}",
                "state_file": str(served.state),
                "sysfs": str(served.sysfs_root),
                "kmsg": str(served.kernel_log),
                "proc": str(served.proc_root),
                "environ": served.environment,
                "topology": described_topology(node).model_dump(mode="json", exclude_defaults=True),
                "supply_names": supply_names(node),
                "redfish_port": redfish_port,
            }
        )
        # Simulated time begins when all processes of the node are ready, however long their start takes.
        while not context.begun_path.exists() and not stop.wait(LOOK_S):
            pass
        server.run(stop.is_set)


def _serve_board(server: PlantServer, node: NodeFile, clock: Clock, opened: ExitStack) -> int:
    """Serve the controller of a node and return its port."""
    from simulator.served.served_node import BoardOptions, serve_redfish  # noqa: PLC0415 -- 0.2 s; few nodes have one

    board = serve_redfish(server, node, BoardOptions(), clock)
    opened.callback(board.close)
    return board.port


if __name__ == "__main__":
    run_child(main)
