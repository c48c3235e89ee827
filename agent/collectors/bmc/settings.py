"""Settings of the board controller: protocol, address and login."""

import os
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from telemetry.errors import NotPermittedError

# UDP port of IPMI, TCP port of Redfish: IPMI 2.0 section 13.1.1 (ASF-RMCP), DMTF DSP0266 (HTTPS).
IPMI_PORT, REDFISH_PORT = 623, 443
# heuristic: the default period of rare sources; with a shorter interval the controller ticks once a second.
RARE_FROM_S = 10.0
# heuristic: time limit for a round over all sensors; for the sampler a rare source hangs after 30 s, a slow one after
# 5 s. The next round begins with the sensors left over.
_RARE_ROUND_S, _SLOW_ROUND_S = 15.0, 3.0


class BmcKind(StrEnum):
    """Protocol of the controller; auto uses the kernel's IPMI device where there is one."""

    AUTO = "auto"
    OFF = "off"
    INBAND = "inband"
    IPMI = "ipmi"
    REDFISH = "redfish"


class Login(StrEnum):
    """Authentication of a Redfish client."""

    SESSION = "session"
    BASIC = "basic"


class Transport(StrEnum):
    """Transport of Redfish: TLS with the certificate verified, TLS unverified, or plain HTTP."""

    TLS = "tls"
    TLS_UNCHECKED = "tls_unchecked"
    PLAIN = "plain"


@dataclass(frozen=True, slots=True, kw_only=True)
class BmcSettings:
    """Address of the controller and its login.

    The password is never part of the settings: `password_file` or the environment variable `password_variable` holds
    it, so that no dump of a configuration can show it.

    Parameters
    ----------
    port
        None for the protocol's default.
    cipher_suite
        Cipher suite of IPMI over LAN; None for ipmitool's default.
    ca_file
        Certificates to verify the controller's against; None for the machine's.
    """

    kind: BmcKind = BmcKind.AUTO
    address: str = ""
    port: int | None = None
    user: str = ""
    password_variable: str = "IPMI_PASSWORD"  # noqa: S105 -- a name, which ipmitool reads too
    password_file: Path | None = None
    interval_s: float = RARE_FROM_S
    cipher_suite: int | None = None
    transport: Transport = Transport.TLS
    ca_file: Path | None = None
    login: Login = Login.SESSION

    @property
    def round_s(self) -> float:
        """Time limit for one round over all sensors."""
        return _RARE_ROUND_S if self.interval_s >= RARE_FROM_S else _SLOW_ROUND_S

    def password(self) -> str:
        """Read the password; empty where none is set.

        NotPermittedError where the file cannot be read.
        """
        if self.password_file is None:
            return os.environ.get(self.password_variable, "")
        try:
            return self.password_file.read_text(encoding="utf-8").strip("\n")
        except (OSError, UnicodeDecodeError) as err:
            raise NotPermittedError(f"cannot read the controller's password from {self.password_file}") from err
