"""Control endpoint of an agent for fleet services, and the actions of the fleet service."""

from collections.abc import Mapping
from typing import Annotated, Self

from pydantic import Field, model_validator

from config.section import Section, UserPath, at_least
from config.sources import SourceUse
from rules.limits.fleet import FleetLimits
from rules.limits.node import LimitSettings
from rules.policy.model import ActionClass
from telemetry.durations import DurationS
from telemetry.identity_names import FleetId, Identity
from telemetry.key_problems import KeyProblemError, missing_key
from telemetry.records import Mode

# Beside the page's 8470.
CONTROL_PORT = 8471


class Certificates(Section):
    """Certificate files; `railwatch fleet ca` creates them."""

    authority: UserPath | None = Field(default=None, description="Certificate of the trusted authority.")
    certificate: UserPath | None = Field(default=None, description="Own certificate.")
    key: UserPath | None = Field(
        default=None, description="Private key of the certificate, readable by its owner alone."
    )

    @property
    def identity(self) -> Identity | None:
        """Return them together, None where one is missing."""
        if self.authority is None or self.certificate is None or self.key is None:
            return None
        return Identity(authority=self.authority, certificate=self.certificate, key=self.key)


class FleetAct(Certificates):
    """Actions of the fleet service and their budgets; `actions` sets the mode of each class of action."""

    use: SourceUse = Field(default=SourceUse.OFF, description="`auto`: the fleet service acts; `off`: it only judges.")
    token: UserPath | None = Field(default=None, description="File with the token of the service.")
    agents: dict[str, str] = Field(
        default={}, description="Address (host:port) of the agent of each node; default: the name of the node."
    )
    port: int = Field(default=CONTROL_PORT, ge=1, le=65535, description="Port of agents whose address names none.")
    builtin: bool = Field(default=True, description="Load the fleet policies that come with railwatch.")
    dirs: tuple[UserPath, ...] = Field(
        default=(),
        description="Folders of further fleet policies; a policy replaces the built-in one with the same id.",
    )
    budget_shares: dict[FleetId, Annotated[float, Field(ge=0, le=1)]] = Field(
        default={},
        description=(
            "Share of every budget for each service, if several act on one fleet; the same table for all of them. "
            "Shares add up to at most 1, so the budgets hold however the network splits."
        ),
    )
    nodes_max: int = Field(
        default=1, ge=0, description="Nodes on which actions may begin in one `window`; `nodes_ratio` may allow more."
    )
    nodes_ratio: float = Field(
        default=0.10,
        ge=0,
        le=1,
        description="Share of the fleet on which actions may begin in one `window`; the larger one counts.",
    )
    per_rack: int = Field(default=1, ge=1, description="Nodes of one rack on which actions may begin in one `window`.")
    window: Annotated[DurationS, at_least(1, "1s")] = Field(default=600.0, description="Length of the budget window.")
    breaker_ratio: float = Field(
        default=0.20,
        gt=0,
        le=1,
        description=(
            "Share of the fleet; if policies request actions on more within `breaker_window`, the breaker trips."
        ),
    )
    breaker_window: Annotated[DurationS, at_least(1, "1s")] = Field(
        default=600.0, description="Length of the breaker's window."
    )
    breaker_nodes_min: int = Field(default=3, ge=1, description="Fewest nodes that can trip the breaker.")

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if sum(self.budget_shares.values()) > 1 + 1e-9:
            total = sum(self.budget_shares.values())
            raise KeyProblemError("budget_shares", f"the shares add up to {total:g}", "at most 1")
        if self.use is not SourceUse.OFF:
            _require_files(self, "authority", "certificate", "key", "token")
        return self

    def fleet_limits(self, me: str, modes: Mapping[ActionClass, Mode], own: LimitSettings) -> FleetLimits:
        """Return them as the engine uses them."""
        return FleetLimits(
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
    """Control endpoint for fleet services; the node's own limits and modes apply to their requests as well."""

    use: SourceUse = Field(
        default=SourceUse.OFF, description="`auto`: this node accepts requests of fleet services; `off`: it does not."
    )
    host: str = Field(default="0.0.0.0", min_length=1, description="Address to listen on.")  # noqa: S104 -- TLS with certificates of both ends
    port: int = Field(default=CONTROL_PORT, ge=0, le=65535, description="Port to listen on; 0 takes a free one.")
    fleets: tuple[FleetId, ...] = Field(default=(), description="Names of the services that may send requests.")
    revoked: tuple[str, ...] = Field(default=(), description="Ids of revoked tokens.")
    skew: Annotated[DurationS, at_least(0, "0s"), Field(le=60)] = Field(
        default=5.0, description="How far the clock of a service may be ahead of this node's."
    )
    request_max: Annotated[DurationS, at_least(1, "1s"), Field(le=600)] = Field(
        default=60.0, description="Longest validity of a request."
    )
    lease_max: Annotated[DurationS, at_least(5, "5s"), Field(le=86_400)] = Field(
        default=600.0, description="Longest lease that a service may request."
    )

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.use is SourceUse.OFF:
            return self
        _require_files(self, "authority", "certificate", "key")
        if not self.fleets:
            raise missing_key("fleets", "the names of the services that may send requests: required unless use is off")
        return self


def _require_files(section: Certificates, *keys: str) -> None:
    """Refuse a section that is in use and lacks one of these files."""
    lacking = next((key for key in keys if getattr(section, key) is None), None)
    if lacking is not None:
        raise missing_key(lacking, f"a file: {', '.join(keys)} are required unless use is off")
