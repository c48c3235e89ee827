"""NVLink topology: to other GPUs, to switches, or unconnected."""

from dataclasses import dataclass

from simulator.driver.layout import LINK_END
from simulator.driver.state import StateArray
from simulator.files.node import NodeFile

# nvmlIntNvLinkDeviceType_t, nvml.h
END_GPU, END_SWITCH, END_NOTHING = 0, 2, 255
# Version of NVLink to NVML_NVLINK_VERSION_..., nvml.h
VERSION_IDS = {1: 1, 2: 2, 3: 4, 4: 6, 5: 7}
SWITCHES = {"ampere": (6, 0x1AF110DE), "hopper": (4, 0x22A310DE)}  # DGX A100 and H100 user guides; pci-ids.ucw.cz
OTHER_SWITCHES = (2, 0x22A310DE)  # DGX B200 user guide, two switches; assumption: the id
FIRST_SWITCH_BUS = 0xC5  # assumption: beyond all GPUs


@dataclass(frozen=True, slots=True)
class Peer:
    """The other end of a link between two GPUs; both ends have the same number."""

    gpu: int
    link: int


def peer_of(gpu: int, link: int, n_gpus: int) -> Peer | None:
    """Return the GPU that a link of a mesh leads to; None where it leads nowhere.

    Links are laid as rounds of a tournament: in each round everybody has one partner, and after ``n_gpus - 1`` rounds
    it starts again, so every pair has as many links as the part allows, give or take one.
    """
    if n_gpus < 2:
        return None
    rounds = n_gpus - 1 + n_gpus % 2  # an odd one out rests
    turn = link % rounds
    last = n_gpus - 1 if n_gpus % 2 == 0 else None
    if gpu == last:
        return Peer(turn, link)
    partner = (2 * turn - gpu) % rounds
    if partner != gpu:
        return Peer(partner, link)
    return None if last is None else Peer(last, link)


def describe_links(ends: StateArray, node: NodeFile, gpu: int) -> None:
    """Write where the links of one GPU lead, ``(MAX_LINKS,)`` of `LINK_END`."""
    if ends.dtype != LINK_END:
        raise ValueError("not the ends of links")
    ends["kind"] = END_NOTHING
    for link in range(node.gpu.nvlink_count):
        if node.fabric == "mesh" and (peer := peer_of(gpu, link, node.gpu_count)) is not None:
            domain, bus, device = place_of(node, peer.gpu)
            ends[link] = (END_GPU, peer.gpu, peer.link, domain, bus, device, node.gpu.pci_device_id)
        elif node.fabric == "switch":
            count, device_id = SWITCHES.get(node.gpu.architecture, OTHER_SWITCHES)
            ends[link] = (END_SWITCH, 0, link, 0, FIRST_SWITCH_BUS + link % count, 0, device_id)


def place_of(node: NodeFile, gpu: int) -> tuple[int, int, int]:
    """Return PCI domain, bus and device of a GPU."""
    domain, bus, device = node.slots[gpu].pci.removesuffix(".0").split(":")
    return int(domain, 16), int(bus, 16), int(device, 16)
