"""Sources of samples: which are read, and their paths."""

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Self

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, model_validator

from agent.collectors.readings.listener import ListenerSettings
from config.bmc import Bmc
from config.meters import Pdu, Upsd
from config.section import Section, UserPath
from telemetry.documents import KeyProblemError


class SourceUse(StrEnum):
    """Use of a source: `auto` if it is there, or `off`."""

    AUTO = "auto"
    OFF = "off"


# A rate, or `auto`, which is None inside.
AutoHz = Annotated[
    float | None,
    BeforeValidator(lambda value: None if value == "auto" else value),
    PlainSerializer(lambda value: "auto" if value is None else value),
]


def _socket_path(path: Path) -> Path:
    if not path.is_absolute():
        raise ValueError("an absolute path, from /")
    if len(os.fsencode(ListenerSettings(path=path).stream_path)) > _SOCKET_PATH_BYTES:
        raise ValueError(f"a shorter path: that of the stream socket may have {_SOCKET_PATH_BYTES} bytes")
    return path


# What the kernel takes: sun_path of unix(7), less the zero at its end.
_SOCKET_PATH_BYTES = 107


class Readings(Section):
    """Readings that other programs send: meters, heartbeats of jobs."""

    use: SourceUse = Field(
        default=SourceUse.AUTO, description="`auto`: accept readings of other programs; `off`: do not."
    )
    socket: Annotated[UserPath, AfterValidator(_socket_path)] | None = Field(
        default=None,
        description=(
            "Datagram socket for readings; the stream socket is in the same folder, `readings-stream.sock` for "
            "`readings.sock`. Unset: both are in the folder of the run, which only its user can enter."
        ),
    )
    group: str = Field(default="", description="Group whose members may send as well; empty: this user alone.")
    tcp_port: int | None = Field(default=None, ge=1, le=65535, description="Port on 127.0.0.1; unset: none.")


class Sources(Section):
    """Sources of samples: which are read, and their paths."""

    nvml: SourceUse = Field(default=SourceUse.AUTO, description="NVIDIA driver library (NVML).")
    hwmon: SourceUse = Field(default=SourceUse.AUTO, description="Voltages and currents of hwmon sensors.")
    hwmon_hz: AutoHz = Field(
        default=None,
        ge=1,
        le=1000,
        description=(
            "Reads per second of a voltage rail between two samples, so that each sample has the lowest voltage and "
            "the highest current since the one before; `auto`: twice the update rate of the sensor."
        ),
    )
    pci: SourceUse = Field(default=SourceUse.AUTO, description="Presence and error counters of the GPUs' PCI devices.")
    host: SourceUse = Field(default=SourceUse.AUTO, description="CPU and memory of the host.")
    kernel_log: SourceUse = Field(default=SourceUse.AUTO, description="Driver lines of the kernel log.")
    uevents: SourceUse = Field(
        default=SourceUse.AUTO,
        description="Kernel events: a GPU is added or removed, or its driver is bound or unbound.",
    )
    tracepoints: SourceUse = Field(default=SourceUse.AUTO, description="Xids and SXids from kernel tracepoints.")
    fabric_manager: SourceUse = Field(default=SourceUse.AUTO, description="Log of NVIDIA's Fabric Manager.")
    sysfs: UserPath = Field(default=Path("/sys"), description="Mount point of sysfs.")
    kmsg: UserPath = Field(default=Path("/dev/kmsg"), description="Kernel log device.")
    proc: UserPath = Field(default=Path("/proc"), description="Mount point of proc.")
    tracefs: UserPath = Field(default=Path("/sys/kernel/tracing"), description="Mount point of tracefs.")
    fabric_log: UserPath = Field(
        default=Path("/var/log/fabricmanager.log"), description="Log file of the Fabric Manager."
    )
    bmc: Bmc = Bmc()
    readings: Readings = Readings()
    pdus: tuple[Pdu, ...] = Field(
        default=(),
        description="PDUs read over SNMP, each with `name`, `host` and more: docs/how-to/read-a-pdu-or-ups.md.",
    )
    upsd: tuple[Upsd, ...] = Field(
        default=(), description="NUT servers whose UPSs are read, each with `host` and `port`."
    )

    @model_validator(mode="after")
    def _meters_are_distinct(self) -> Self:
        names = [pdu.name for pdu in self.pdus]
        for twice in sorted({name for name in names if names.count(name) > 1}):
            raise KeyProblemError("pdus", f"duplicate name {twice!r}", "a name of its own for each PDU")
        places = [(one.host, one.port) for one in self.upsd]
        for host, port in sorted({place for place in places if places.count(place) > 1}):
            raise KeyProblemError("upsd", f"duplicate server {host}:{port}", "each server once")
        return self
