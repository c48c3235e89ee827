"""How people are told: routes and their bounds."""

from pathlib import Path
from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from agent.responding.notification.route import Route, RouteKind
from agent.responding.notification.settings import NotificationSettings
from agent.responding.secret import Secret
from config.section import Section, UserPath, VariableName, at_least, web_url
from telemetry.durations import DurationS
from telemetry.records import Cause, Severity


def _without_login(text: str) -> str:
    web_url(text)
    parts = urlsplit(text)
    if parts.username is not None or parts.password is not None or parts.query:
        raise ValueError("an address without user, password and query; those belong into url_env or url_file")
    return text.rstrip("/")


class RouteSection(Section):
    """One way to people: `url`, or where a secret address stands."""

    kind: RouteKind = Field(description="How it speaks.")
    url: Annotated[str, AfterValidator(_without_login)] | None = Field(
        default=None, description="Address of the web without a secret in it (alertmanager, webhook)."
    )
    url_env: VariableName = Field(default="", description="Environment variable with the address.")
    url_file: UserPath | None = Field(
        default=None, description="File with the address; for Apprise one a line, # begins a remark."
    )
    token_env: VariableName = Field(default="", description="Environment variable with a bearer token.")
    token_file: UserPath | None = Field(default=None, description="File with a bearer token.")
    ca_file: UserPath | None = Field(default=None, description="Certificates to check the server's against.")
    severity: Severity = Field(default=Severity.INFO, description="The mildest severity that is told.")
    causes: tuple[Cause, ...] = Field(default=(), description="What is told of; empty for everything.")
    recoveries: bool = Field(default=True, description="Whether it is told that an incident closed.")

    @model_validator(mode="after")
    def _one_address(self) -> Self:
        given = [self.url is not None, bool(self.url_env), self.url_file is not None]
        if sum(given) != 1:
            raise ValueError("exactly one of url, url_env and url_file")
        if self.kind is RouteKind.APPRISE and self.url is not None:
            raise ValueError("url_env or url_file, since an address of Apprise holds secrets")
        if self.token_env and self.token_file is not None:
            raise ValueError("token_env or token_file, not both")
        has_token = self.token_env or self.token_file is not None
        if self.kind is RouteKind.APPRISE and (has_token or self.ca_file is not None):
            raise ValueError("no token and no ca_file: for Apprise both stand in the address")
        return self

    def route(self, name: str) -> Route:
        """Return what delivery needs."""
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
    """Telling people, through Apprise, Alertmanager or a web server of your own; without a route nobody is told."""

    routes: dict[Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,39}$")], RouteSection] = Field(
        default={},
        description=(
            "By name: `kind` (apprise, alertmanager, webhook), one of `url`, `url_env` and `url_file`, and as wanted "
            "`severity`, `causes`, `recoveries`, `token_env`, `token_file`, `ca_file`"
        ),
    )
    group: Annotated[DurationS, at_least(1, "1s")] = Field(
        default=60.0,
        description="A route that people read gets one message in such a time; it tells all that came meanwhile.",
    )
    keep: Annotated[DurationS, at_least(60, "60s")] = Field(
        default=86_400.0, description="How long a message is tried before it is given up and counted as lost."
    )
    queue_max: int = Field(default=1000, ge=1, le=100_000, description="How many messages may wait on disk.")
    page_url: Annotated[str, AfterValidator(web_url)] | None = Field(
        default=None, description="Address of the page as people reach it; it stands in each message."
    )

    def settings(self) -> NotificationSettings:
        """Return what the notifier needs."""
        return NotificationSettings(
            routes=tuple(section.route(name) for name, section in self.routes.items()),
            group_s=self.group,
            keep_s=self.keep,
            queue_max=self.queue_max,
            page_url=self.page_url or "",
        )


def _path(path: Path | None) -> Path | None:
    return None if path is None else Path(path)
