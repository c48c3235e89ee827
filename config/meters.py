"""Meters outside the node: PDUs over SNMP, UPSs over NUT."""

from collections.abc import Mapping
from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from agent.collectors.meters.pdu_channel import parse_oid
from agent.collectors.meters.pdu_mibs import PDU_SIGNALS
from agent.collectors.meters.settings import (
    Authentication,
    OidReading,
    PduSettings,
    Privacy,
    SnmpVersion,
    UpsdSettings,
)
from config.section import Host, Section, VariableName, at_least
from telemetry.documents import missing_key
from telemetry.durations import DurationS
from telemetry.errors import ConfigError, Problem


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
        problem = Problem(
            where=variable, line=None, key=f"sources.pdus ({pdu})", found="not set", expected="the secret of this PDU"
        )
        raise ConfigError([problem]) from None
