"""How this node is power-cycled."""

import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field

from agent.collectors.bmc.settings import BmcKind, BmcSettings, Login, Transport
from agent.responding.reset import PowerCycleSettings, Reset
from config.section import Host, Section, UserPath, VariableName, at_least
from telemetry.durations import DurationS

_SYSTEM = re.compile(r"/redfish/v1/Systems/[^/\s]+")


def _system(path: str) -> str:
    if path and not _SYSTEM.fullmatch(path):
        raise ValueError("a path such as /redfish/v1/Systems/1")
    return path


class Undrained(StrEnum):
    """What holds where no scheduler is set up that could say that the node is drained."""

    REFUSE = "refuse"
    ALLOW = "allow"


class PowerCycleSection(Section):
    """The board's controller as a user who may reset the node; each time only once a person has approved it."""

    address: Host = Field(default="", description="Its name or address; empty for no power cycle at all.")
    port: int | None = Field(default=None, ge=1, le=65535, description="Its port; none takes 443.")
    user: str = Field(default="", description="A user that may reset the system (Redfish role Operator).")
    password_env: VariableName = Field(
        default="POWER_CYCLE_PASSWORD", min_length=1, description="Environment variable with the password."
    )
    password_file: UserPath | None = Field(
        default=None, description="File with the password, read instead of the variable."
    )
    transport: Transport = Field(
        default=Transport.TLS,
        description="How Redfish is spoken: `tls`, `tls_unchecked` (any certificate will do), `plain` (no TLS).",
    )
    ca_file: UserPath | None = Field(
        default=None, description="Certificates to check its own against; none takes those of the machine."
    )
    login: Login = Field(
        default=Login.SESSION, description="Whether it makes a session or gets user and password each time."
    )
    system: Annotated[str, AfterValidator(_system)] = Field(
        default="",
        description="Path of this node, such as /redfish/v1/Systems/1; empty where the controller has one system.",
    )
    reset: Reset = Field(
        default=Reset.POWER_CYCLE,
        description="What it is asked for; refused where the controller does not list it as allowed.",
    )
    back_within: Annotated[DurationS, at_least(1, "1s"), Field(le=3600)] = Field(
        default=300.0, description="How long to wait until the node is on again."
    )
    undrained: Undrained = Field(
        default=Undrained.REFUSE,
        description="Whether the node may be cycled where `actuators.drain` names no scheduler that could be asked.",
    )

    def bmc(self) -> BmcSettings:
        """Return how the controller is reached."""
        return BmcSettings(
            kind=BmcKind.REDFISH,
            address=self.address,
            port=self.port,
            user=self.user,
            password_variable=self.password_env,
            password_file=None if self.password_file is None else Path(self.password_file),
            transport=self.transport,
            ca_file=None if self.ca_file is None else Path(self.ca_file),
            login=self.login,
        )

    def settings(self, node: str) -> PowerCycleSettings:
        """Return what a power cycle needs."""
        return PowerCycleSettings(
            node=node,
            reset=self.reset,
            system=self.system,
            back_within_s=self.back_within,
            undrained=self.undrained is Undrained.ALLOW,
        )
