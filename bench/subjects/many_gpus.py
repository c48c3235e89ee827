"""A plant of many GPUs, served in real time by a process of its own. Run as a module with their number and a folder."""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from bench.cores import other_core, pin
from simulator.driver.build import build_driver
from simulator.files.node import NodeFile, load_node
from simulator.files.scenario import load_scenario
from simulator.served.description import PlantAddress, describe
from simulator.served.server import serve
from telemetry.clock import SystemClock
from telemetry.errors import EnvironmentLacksError

SEED = 1


def node_of(wanted: str) -> NodeFile:
    """Return a node by its name, or for 8 or 16 the node of four GPUs and its supplies two or four times over."""
    if not wanted.isdecimal():
        return load_node(wanted)
    gpus = int(wanted)
    times = gpus // 4
    fields = json.loads(load_node("v100x4").model_dump_json())
    slots, supply = fields["slots"], fields["supply"]
    fields["slots"] = [{**slot, "pci": f"0000:{0x1A + n:02x}:00.0"} for n, slot in enumerate(slots * times)]
    supply["units"] = [{**unit, "name": f"psu{n}"} for n, unit in enumerate(supply["units"] * times)]
    return NodeFile.model_validate({**fields, "name": f"v100x{gpus}"})


@contextlib.contextmanager
def served_plant(folder: Path, gpus: int | str, *, niceness: int = 0) -> Iterator[PlantAddress]:
    """Serve so many GPUs, or the node of that name, until the block ends, with the driver library built beside it.

    Raises
    ------
    EnvironmentLacksError
        There is no C compiler, or the plant did not start.
    """
    library_dir = build_driver(folder / "driver")
    node = node_of(str(gpus))
    run_dir = folder / "plant"
    command = [sys.executable, "-m", "bench.subjects.many_gpus", str(gpus), str(run_dir), str(niceness)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
        try:
            if child.stdout is None or child.stdout.readline() != b"ready\n":
                raise EnvironmentLacksError("the simulated node did not start")
            scenario = load_scenario("healthy", node)
            yield describe(node, scenario, seed=SEED, run_dir=run_dir, library_dir=library_dir)
        finally:
            child.terminate()


def main() -> None:
    """Serve until SIGTERM; a third argument is the niceness, for root."""
    pin(other_core())
    if os.geteuid() == 0 and sys.argv[3] != "0":
        os.setpriority(os.PRIO_PROCESS, 0, int(sys.argv[3]))
    node = node_of(sys.argv[1])
    serve(
        node,
        load_scenario("healthy", node),
        seed=SEED,
        run_dir=Path(sys.argv[2]),
        clock=SystemClock(),
        ready=lambda: print("ready", flush=True),
    )


if __name__ == "__main__":
    main()
