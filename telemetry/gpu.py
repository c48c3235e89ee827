"""GPU and Xid as the ports of the agent and the simulator share them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuIdentity:
    """Identity of a GPU; constant while the GPU stays in its slot.

    `pci` is written ``0000:3b:00.0`` in lower case; `driver_version` is that of the driver, ``580.95.05``.
    """

    uuid: str
    index: int
    name: str
    pci: str
    serial: str | None
    driver_version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverEvent:
    """Xid that the driver reported; `uuid` is None where the driver names no GPU."""

    uuid: str | None
    code: int
