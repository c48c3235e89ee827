"""How the board's controller is reached."""

import os
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from telemetry.errors import NotPermittedError

# UDP port of IPMI, TCP port of Redfish: IPMI 2.0 section 13.1.1 (ASF-RMCP), DMTF DSP0266 (HTTPS).
IPMI_PORT, REDFISH_PORT = 623, 443
# heuristic: the pace of the rare sources is 10 s where it was not changed; who wants it faster gets ticks of a second.
RARE_FROM_S = 10.0
# heuristic: what a round over all sensors may take; the sampler takes a rare source for hung after 30 s, a slow one
# after 5. What is left over comes first in the next round.
_RARE_ROUND_S, _SLOW_ROUND_S = 15.0, 3.0


class BmcKind(StrEnum):
    """The way to the controller; auto takes the kernel's IPMI device where there is one."""

    AUTO = "auto"
    OFF = "off"
    INBAND = "inband"
    IPMI = "ipmi"
    REDFISH = "redfish"


class Login(StrEnum):
    """How a Redfish client shows who it is."""

    SESSION = "session"
    BASIC = "basic"


class Transport(StrEnum):
    """How Redfish is spoken: over TLS with the certificate checked, over TLS unchecked, or in the clear."""

    TLS = "tls"
    TLS_UNCHECKED = "tls_unchecked"
    PLAIN = "plain"


@dataclass(frozen=True, slots=True, kw_only=True)
class BmcSettings:
    """Where the controller is and how to log in.

    The password itself is never part of the settings: `password_file` or the environment variable
    `password_variable` holds it, so that no dump of a configuration can show it.

    Parameters
    ----------
    port
        None takes the protocol's own.
    cipher_suite
        Of IPMI over LAN; None leaves it to ipmitool.
    ca_file
        Certificates that the controller's one is checked against; None takes the machine's.
    """

    kind: BmcKind = BmcKind.AUTO
    address: str = ""
    port: int | None = None
    user: str = ""
    password_variable: str = "IPMI_PASSWORD"  # noqa: S105 -- a name, the one that ipmitool reads too
    password_file: Path | None = None
    interval_s: float = RARE_FROM_S
    cipher_suite: int | None = None
    transport: Transport = Transport.TLS
    ca_file: Path | None = None
    login: Login = Login.SESSION

    @property
    def round_s(self) -> float:
        """How long one round over all sensors may take."""
        return _RARE_ROUND_S if self.interval_s >= RARE_FROM_S else _SLOW_ROUND_S

    def password(self) -> str:
        """Read the password; empty where there is none.

        Raises
        ------
        NotPermittedError
            The file cannot be read.
        """
        if self.password_file is None:
            return os.environ.get(self.password_variable, "")
        try:
            return self.password_file.read_text(encoding="utf-8").strip("\n")
        except (OSError, UnicodeDecodeError) as err:
            raise NotPermittedError(f"the controller's password cannot be read from {self.password_file}") from err
