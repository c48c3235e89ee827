"""Routes of notifications and their secrets; a light module, since every command reads the configuration."""

import os
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from telemetry.errors import NotPermittedError
from telemetry.records import Cause, Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class Secret:
    """Location of a secret; it is read at each use, so that it can be changed while the agent runs.

    `variable` is an environment variable with the secret, empty for none; `file` is used before it.
    """

    variable: str = ""
    file: Path | None = None

    def __bool__(self) -> bool:
        """Return True if a location is set."""
        return bool(self.variable) or self.file is not None

    @property
    def place(self) -> str:
        """Description of the location, without the secret."""
        return f"the environment variable {self.variable}" if self.file is None else f"the file {self.file}"

    def read(self) -> str:
        """Return the secret; empty if no location is set.

        NotPermittedError where it cannot be read.
        """
        if not self:
            return ""
        try:
            found = os.environ.get(self.variable, "") if self.file is None else self.file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as err:
            raise NotPermittedError(f"{self.place} cannot be read") from err
        found = found.strip()
        if not found:
            raise NotPermittedError(f"{self.place} is empty")
        return found


NO_SECRET = Secret()


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
        """Return the addresses, including secrets; NotPermittedError where no address is set, or it cannot be read."""
        if self.url:
            return (self.url,)
        lines = (line.strip() for line in self.address.read().splitlines())
        found = tuple(line for line in lines if line and not line.startswith("#"))
        if not found:
            raise NotPermittedError(f"route {self.name} has no address")
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationSettings:
    """Routes, and limits of the queue.

    `group_s` is the shortest interval of messages on a route that people read, `keep_s` the time limit of retries,
    `queue_max` the most messages that wait.
    """

    routes: tuple[Route, ...] = ()
    group_s: float = 60.0
    keep_s: float = 86_400.0
    queue_max: int = 1000
    page_url: str = ""
