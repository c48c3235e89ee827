"""Notification of people: routes and their limits."""

from pathlib import Path
from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from agent.responding.notification.route import NotificationSettings, Route, RouteKind, Secret
from config.section import Section, UserPath, VariableName, at_least, web_url
from telemetry.durations import DurationS
from telemetry.key_problems import KeyProblemError
from telemetry.records import Cause, Severity


def _without_login(text: str) -> str:
    web_url(text)
    parts = urlsplit(text)
    if parts.username is not None or parts.password is not None or parts.query:
        raise ValueError(
            "an address without user, password and query; put an address with secrets into url_env or url_file"
        )
    return text.rstrip("/")


class RouteSection(Section):
    """Route of notifications, with its address in `url`, `url_env` or `url_file`."""

    kind: RouteKind = Field(description="Type of the receiver.")
    url: Annotated[str, AfterValidator(_without_login)] | None = Field(
        default=None, description="HTTP address without secrets (alertmanager, webhook)."
    )
    url_env: VariableName = Field(default="", description="Environment variable with the address.")
    url_file: UserPath | None = Field(
        default=None, description="File with the address; for Apprise one per line, # begins a comment."
    )
    token_env: VariableName = Field(default="", description="Environment variable with a bearer token.")
    token_file: UserPath | None = Field(default=None, description="File with a bearer token.")
    ca_file: UserPath | None = Field(
        default=None, description="Certificates to verify the server with; unset: those of the system."
    )
    severity: Severity = Field(default=Severity.INFO, description="Lowest severity that is sent.")
    causes: tuple[Cause, ...] = Field(default=(), description="Causes that are sent; empty: all.")
    recoveries: bool = Field(default=True, description="Whether to send a message when an incident closes.")

    @model_validator(mode="after")
    def _one_address(self) -> Self:
        given = [self.url is not None, bool(self.url_env), self.url_file is not None]
        if sum(given) != 1:
            raise ValueError("exactly one of url, url_env and url_file")
        if self.kind is RouteKind.APPRISE and self.url is not None:
            raise KeyProblemError(
                "url", "not allowed when kind is apprise", "url_env or url_file: the address is a secret"
            )
        if self.token_env and self.token_file is not None:
            raise ValueError("token_env or token_file, not both")
        has_token = self.token_env or self.token_file is not None
        if self.kind is RouteKind.APPRISE and (has_token or self.ca_file is not None):
            raise ValueError("no token and no ca_file: for Apprise both are part of the address")
        return self

    def route(self, name: str) -> Route:
        """Return the route as delivery uses it."""
        return Route(
            name=name,
            kind=self.kind,
            url=self.url or "",
            address=Secret(variable=self.url_env, file=_path(self.url_file)),
            token=Secret(variable=self.token_env, file=_path(self.token_file)),
            ca_file=_path(self.ca_file),
            least=self.severity,
            causes=frozenset(self.causes),
            recoveries=self.recoveries,
        )


class Notification(Section):
    """Notifications through Apprise, Alertmanager or a webhook; without a route none is sent."""

    routes: dict[Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,39}$")], RouteSection] = Field(
        default={},
        description=(
            "Routes by name: `kind` (apprise, alertmanager, webhook), one of `url`, `url_env` and `url_file`; optional "
            "`severity`, `causes`, `recoveries`, `token_env`, `token_file`, `ca_file`."
        ),
    )
    group: Annotated[DurationS, at_least(1, "1s")] = Field(
        default=60.0,
        description=(
            "Shortest interval of messages on a route that people read; one message covers all incidents since."
        ),
    )
    keep: Annotated[DurationS, at_least(60, "60s")] = Field(
        default=86_400.0,
        description="How long delivery is retried; after that the message is dropped and counted as lost.",
    )
    queue_max: int = Field(default=1000, ge=1, le=100_000, description="Most messages that wait on disk.")
    page_url: Annotated[str, AfterValidator(web_url)] | None = Field(
        default=None, description="Address of the page for people; each message contains it."
    )

    def settings(self) -> NotificationSettings:
        """Return the settings of the notifier."""
        return NotificationSettings(
            routes=tuple(section.route(name) for name, section in self.routes.items()),
            group_s=self.group,
            keep_s=self.keep,
            queue_max=self.queue_max,
            page_url=self.page_url or "",
        )


def _path(path: Path | None) -> Path | None:
    return None if path is None else Path(path)
