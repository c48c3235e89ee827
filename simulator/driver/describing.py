"""Constant properties of the GPUs of a node as the driver reports them: boards, NVLink topology, initial settings."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from simulator.driver import layout
from simulator.driver.layout import LINK_END
from simulator.driver.state import StateArray, StateFile
from simulator.files.node import NodeFile

# nvmlIntNvLinkDeviceType_t, nvml.h
END_GPU, END_SWITCH, END_NOTHING = 0, 2, 255
# Version of NVLink to NVML_NVLINK_VERSION_..., nvml.h
VERSION_IDS = {1: 1, 2: 2, 3: 4, 4: 6, 5: 7}
SWITCHES = {"ampere": (6, 0x1AF110DE), "hopper": (4, 0x22A310DE)}  # DGX A100 and H100 user guides; pci-ids.ucw.cz
OTHER_SWITCHES = (2, 0x22A310DE)  # DGX B200 user guide, two switches; assumption: the id
FIRST_SWITCH_BUS = 0xC5  # assumption: beyond all GPUs
ARCHITECTURES = {"volta": 5, "ampere": 7, "hopper": 9, "blackwell": 10}  # NVML_DEVICE_ARCH_..., nvml.h


@dataclass(frozen=True, slots=True)
class PeerGpu:
    """The other end of a link between two GPUs; both ends have the same number."""

    gpu: int
    link: int


def peer_of(gpu: int, link: int, n_gpus: int) -> PeerGpu | None:
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
        return PeerGpu(turn, link)
    partner = (2 * turn - gpu) % rounds
    if partner != gpu:
        return PeerGpu(partner, link)
    return None if last is None else PeerGpu(last, link)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardProperties:
    """Board properties that programs print and no detector uses. Numbers of real parts; assumption: on this."""

    vbios: str
    part_number: str
    inforom_image: str
    remapper_banks: int = 0  # nvidia-smi -q -d ROW_REMAPPER, banks with all rows left


BOARDS = {
    "volta": BoardProperties(vbios="88.00.4F.00.09", part_number="900-2G503-0000-000", inforom_image="G503.0201.00.03"),
    "ampere": BoardProperties(
        vbios="92.00.45.00.05", part_number="692-2G506-0210-002", inforom_image="G506.0210.00.04", remapper_banks=640
    ),
    "hopper": BoardProperties(
        vbios="96.00.74.00.1A", part_number="692-2G520-0200-000", inforom_image="G520.0200.00.05", remapper_banks=2560
    ),
    "blackwell": BoardProperties(
        vbios="97.00.82.00.10", part_number="692-2G525-0220-501", inforom_image="G525.0220.00.03", remapper_banks=4096
    ),
}


def features_of(node: NodeFile) -> int:
    """Return what the part can, as bits of `fixed.features`; the first architecture with each is that of nvml.h."""
    gpu = node.gpu
    age = ARCHITECTURES[gpu.architecture]
    ampere, hopper = age >= ARCHITECTURES["ampere"], age >= ARCHITECTURES["hopper"]
    has = {
        layout.FEATURE_TLIMIT: gpu.tlimit_c is not None,
        layout.FEATURE_LOCKED_CLOCKS: age >= ARCHITECTURES["volta"],
        layout.FEATURE_LOCKED_MEMORY_CLOCKS: ampere,
        layout.FEATURE_ROW_REMAPPING: ampere,
        layout.FEATURE_GPM: hopper,
        layout.FEATURE_AVERAGE_POWER: gpu.sensor.average_window_ms is not None,
        layout.FEATURE_MIG: ampere,
        layout.FEATURE_JPEG_AND_OFA: ampere,
        layout.FEATURE_GSP: ampere,
        layout.FEATURE_FABRIC: hopper and node.fabric == "switch",
    }
    return sum(bit for bit, there in has.items() if there)


def describe_node(state: StateFile, node: NodeFile, *, clocks_unrestricted: bool) -> None:
    """Write everything that stays, and the settings of a driver that was just loaded."""
    record = state.record
    record["gpu_count"] = node.gpu_count
    record["driver_version"] = node.driver.version.encode()
    record["nvml_version"] = node.driver.nvml_version.encode()
    record["cuda_version"] = node.driver.cuda_version
    record["clocks_unrestricted"] = clocks_unrestricted
    for index in range(node.gpu_count):
        _describe_gpu(record["fixed"][index], node, index)
    reset_requests(state, node)


def reset_requests(state: StateFile, node: NodeFile) -> None:
    """Put the settings back to those of a driver that was just loaded; only the ECC mode survives.

    Source: docs.nvidia.com/deploy/driver-persistence, data persistence.
    """
    requests = state.record["request"]
    ecc_off = requests["ecc_off_pending"].copy()
    requests[:] = np.zeros_like(requests)
    requests["ecc_off"] = requests["ecc_off_pending"] = ecc_off
    requests["power_limit_mw"] = round(node.gpu.power_limit_w.default * 1000)
    requests["persistence"] = 1
    requests["app_sm_clock_mhz"] = node.gpu.clocks.default_mhz


def _describe_gpu(fixed: Any, node: NodeFile, index: int) -> None:
    gpu, clocks = node.gpu, node.gpu.clocks
    place = place_of(node, index)
    margins = gpu.tlimit_c
    board = BOARDS[gpu.architecture]
    values = {
        "uuid": node.gpu_uuid(index).encode(),
        "name": gpu.name.encode(),
        "serial": node.gpu_serial(index).encode(),
        "vbios": board.vbios.encode(),
        "board_part_number": board.part_number.encode(),
        "inforom_image": board.inforom_image.encode(),
        "pci_domain": place[0],
        "pci_bus": place[1],
        "pci_device": place[2],
        "pci_device_id": gpu.pci_device_id,
        "pci_subsystem_id": gpu.pci_subsystem_id,
        "minor_number": index,
        "brand": gpu.brand,
        "architecture": ARCHITECTURES[gpu.architecture],
        "cuda_major": gpu.compute_capability[0],
        "cuda_minor": gpu.compute_capability[1],
        "core_count": gpu.core_count,
        "memory_bus_bits": gpu.memory_bus_bits,
        "numa_node": node.slots[index].numa,
        "remapper_banks": board.remapper_banks,
        "nvlink_count": gpu.nvlink_count,
        "nvlink_version": VERSION_IDS[gpu.nvlink_version] if gpu.nvlink_count else 0,
        "nvlink_mib_s": round(gpu.nvlink_mib_s),
        "features": features_of(node),
        "memory_total_bytes": gpu.memory_total_bytes,
        "memory_reserved_bytes": gpu.memory_reserved_bytes,
        "bar1_total_bytes": gpu.bar1_total_bytes,
        "power_min_mw": round(gpu.power_limit_w.min * 1000),
        "power_max_mw": round(gpu.power_limit_w.max * 1000),
        "power_default_mw": round(gpu.power_limit_w.default * 1000),
        "shutdown_c": gpu.temperature_c.shutdown,
        "slowdown_c": gpu.temperature_c.slowdown,
        "memory_max_c": gpu.temperature_c.memory_max,
        "gpu_max_c": gpu.temperature_c.gpu_max,
        "tlimit_shutdown_c": margins.shutdown if margins else 0,
        "tlimit_slowdown_c": margins.slowdown if margins else 0,
        "tlimit_memory_max_c": margins.memory_max if margins else 0,
        "tlimit_gpu_max_c": margins.gpu_max if margins else 0,
        "pcie_generation_max": gpu.pcie_generation,
        "pcie_width_max": gpu.pcie_width,
        "default_sm_clock_mhz": clocks.default_mhz,
        "min_sm_clock_mhz": clocks.supported_mhz[0],
        "max_sm_clock_mhz": clocks.supported_mhz[-1],
        "mem_clock_mhz": clocks.memory_mhz,
        "max_video_clock_mhz": clocks.video_max_mhz,
        "clock_count": len(clocks.supported_mhz),
    }
    for name, value in values.items():
        fixed[name] = value
    describe_links(fixed["nvlink_ends"], node, index)
    fixed["clocks_mhz"][: len(clocks.supported_mhz)] = clocks.supported_mhz[::-1]
