"""Which sources of samples are read, and where they are."""

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Self

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, model_validator

from agent.collectors.readings.listener import ListenerSettings
from config.bmc import Bmc
from config.meters import Pdu, Upsd
from config.section import Section, UserPath


class SourceUse(StrEnum):
    """Whether a source of samples is read."""

    AUTO = "auto"
    OFF = "off"


# A rate, or the word `auto`, which is None inside.
AutoHz = Annotated[
    float | None,
    BeforeValidator(lambda value: None if value == "auto" else value),
    PlainSerializer(lambda value: "auto" if value is None else value),
]


def _socket_path(path: Path) -> Path:
    if not path.is_absolute():
        raise ValueError("a whole path, from / on")
    if len(os.fsencode(ListenerSettings(path=path).stream_path)) > _SOCKET_PATH_BYTES:
        raise ValueError(f"a path of which the stream socket's, too, has at most {_SOCKET_PATH_BYTES} bytes")
    return path


# What the kernel takes: sun_path of unix(7), less the zero at its end.
_SOCKET_PATH_BYTES = 107


class Readings(Section):
    """What other programs send: readings of meters, the heartbeat of a job."""

    use: SourceUse = Field(default=SourceUse.AUTO, description="Whether readings of other programs are taken in.")
    socket: Annotated[UserPath, AfterValidator(_socket_path)] | None = Field(
        default=None,
        description=(
            "Datagram socket that programs send to; a stream socket lies beside it, `readings-stream.sock` beside "
            "`readings.sock`. Unset, both lie in the folder of the run, which only its user can enter."
        ),
    )
    group: str = Field(default="", description="Group whose members may send too; empty for this user alone.")
    tcp_port: int | None = Field(default=None, ge=1, le=65535, description="Port on 127.0.0.1; unset for none.")


class Sources(Section):
    """Which sources of samples are read, and where they are."""

    nvml: SourceUse = Field(default=SourceUse.AUTO, description="NVIDIA's driver library.")
    hwmon: SourceUse = Field(default=SourceUse.AUTO, description="Voltages and currents of the kernel's hwmon sensors.")
    hwmon_hz: AutoHz = Field(
        default=None,
        ge=1,
        le=1000,
        description=(
            "How often a voltage rail is looked at between two samples, so that each sample has the lowest voltage and "
            "the highest current since the one before; `auto` takes twice the rate at which the sensor updates."
        ),
    )
    pci: SourceUse = Field(default=SourceUse.AUTO, description="Presence and error counters of the GPUs' PCI devices.")
    host: SourceUse = Field(default=SourceUse.AUTO, description="CPU and memory of the host.")
    kernel_log: SourceUse = Field(default=SourceUse.AUTO, description="Driver lines of the kernel log.")
    uevents: SourceUse = Field(
        default=SourceUse.AUTO, description="The kernel's word on GPUs that come, go, get a driver or lose it."
    )
    tracepoints: SourceUse = Field(default=SourceUse.AUTO, description="Xids and SXids from kernel tracepoints.")
    fabric_manager: SourceUse = Field(default=SourceUse.AUTO, description="The log of NVIDIA's Fabric Manager.")
    sysfs: UserPath = Field(default=Path("/sys"), description="Where sysfs is mounted.")
    kmsg: UserPath = Field(default=Path("/dev/kmsg"), description="The kernel log device.")
    proc: UserPath = Field(default=Path("/proc"), description="Where proc is mounted.")
    tracefs: UserPath = Field(default=Path("/sys/kernel/tracing"), description="Where tracefs is mounted.")
    fabric_log: UserPath = Field(
        default=Path("/var/log/fabricmanager.log"), description="Where the Fabric Manager writes its log."
    )
    bmc: Bmc = Bmc()
    readings: Readings = Readings()
    pdus: tuple[Pdu, ...] = Field(
        default=(),
        description="PDUs read over SNMP, each with `name`, `host` and more; see docs/how-to/read-a-pdu-or-ups.md.",
    )
    upsd: tuple[Upsd, ...] = Field(
        default=(), description="Servers of NUT whose UPSs are read, each with `host` and `port`."
    )

    @model_validator(mode="after")
    def _every_meter_stands_there_once(self) -> Self:
        names = [pdu.name for pdu in self.pdus]
        for twice in sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"`pdus` with a `name` each of their own; {twice!r} stands there more than once")
        places = [(one.host, one.port) for one in self.upsd]
        for host, port in sorted({place for place in places if places.count(place) > 1}):
            raise ValueError(f"each of `upsd` once; {host}:{port} stands there more than once")
        return self
