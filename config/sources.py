"""Sources of samples: which are read, and their paths."""

import os
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Self

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, model_validator

from agent.collectors.bmc.settings import BmcKind, BmcSettings, Login, Transport
from agent.collectors.meters.pdu_mibs import PDU_SIGNALS, parse_oid
from agent.collectors.meters.settings import (
    Authentication,
    OidReading,
    PduSettings,
    Privacy,
    SnmpVersion,
    UpsdSettings,
)
from agent.collectors.readings.listener import ListenerSettings
from config.section import Host, Section, UserPath, VariableName, at_least
from telemetry.durations import DurationS
from telemetry.errors import ConfigError
from telemetry.key_problems import KeyProblemError, missing_key

# A rate, or `auto`, which is None inside.
AutoHz = Annotated[
    float | None,
    BeforeValidator(lambda value: None if value == "auto" else value),
    PlainSerializer(lambda value: "auto" if value is None else value),
]
# What the kernel takes: sun_path of unix(7), less the zero at its end.
_SOCKET_PATH_BYTES = 107


class Bmc(Section):
    """Board management controller (BMC); its password is in the variable `password_env` or in `password_file`."""

    kind: BmcKind = Field(
        default=BmcKind.AUTO,
        description="`inband`: the kernel's IPMI device; `ipmi`: IPMI over LAN; `redfish`; `auto`: the kernel's device "
        "if there is one.",
    )
    address: Host = Field(default="", description="Host name or address (ipmi, redfish).")
    port: int | None = Field(default=None, ge=1, le=65535, description="Port; default 623 (ipmi), 443 (redfish).")
    user: str = Field(default="", description="User with the right to read.")
    password_env: VariableName = Field(
        default="IPMI_PASSWORD", min_length=1, description="Environment variable with the password."
    )
    password_file: UserPath | None = Field(
        default=None, description="File with the password; read instead of the variable."
    )
    interval: Annotated[DurationS, at_least(1, "1s")] = Field(
        default=10.0,
        description="Interval of one read of all sensors; below 10s they are in the slow group, from 10s in the rare "
        "one.",
    )
    cipher_suite: int | None = Field(
        default=None, ge=0, le=255, description="Cipher suite of IPMI over LAN; unset: the default of ipmitool."
    )
    transport: Transport = Field(
        default=Transport.TLS,
        description="Transport of Redfish: `tls`, `tls_unchecked` (accepts any certificate), `plain` (no TLS).",
    )
    ca_file: UserPath | None = Field(
        default=None, description="Certificates to verify the server with (redfish); unset: those of the system."
    )
    login: Login = Field(
        default=Login.SESSION,
        description="Authentication of Redfish: a session, or user and password with each request.",
    )

    @model_validator(mode="after")
    def _over_the_net_there_is_an_address(self) -> Self:
        if self.kind in (BmcKind.IPMI, BmcKind.REDFISH) and not self.address:
            raise missing_key("address", f"a host name or an address: required when kind is {self.kind.value}")
        return self

    def settings(self) -> BmcSettings:
        """Return the settings of the collectors."""
        return BmcSettings(
            kind=self.kind,
            address=self.address,
            port=self.port,
            user=self.user,
            password_variable=self.password_env,
            password_file=self.password_file,
            interval_s=self.interval,
            cipher_suite=self.cipher_suite,
            transport=self.transport,
            ca_file=self.ca_file,
            login=self.login,
        )


def _oid(text: str) -> str:
    try:
        parse_oid(text)
    except ValueError as err:
        raise ValueError("an object identifier such as 1.3.6.1.4.1.318.1.1.26.6.3.1.6.1") from err
    return text


def _pdu_signal(name: str) -> str:
    if name not in PDU_SIGNALS:
        raise ValueError(f"one of {', '.join(PDU_SIGNALS)}")
    return name


class PduOid(Section):
    """Value of a PDU that none of the known tables has."""

    part: str = Field(min_length=1, description="Name of the measured part, such as inlet or outlet-7.")
    signal: Annotated[str, AfterValidator(_pdu_signal)] = Field(description="Signal.")
    oid: Annotated[str, AfterValidator(_oid)] = Field(description="Object identifier, index included.")
    factor: float = Field(default=1.0, description="Factor from the value to the signal in its unit.")


class Pdu(Section):
    """Power distribution unit; keys that end in `_env` name an environment variable with a secret."""

    name: str = Field(min_length=1, pattern=r"^[\w.-]+$", description="Name in every record.")
    host: Host = Field(min_length=1, description="Host name or address.")
    port: int = Field(default=161, ge=1, le=65535, description="SNMP port.")
    version: SnmpVersion = Field(default=SnmpVersion.V2C, description="Version of SNMP.")
    community_env: VariableName = Field(
        default="", description="Environment variable with the community (2c); empty: `public`."
    )
    user: str = Field(default="", description="User (3).")
    authentication: Authentication = Field(default=Authentication.NONE, description="Authentication protocol (3).")
    authentication_env: VariableName = Field(
        default="", description="Environment variable with the authentication password (3)."
    )
    privacy: Privacy = Field(default=Privacy.NONE, description="Privacy protocol (3).")
    privacy_env: VariableName = Field(default="", description="Environment variable with the privacy password (3).")
    timeout: Annotated[DurationS, at_least(0.1, "100ms")] = Field(
        default=1.0, description="Time limit of one reply; two attempts."
    )
    oids: tuple[PduOid, ...] = Field(default=(), description="Values to read instead of the known tables.")

    @model_validator(mode="after")
    def _version_3_has_a_user(self) -> Self:
        if self.version is SnmpVersion.V3 and not self.user:
            raise missing_key("user", "a user: required when version is 3")
        for how, variable in (("authentication", self.authentication_env), ("privacy", self.privacy_env)):
            if getattr(self, how) != "none" and not variable:
                text = f"the name of an environment variable: required when {how} is {getattr(self, how).value}"
                raise missing_key(f"{how}_env", text)
        return self

    def settings(self, environ: Mapping[str, str]) -> PduSettings:
        """Return the settings of the collector; ConfigError if a variable with a secret is not set."""
        return PduSettings(
            name=self.name,
            host=self.host,
            port=self.port,
            version=self.version,
            community=_secret(self.name, self.community_env, environ) or "public",
            user=self.user,
            authentication=self.authentication,
            authentication_password=_secret(self.name, self.authentication_env, environ),
            privacy=self.privacy,
            privacy_password=_secret(self.name, self.privacy_env, environ),
            timeout_s=self.timeout,
            oids=tuple(
                OidReading(part=item.part, signal=item.signal, oid=item.oid, factor=item.factor) for item in self.oids
            ),
        )


class Upsd(Section):
    """Server of NUT, with all its UPSs."""

    host: Host = Field(default="127.0.0.1", min_length=1, description="Host name or address.")
    port: int = Field(default=3493, ge=1, le=65535, description="Port.")
    timeout: Annotated[DurationS, at_least(0.1, "100ms")] = Field(default=2.0, description="Time limit of one reply.")

    def settings(self) -> UpsdSettings:
        """Return the settings of the collector."""
        return UpsdSettings(host=self.host, port=self.port, timeout_s=self.timeout)


def _secret(pdu: str, variable: str, environ: Mapping[str, str]) -> str:
    if not variable:
        return ""
    try:
        return environ[variable]
    except KeyError:
        raise ConfigError.at(variable, "not set", "the secret of this PDU", key=f"sources.pdus ({pdu})") from None


class SourceUse(StrEnum):
    """Use of a source: `auto` if it is there, or `off`."""

    AUTO = "auto"
    OFF = "off"


def _socket_path(path: Path) -> Path:
    if not path.is_absolute():
        raise ValueError("an absolute path, from /")
    if len(os.fsencode(ListenerSettings(path=path).stream_path)) > _SOCKET_PATH_BYTES:
        raise ValueError(f"a shorter path: that of the stream socket may have {_SOCKET_PATH_BYTES} bytes")
    return path


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
    wireview_gpu: str = Field(
        default="",
        description="GPU whose 12V-2x6 cable a WireView measures: index, UUID or PCI address; empty: the only one.",
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
