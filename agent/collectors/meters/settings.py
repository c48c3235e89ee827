"""Settings of PDUs and UPSs: addresses and credentials."""

from dataclasses import dataclass, field
from enum import StrEnum

# Name of the collector of PDUs.
PDU = "pdu"


class SnmpVersion(StrEnum):
    """SNMP version of a PDU: 2c has a community string, 3 has users."""

    V2C = "2c"
    V3 = "3"


class Authentication(StrEnum):
    """Authentication protocol of SNMPv3 (RFC 3414, RFC 7860)."""

    NONE = "none"
    MD5 = "md5"
    SHA1 = "sha1"
    SHA256 = "sha256"
    SHA512 = "sha512"


class Privacy(StrEnum):
    """Privacy protocol of SNMPv3 (RFC 3414, RFC 3826; AES-256 as Cisco and most PDUs implement it)."""

    NONE = "none"
    DES = "des"
    AES128 = "aes128"
    AES256 = "aes256"


@dataclass(frozen=True, slots=True, kw_only=True)
class OidReading:
    """A value of a PDU, named by its object identifier.

    Parameters
    ----------
    part
        Name of the part that has the value, as in ``inlet`` or ``outlet-7``.
    signal
        A PDU signal of the catalogue.
    oid
        The instance, index included, such as ``1.3.6.1.4.1.318.1.1.26.6.3.1.6.1``.
    factor
        Multiplied with the value it is the signal in its unit.
    """

    part: str
    signal: str
    oid: str
    factor: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PduSettings:
    """Settings of a PDU. Its text form shows no secrets. With `oids` given, the PDU is not surveyed."""

    name: str
    host: str
    port: int = 161
    version: SnmpVersion = SnmpVersion.V2C
    community: str = field(default="public", repr=False)
    user: str = ""
    authentication: Authentication = Authentication.NONE
    authentication_password: str = field(default="", repr=False)
    privacy: Privacy = Privacy.NONE
    privacy_password: str = field(default="", repr=False)
    timeout_s: float = 1.0
    oids: tuple[OidReading, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class UpsdSettings:
    """Settings of an upsd server, with all its UPSs."""

    host: str = "127.0.0.1"
    port: int = 3493
    timeout_s: float = 2.0
