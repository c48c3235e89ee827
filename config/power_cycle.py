"""Power cycle of this node through Redfish."""

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
    """Rule for a node without a scheduler that could confirm that it is drained."""

    REFUSE = "refuse"
    ALLOW = "allow"


class PowerCycleSection(Section):
    """Board controller with a user who may reset the node; every power cycle needs the approval of a person."""

    address: Host = Field(default="", description="Host name or address; empty: no power cycle.")
    port: int | None = Field(default=None, ge=1, le=65535, description="Port; default 443.")
    user: str = Field(default="", description="User with the right to reset the system (Redfish role Operator).")
    password_env: VariableName = Field(
        default="POWER_CYCLE_PASSWORD", min_length=1, description="Environment variable with the password."
    )
    password_file: UserPath | None = Field(
        default=None, description="File with the password; read instead of the variable."
    )
    transport: Transport = Field(
        default=Transport.TLS,
        description="Transport of Redfish: `tls`, `tls_unchecked` (accepts any certificate), `plain` (no TLS).",
    )
    ca_file: UserPath | None = Field(
        default=None, description="Certificates to verify the server with; unset: those of the system."
    )
    login: Login = Field(
        default=Login.SESSION, description="Authentication: a session, or user and password with each request."
    )
    system: Annotated[str, AfterValidator(_system)] = Field(
        default="",
        description="Path of this node, such as /redfish/v1/Systems/1; may be empty if the controller has one system.",
    )
    reset: Reset = Field(
        default=Reset.POWER_CYCLE,
        description="Type of reset; refused unless the controller lists it as allowed.",
    )
    back_within: Annotated[DurationS, at_least(1, "1s"), Field(le=3600)] = Field(
        default=300.0, description="Time limit until the node is on again."
    )
    undrained: Undrained = Field(
        default=Undrained.REFUSE,
        description="Whether the node may be power-cycled if `actuators.drain` names no scheduler.",
    )

    def bmc(self) -> BmcSettings:
        """Return the connection to the controller."""
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
        """Return the settings of a power cycle."""
        return PowerCycleSettings(
            node=node,
            reset=self.reset,
            system=self.system,
            back_within_s=self.back_within,
            undrained=self.undrained is Undrained.ALLOW,
        )
