"""A served plant that stands still until a test moves it on."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from simulator.files.node import NodeFile, load_node
from simulator.files.scenario import load_scenario
from simulator.served.server import PlantServer
from tests.simulator.hand_clock import HandClock


def node_with(*, driver_version: str | None = None, gpus: int | None = None, margins: bool = False) -> NodeFile:
    node = load_node("v100x4")
    if driver_version is not None:
        node = node.model_copy(update={"driver": node.driver.model_copy(update={"version": driver_version})})
    if gpus is not None:
        slots = tuple(
            node.slots[0].model_copy(update={"pci": f"0000:{0x10 + index:02x}:00.0"}) for index in range(gpus)
        )
        node = node.model_copy(update={"slots": slots, "workload": "idle"})  # the supplies carry no more
    if margins:
        # T.Limit of an H100 SXM5, nvidia-smi -q -d TEMPERATURE: shutdown -8, slowdown -2, memory and GPU maximum 0.
        data = {**node.gpu.model_dump(), "tlimit_c": {"shutdown": -8, "slowdown": -2, "memory_max": 0, "gpu_max": 0}}
        node = node.model_copy(update={"gpu": type(node.gpu).model_validate(data)})
    return node


@contextmanager
def served_plant(
    run_dir: Path,
    *,
    node: NodeFile | None = None,
    scenario: str = "healthy",
    clock: HandClock | None = None,
    clocks_unrestricted: bool | None = None,
) -> Iterator[PlantServer]:
    node = node or load_node("v100x4")
    server = PlantServer(
        node,
        load_scenario(scenario, node),
        seed=1,
        run_dir=run_dir,
        clock=clock or HandClock(),
        clocks_unrestricted=clocks_unrestricted,
    )
    try:
        yield server
    finally:
        server.close()
