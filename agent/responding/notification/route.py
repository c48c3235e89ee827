"""Routes of notifications."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from agent.responding.secret import NO_SECRET, Secret
from telemetry.errors import NotPermittedError
from telemetry.records import Cause, Severity


class RouteKind(StrEnum):
    """Type of the receiver."""

    APPRISE = "apprise"
    ALERTMANAGER = "alertmanager"
    WEBHOOK = "webhook"


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """Route of notifications to people.

    Parameters
    ----------
    url
        Address without a secret; empty if `address` is used.
    address
        Location of an address that is a secret; may contain several, one per line (Apprise).
    token
        Bearer token of HTTP requests.
    ca_file
        Certificates to verify the server with; None uses those of the system.
    least
        Lowest severity that is sent.
    causes
        Causes that are sent; empty: all.
    recoveries
        Whether to send a message when an incident closes.
    """

    name: str
    kind: RouteKind
    url: str = ""
    address: Secret = NO_SECRET
    token: Secret = NO_SECRET
    ca_file: Path | None = None
    least: Severity = Severity.INFO
    causes: frozenset[Cause] = frozenset()
    recoveries: bool = True

    def takes(self, *, cause: Cause, severity: Severity) -> bool:
        """Return True if this route accepts an incident."""
        return severity.rank >= self.least.rank and (not self.causes or cause in self.causes)

    def addresses(self) -> tuple[str, ...]:
        """Return the addresses, including secrets.

        Raises
        ------
        NotPermittedError
            No address is set, or it cannot be read.
        """
        if self.url:
            return (self.url,)
        lines = (line.strip() for line in self.address.read().splitlines())
        found = tuple(line for line in lines if line and not line.startswith("#"))
        if not found:
            raise NotPermittedError(f"route {self.name} has no address")
        return found
