"""To whom what is told."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from agent.responding.secret import NO_SECRET, Secret
from telemetry.errors import NotPermittedError
from telemetry.records import Cause, Severity


class RouteKind(StrEnum):
    """How a route speaks."""

    APPRISE = "apprise"
    ALERTMANAGER = "alertmanager"
    WEBHOOK = "webhook"


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One way to people.

    Parameters
    ----------
    url
        Address without a secret in it; empty where `address` holds it.
    address
        Where an address that is itself a secret stands; may hold several, one a line (Apprise).
    token
        Bearer token that HTTP requests carry.
    ca_file
        Certificates that the server's one is checked against; None takes the machine's.
    least
        The mildest severity that is told.
    causes
        What is told of; empty for everything.
    recoveries
        Whether it is told that an incident closed.
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
        """Return whether an incident is told on this route."""
        return severity.rank >= self.least.rank and (not self.causes or cause in self.causes)

    def addresses(self) -> tuple[str, ...]:
        """Return where to send to, secrets and all.

        Raises
        ------
        NotPermittedError
            No address is named, or the place with it cannot be read.
        """
        if self.url:
            return (self.url,)
        lines = (line.strip() for line in self.address.read().splitlines())
        found = tuple(line for line in lines if line and not line.startswith("#"))
        if not found:
            raise NotPermittedError(f"route {self.name} has no address")
        return found
