"""Which sources of samples are read, and where they are."""

from enum import StrEnum
from pathlib import Path

from pydantic import Field

from railwatch.config.section import Section, UserPath


class SourceUse(StrEnum):
    """Whether a source of samples is read."""

    AUTO = "auto"
    OFF = "off"


class Sources(Section):
    """Which sources of samples are read, and where they are."""

    nvml: SourceUse = Field(default=SourceUse.AUTO, description="NVIDIA's driver library.")
    hwmon: SourceUse = Field(default=SourceUse.AUTO, description="Voltages and currents of the kernel's hwmon sensors.")
    pci: SourceUse = Field(default=SourceUse.AUTO, description="Presence and error counters of the GPUs' PCI devices.")
    host: SourceUse = Field(default=SourceUse.AUTO, description="CPU and memory of the host.")
    kernel_log: SourceUse = Field(default=SourceUse.AUTO, description="Driver lines of the kernel log.")
    sysfs: UserPath = Field(default=Path("/sys"), description="Where sysfs is mounted.")
    kmsg: UserPath = Field(default=Path("/dev/kmsg"), description="The kernel log device.")
