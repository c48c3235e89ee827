"""Connection to the board management controller."""

from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, model_validator

from agent.collectors.bmc.settings import BmcKind, BmcSettings, Login, Transport
from config.section import Host, Section, UserPath, VariableName, at_least
from telemetry.documents import missing_key
from telemetry.durations import DurationS


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
            password_file=None if self.password_file is None else Path(self.password_file),
            interval_s=self.interval,
            cipher_suite=self.cipher_suite,
            transport=self.transport,
            ca_file=None if self.ca_file is None else Path(self.ca_file),
            login=self.login,
        )
