"""What a GPU is and what its driver reports, in our words: the agent's ports and the simulator both speak of it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuIdentity:
    """What a GPU is; it does not change while the GPU stays in its slot.

    `pci` is written ``0000:3b:00.0`` in lower case; `driver_version` as the driver gives it, ``580.95.05``.
    """

    uuid: str
    index: int
    name: str
    pci: str
    serial: str | None
    driver_version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverEvent:
    """An Xid that the driver reported; `uuid` is None where it could not say for which GPU."""

    uuid: str | None
    code: int
