"""Kernel log of a served node: messages of kernel and driver about events, verbatim, in the form of ``/dev/kmsg``.

The driver's wording is that of NVIDIA/open-gpu-kernel-modules (kernel_rc.c, osinit.c, nvlink_linux.c); that of PCIe
errors drivers/pci/pcie/aer.c and err.c of Linux 5.15. Of a power brake, a thermal slowdown or a lost supply real
drivers report nothing. A record is ``priority,sequence,microseconds,flags;text`` (Documentation/ABI/testing/dev-kmsg);
the priority's low three bits are the level and the rest the facility, which is 0 for the kernel itself.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

from simulator.files.node import NodeFile
from simulator.plant.events import PlantEvent, PlantEventKind
from simulator.served.pci_tree import root_ports
from simulator.served.proc_tree import RANK_PID

ERROR, WARNING, NOTICE, INFO = 3, 4, 5, 6  # include/linux/kern_levels.h
XID_FELL_OFF, XID_NVLINK = 79, 74
_NVLINK_MAJOR = 237  # assumption: the first free character device from 254 down varies


@dataclass(frozen=True, slots=True)
class LogLine:
    """Line and its level."""

    text: str
    level: int = ERROR


class KernelMessages:
    """Writer of kernel lines for events; it remembers which GPUs the driver has already identified."""

    def __init__(self, node: NodeFile) -> None:
        self._node = node
        self._ports = root_ports(node)
        self._introduced: set[int] = set()

    def loaded(self) -> tuple[LogLine, ...]:
        """Return the lines that are logged when the driver is loaded."""
        self._introduced.clear()
        version = self._node.driver.version
        return (
            LogLine(f"nvidia-nvlink: Nvlink Core is being initialized, major device number {_NVLINK_MAJOR}", INFO),
            LogLine(f"NVRM: loading NVIDIA UNIX x86_64 Kernel Module  {version}", NOTICE),
            LogLine(f"nvidia-modeset: Loading NVIDIA Kernel Mode Setting Driver for UNIX platforms  {version}", INFO),
        )

    def lines(self, event: PlantEvent) -> tuple[LogLine, ...]:
        """Return the lines of an event, often none."""
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

    def _introduction(self, gpu: int) -> tuple[LogLine, ...]:
        """Return the line that identifies the GPU; the driver logs it once, before its first Xid."""
        if gpu in self._introduced:
            return ()
        self._introduced.add(gpu)
        return (
            LogLine(f"NVRM: GPU at PCI:{self._place(gpu)}: {self._node.gpu_uuid(gpu)}"),
            LogLine(f"NVRM: GPU Board Serial Number: {self._node.gpu_serial(gpu)}"),
        )

    def _xid(self, gpu: int, code: int) -> tuple[LogLine, ...]:
        place, address = self._place(gpu), self._node.slots[gpu].pci
        if code == XID_FELL_OFF:
            process = f"pid={RANK_PID + gpu}, name=python3"
            return (
                LogLine(f"NVRM: Xid (PCI:{place}): {code}, {process}, GPU has fallen off the bus."),
                LogLine(f"NVRM: GPU {address}: GPU has fallen off the bus."),
                LogLine(f"NVRM: GPU {address}: GPU serial number is {self._node.gpu_serial(gpu)}."),
            )
        if code == XID_NVLINK:
            link = gpu % max(1, self._node.gpu.nvlink_count)
            registers = "(0x0, 0x0, 0x10000, 0x0, 0x0, 0x0, 0x0)"
            text = f"pid='<unknown>', name=<unknown>, NVLink: fatal error detected on link {link}{registers}"
            return (LogLine(f"NVRM: Xid (PCI:{place}): {code}, {text}"),)
        return (LogLine(f"NVRM: Xid (PCI:{place}): {code}, pid={RANK_PID + gpu}, name=python3, Ch 00000008"),)

    def _corrected(self, gpu: int) -> tuple[LogLine, ...]:
        """Return the report of an error that the link corrected by itself: no acknowledgement, so it was sent again."""
        address = self._node.slots[gpu].pci
        return (
            *self._port(gpu, f"Corrected error received: {address}"),
            LogLine(
                f"nvidia {address}: PCIe Bus Error: severity=Corrected, type=Data Link Layer, (Transmitter ID)", WARNING
            ),
            LogLine(
                f"nvidia {address}:   device [{_device_id(self._node)}] error status/mask=00001000/0000a000", WARNING
            ),
            LogLine(f"nvidia {address}:    [12] {'Timeout':<22}", WARNING),
        )

    def _fatal(self, gpu: int) -> tuple[LogLine, ...]:
        """Return the report of a fatal error; the kernel does not read a device whose link it holds for dead."""
        address = self._node.slots[gpu].pci
        error = "PCIe Bus Error: severity=Uncorrected (Fatal), type=Inaccessible, (Unregistered Agent ID)"
        return (
            *self._port(gpu, f"Uncorrected (Fatal) error received: {address}"),
            LogLine(f"nvidia {address}: AER: {error}"),
            LogLine(f"nvidia {address}: AER: can't recover (no error_detected callback)", INFO),
            *self._port(gpu, "Root Port link has been reset (0)"),
            *self._port(gpu, "device recovery failed"),
        )

    def _place(self, gpu: int) -> str:
        return self._node.slots[gpu].pci.removesuffix(".0")

    def _port(self, gpu: int, text: str) -> tuple[LogLine, ...]:
        """Return the lines of the root port above a GPU, none where no port is seen."""
        port = self._ports[gpu]
        return () if port is None else (LogLine(f"pcieport {port}: AER: {text}", INFO),)


def _unloaded() -> tuple[LogLine, ...]:
    return (
        LogLine("nvidia-modeset: Unloading", INFO),
        LogLine(f"nvidia-nvlink: Unregistered Nvlink Core, major device number {_NVLINK_MAJOR}", INFO),
    )


def _device_id(node: NodeFile) -> str:
    part = node.gpu.pci_device_id
    return f"{part & 0xFFFF:04x}:{part >> 16:04x}"


class SimulatedKernelLog:
    """Appends records to a file, each with one write."""

    def __init__(self, path: Path) -> None:
        path.unlink(missing_ok=True)
        self._file = FileIO(path, "a")
        self._sequence = 0

    def write(self, lines: Iterable[LogLine], *, time_us: int) -> None:
        """Append lines of the kernel's own facility."""
        for line in lines:
            self._file.write(f"{line.level},{self._sequence},{time_us},-;{line.text}\n".encode())
            self._sequence += 1

    def close(self) -> None:
        """Close the file."""
        self._file.close()
