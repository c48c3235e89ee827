"""A kernel log in the form of ``/dev/kmsg``: ``priority,sequence,microseconds,flags;text``.

Documentation/ABI/testing/dev-kmsg. The priority's low three bits are the level and the rest the facility, which is 0
for what the kernel itself says. The driver's wording is that of NVIDIA/open-gpu-kernel-modules (kernel_rc.c, osinit.c).
"""

from io import FileIO
from pathlib import Path

from simulator.files.node import NodeFile

_ERROR, _NOTICE = 3, 5


class KernelLog:
    """Appends records to a file, each with one write."""

    def __init__(self, path: Path) -> None:
        path.unlink(missing_ok=True)
        self._file = FileIO(path, "a")
        self._sequence = 0

    def write(self, text: str, *, time_us: int, level: int = _ERROR) -> None:
        """Append one line of the kernel's own facility."""
        self._file.write(f"{level},{self._sequence},{time_us},-;{text}\n".encode())
        self._sequence += 1

    def loaded(self, node: NodeFile, *, time_us: int) -> None:
        """Say that the driver was loaded."""
        text = f"NVRM: loading NVIDIA UNIX x86_64 Kernel Module  {node.driver.version}"
        self.write(text, time_us=time_us, level=_NOTICE)

    def fell_off_the_bus(self, node: NodeFile, gpu: int, code: int, *, time_us: int) -> None:
        """Say of a GPU what the driver says when it no longer answers."""
        address = node.slots[gpu].pci
        place = address.removesuffix(".0")
        for text in (
            f"NVRM: GPU at PCI:{place}: {node.gpu_uuid(gpu)}",
            f"NVRM: GPU Board Serial Number: {node.gpu_serial(gpu)}",
            f"NVRM: Xid (PCI:{place}): {code}, pid={4000 + gpu}, name=python3, GPU has fallen off the bus.",
            f"NVRM: GPU {address}: GPU has fallen off the bus.",
            f"NVRM: GPU {address}: GPU serial number is {node.gpu_serial(gpu)}.",
        ):
            self.write(text, time_us=time_us)

    def close(self) -> None:
        """Let the file go."""
        self._file.close()
