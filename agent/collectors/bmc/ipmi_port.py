"""Port to a controller over IPMI: requests and responses."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

# Completion codes, IPMI 2.0 table 5-2.
OK, INVALID_COMMAND, RESERVATION_LOST, CANNOT_RETURN, NOT_PRESENT = 0x00, 0xC1, 0xC5, 0xCA, 0xCB
TOO_MUCH, NO_PRIVILEGE = 0xC8, 0xD4
# Codes of table 5-2 for "not now": busy, timed out, no response to be had, being updated or started, not in this
# state, unspecified; and 81h of the event log's commands: it is being erased (section 31.6).
NOT_NOW = frozenset({0x81, 0xC0, 0xC3, 0xCE, 0xCF, 0xD0, 0xD1, 0xD2, 0xD5, 0xFF})


@dataclass(frozen=True, slots=True, kw_only=True)
class IpmiRequest:
    """A command to logical unit 0: network function, command, data."""

    function: int
    command: int
    data: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class IpmiResponse:
    """Completion code and, where it is 0, the data behind it."""

    code: int
    data: bytes = b""

    def at_least(self, count: int) -> bytes:
        """Return the data of a successful command if it has at least `count` bytes, else no bytes."""
        return self.data if self.code == OK and len(self.data) >= count else b""


class IpmiPort(Protocol):
    """Sends commands to a controller; every call returns or raises within seconds.

    TransientError where the controller does not respond or refuses the login; EnvironmentLacksError or
    NotPermittedError where a program or device on this machine is missing or may not be used.
    """

    name: str

    def send(self, requests: Sequence[IpmiRequest]) -> tuple[IpmiResponse, ...]:
        """Send requests and return their responses in order; connects first unless connected."""
        ...

    def close(self) -> None:
        """Close the connection; closing twice is harmless."""
        ...
