"""What the kernel and the driver say of what happens, word for word.

The driver's wording is that of NVIDIA/open-gpu-kernel-modules (kernel_rc.c, osinit.c, nvlink_linux.c); that of PCIe
errors drivers/pci/pcie/aer.c and err.c. Of a power brake, a thermal slowdown or a lost supply real drivers say nothing.
"""

from dataclasses import dataclass

from simulator.files.node import NodeFile
from simulator.plant.events import PlantEvent, PlantEventKind
from simulator.publish import RANK_PID

ERROR, WARNING, NOTICE, INFO = 3, 4, 5, 6  # include/linux/kern_levels.h
XID_FELL_OFF, XID_NVLINK = 79, 74
_NVLINK_MAJOR = 237  # assumption: the first free character device from 254 down varies


@dataclass(frozen=True, slots=True)
class Line:
    """One line and its level."""

    text: str
    level: int = ERROR


class KernelVoice:
    """Turns events into lines; it remembers of which GPUs the driver has already said who they are."""

    def __init__(self, node: NodeFile) -> None:
        self._node = node
        self._introduced: set[int] = set()

    def loaded(self) -> tuple[Line, ...]:
        """Give what is said when the driver is loaded."""
        self._introduced.clear()
        version = self._node.driver.version
        return (
            Line(f"nvidia-nvlink: Nvlink Core is being initialized, major device number {_NVLINK_MAJOR}", INFO),
            Line(f"NVRM: loading NVIDIA UNIX x86_64 Kernel Module  {version}", NOTICE),
            Line(f"nvidia-modeset: Loading NVIDIA Kernel Mode Setting Driver for UNIX platforms  {version}", INFO),
        )

    def lines(self, event: PlantEvent) -> tuple[Line, ...]:
        """Give what is said of an event, often nothing."""
        kind = event.kind
        if kind in (PlantEventKind.DRIVER_LOADED, PlantEventKind.DRIVER_UNLOADED):
            return self.loaded() if kind is PlantEventKind.DRIVER_LOADED else _unloaded()
        if event.gpu is None:
            return ()
        if kind is PlantEventKind.XID and event.code is not None:
            return (*self._introduction(event.gpu), *self._xid(event.gpu, event.code))
        if kind is PlantEventKind.AER_CORRECTABLE:
            return self._corrected(event.gpu)
        return self._fatal(event.gpu) if kind is PlantEventKind.AER_FATAL else ()

    def _introduction(self, gpu: int) -> tuple[Line, ...]:
        """Give who the GPU is; the driver says so once, before its first Xid."""
        if gpu in self._introduced:
            return ()
        self._introduced.add(gpu)
        return (
            Line(f"NVRM: GPU at PCI:{self._place(gpu)}: {self._node.gpu_uuid(gpu)}"),
            Line(f"NVRM: GPU Board Serial Number: {self._node.gpu_serial(gpu)}"),
        )

    def _xid(self, gpu: int, code: int) -> tuple[Line, ...]:
        place, address = self._place(gpu), self._node.slots[gpu].pci
        if code == XID_FELL_OFF:
            process = f"pid={RANK_PID + gpu}, name=python3"
            return (
                Line(f"NVRM: Xid (PCI:{place}): {code}, {process}, GPU has fallen off the bus."),
                Line(f"NVRM: GPU {address}: GPU has fallen off the bus."),
                Line(f"NVRM: GPU {address}: GPU serial number is {self._node.gpu_serial(gpu)}."),
            )
        if code == XID_NVLINK:
            link = gpu % max(1, self._node.gpu.nvlink_count)
            registers = "(0x0, 0x0, 0x10000, 0x0, 0x0, 0x0, 0x0)"
            text = f"pid='<unknown>', name=<unknown>, NVLink: fatal error detected on link {link}{registers}"
            return (Line(f"NVRM: Xid (PCI:{place}): {code}, {text}"),)
        return (Line(f"NVRM: Xid (PCI:{place}): {code}, pid={RANK_PID + gpu}, name=python3, Ch 00000008"),)

    def _corrected(self, gpu: int) -> tuple[Line, ...]:
        address = self._node.slots[gpu].pci
        return (
            Line(f"pcieport {self._port(gpu)}: AER: Corrected error received: {address}", INFO),
            Line(
                f"nvidia {address}: PCIe Bus Error: severity=Corrected, type=Data Link Layer, (Transmitter ID)", WARNING
            ),
            Line(f"nvidia {address}:   device [{_device_id(self._node)}] error status/mask=00001000/0000a000", WARNING),
            Line(f"nvidia {address}:    [12] Timeout               ", WARNING),
        )

    def _fatal(self, gpu: int) -> tuple[Line, ...]:
        address, port = self._node.slots[gpu].pci, self._port(gpu)
        error = "PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer, (Requester ID)"
        return (
            Line(f"pcieport {port}: AER: Uncorrected (Fatal) error received: {address}", INFO),
            Line(f"nvidia {address}: {error}"),
            Line(f"nvidia {address}:   device [{_device_id(self._node)}] error status/mask=00004020/00000000"),
            Line(f"nvidia {address}:    [ 5] SDES                  "),
            Line(f"nvidia {address}:    [14] CmpltTO                (First)"),
            Line(f"nvidia {address}: AER: can't recover (no error_detected callback)", INFO),
            Line(f"pcieport {port}: AER: device recovery failed", INFO),
        )

    def _place(self, gpu: int) -> str:
        return self._node.slots[gpu].pci.removesuffix(".0")

    def _port(self, gpu: int) -> str:
        return port_of(self._node.slots[gpu].pci)


def port_of(address: str) -> str:
    """Give the root port above a GPU; assumption: the bus before its own."""
    domain, bus, _ = address.split(":")
    return f"{domain}:{max(0, int(bus, 16) - 1):02x}:00.0"


def _unloaded() -> tuple[Line, ...]:
    return (
        Line("nvidia-modeset: Unloading", INFO),
        Line(f"nvidia-nvlink: Unregistered Nvlink Core, major device number {_NVLINK_MAJOR}", INFO),
    )


def _device_id(node: NodeFile) -> str:
    part = node.gpu.pci_device_id
    return f"{part & 0xFFFF:04x}:{part >> 16:04x}"
