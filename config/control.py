"""The control endpoint of an agent: whether it listens to fleet services, to which, and how far."""

from collections.abc import Mapping
from typing import Annotated, Self

from pydantic import Field, model_validator

from config.section import Section, UserPath, at_least
from config.sources import SourceUse
from rules.limits.fleet import FleetRails
from rules.limits.node import RailsSettings
from rules.policy.model import ActionClass
from telemetry.durations import DurationS
from telemetry.identity_names import FleetId, Identity
from telemetry.records import Mode

# Beside the page's 8470.
CONTROL_PORT = 8471


class Certificates(Section):
    """Files that say who somebody is; `railwatch fleet ca` makes them."""

    authority: UserPath | None = Field(default=None, description="Certificate of the authority that is trusted.")
    certificate: UserPath | None = Field(default=None, description="Own certificate.")
    key: UserPath | None = Field(default=None, description="Private key of it, which nobody else may read.")

    @property
    def identity(self) -> Identity | None:
        """Return them together, None where one is missing."""
        if self.authority is None or self.certificate is None or self.key is None:
            return None
        return Identity(authority=self.authority, certificate=self.certificate, key=self.key)


class FleetAct(Certificates):
    """What the fleet service may do, and how much of it; how far each class may go stands in `actions`."""

    use: SourceUse = Field(
        default=SourceUse.OFF, description="Whether the fleet service acts at all: `auto` does, `off` only judges."
    )
    token: UserPath | None = Field(default=None, description="File with its token.")
    agents: dict[str, str] = Field(
        default={}, description="Addresses as host:port by node; a node without one is found under its own name."
    )
    port: int = Field(default=CONTROL_PORT, ge=1, le=65535, description="Port of agents whose address has none.")
    builtin: bool = Field(default=True, description="Use the policies of the fleet that come with railwatch.")
    dirs: tuple[UserPath, ...] = Field(
        default=(), description="Folders of further policies of the fleet; one with the id of a built-in replaces it."
    )
    budget_shares: dict[FleetId, Annotated[float, Field(ge=0, le=1)]] = Field(
        default={},
        description=(
            "Where several services act on one fleet: the share of every budget that each may use, the same table for "
            "all of them. Shares add up to at most 1, so the budgets hold however the network splits."
        ),
    )
    nodes_max: int = Field(default=1, ge=0, description="Nodes on which an action may begin in one `window`, or more:")
    nodes_ratio: float = Field(default=0.10, ge=0, le=1, description="this share of the fleet, if that is more.")
    per_rack: int = Field(default=1, ge=1, description="Nodes of one rack on which an action may begin in a `window`.")
    window: Annotated[DurationS, at_least(1, "1s")] = Field(default=600.0, description="Time that budgets are for.")
    breaker_ratio: float = Field(
        default=0.20,
        gt=0,
        le=1,
        description="The breaker trips where actions are wanted on more than this share of the fleet;",
    )
    breaker_window: Annotated[DurationS, at_least(1, "1s")] = Field(default=600.0, description="within this time")
    breaker_nodes_min: int = Field(default=3, ge=1, description="and on at least this many nodes.")

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if sum(self.budget_shares.values()) > 1 + 1e-9:
            raise ValueError("fleet.act.budget_shares that add up to at most 1")
        if self.use is not SourceUse.OFF and (self.identity is None or self.token is None):
            raise ValueError("fleet.act.authority, .certificate, .key and .token, since fleet.act.use is not off")
        return self

    def rails(self, me: str, modes: Mapping[ActionClass, Mode], own: RailsSettings) -> FleetRails:
        """Return them as the engine uses them."""
        return FleetRails(
            me=me,
            shares=dict(self.budget_shares),
            modes=modes,
            approval=frozenset(own.approval),
            silence_stops=frozenset(own.silence_stops),
            maintenance=tuple(one.window() for one in own.maintenance),
            nodes_max=self.nodes_max,
            nodes_ratio=self.nodes_ratio,
            per_rack=self.per_rack,
            window_s=self.window,
            breaker_ratio=self.breaker_ratio,
            breaker_window_s=self.breaker_window,
            breaker_nodes_min=self.breaker_nodes_min,
        )


class Control(Certificates):
    """What fleet services may ask of this node. Its own rails and modes hold for them as well."""

    use: SourceUse = Field(
        default=SourceUse.OFF, description="Whether this node listens to fleet services: `auto` does, `off` does not."
    )
    host: str = Field(default="0.0.0.0", min_length=1, description="Address to listen on.")  # noqa: S104 -- TLS with certificates of both ends
    port: int = Field(default=CONTROL_PORT, ge=0, le=65535, description="Port to listen on; 0 takes a free one.")
    fleets: tuple[FleetId, ...] = Field(default=(), description="Names of the services that may ask.")
    revoked: tuple[str, ...] = Field(default=(), description="Ids of tokens that count no more.")
    skew: Annotated[DurationS, at_least(0, "0s"), Field(le=60)] = Field(
        default=5.0, description="How far a service's clock may be ahead of this one."
    )
    request_max: Annotated[DurationS, at_least(1, "1s"), Field(le=600)] = Field(
        default=60.0, description="Longest life of a request."
    )
    lease_max: Annotated[DurationS, at_least(5, "5s"), Field(le=86_400)] = Field(
        default=600.0, description="Longest lease that a service may ask for."
    )

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.use is SourceUse.OFF:
            return self
        if self.identity is None:
            raise ValueError("control.authority, control.certificate and control.key, since control.use is not off")
        if not self.fleets:
            raise ValueError("control.fleets, the services that may ask, since control.use is not off")
        return self
