"""How the board's controller is reached."""

from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, model_validator

from agent.collectors.bmc.settings import BmcKind, BmcSettings, Login, Transport
from config.section import Host, Section, UserPath, VariableName, at_least
from telemetry.durations import DurationS


class Bmc(Section):
    """The board's management controller. Its password is not written here: `password_env` or `password_file` has it."""

    kind: BmcKind = Field(
        default=BmcKind.AUTO,
        description="The way to it: `inband` the kernel's IPMI device, `ipmi` IPMI over LAN, `redfish`; `auto` takes "
        "the kernel's device where there is one.",
    )
    address: Host = Field(default="", description="Its name or address (ipmi, redfish).")
    port: int | None = Field(
        default=None, ge=1, le=65535, description="Its port; none takes 623 (ipmi), 443 (redfish)."
    )
    user: str = Field(default="", description="A user that may read; more rights are not needed.")
    password_env: VariableName = Field(
        default="IPMI_PASSWORD", min_length=1, description="Environment variable with the password."
    )
    password_file: UserPath | None = Field(
        default=None, description="File with the password, read instead of the variable."
    )
    interval: Annotated[DurationS, at_least(1, "1s")] = Field(
        default=10.0,
        description="Time between two rounds over all sensors; below 10s it is looked at with the slow group, at or "
        "above it with the rare one.",
    )
    cipher_suite: int | None = Field(
        default=None, ge=0, le=255, description="Cipher suite of IPMI over LAN; none leaves it to ipmitool."
    )
    transport: Transport = Field(
        default=Transport.TLS,
        description="How Redfish is spoken: `tls`, `tls_unchecked` (any certificate will do), `plain` (no TLS).",
    )
    ca_file: UserPath | None = Field(
        default=None, description="Certificates to check its own against (redfish); none takes those of the machine."
    )
    login: Login = Field(
        default=Login.SESSION, description="Whether Redfish makes a session or gets user and password each time."
    )

    @model_validator(mode="after")
    def _over_the_net_there_is_an_address(self) -> Self:
        if self.kind in (BmcKind.IPMI, BmcKind.REDFISH) and not self.address:
            raise ValueError(f"`address`, since kind is {self.kind.value}")
        return self

    def settings(self) -> BmcSettings:
        """Return what the collectors need."""
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
