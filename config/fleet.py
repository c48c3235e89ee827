"""The fleet loop: which windows it judges, how late data may come, and what stands above the nodes."""

from collections import Counter
from enum import StrEnum
from typing import Annotated, Self

from pydantic import Field, model_validator

from analytics.fleet.topology import Above
from config.control import FleetAct
from config.section import Section, at_least
from telemetry.durations import DurationS

Names = tuple[str, ...]


class FleetStore(StrEnum):
    """What the store of the nodes answers to."""

    INFLUXQL = "influxql"
    VICTORIAMETRICS = "victoriametrics"


class Fleet(Section):
    """The fleet loop, `railwatch fleet`: what it reads of the nodes' store, and when."""

    name: str = Field(
        default="fleet", min_length=1, max_length=200, description="Node name under which it writes of itself."
    )
    reads: FleetStore = Field(default=FleetStore.INFLUXQL, description="What the store of section `store` is asked in.")
    every: Annotated[DurationS, at_least(1, "1s")] = Field(
        default=5.0, description="Length of a window in whole seconds, and time between two looks."
    )
    lateness: Annotated[DurationS, at_least(0, "0s")] = Field(
        default=15.0,
        description=(
            "How long rows are waited for; what comes later is counted as late and left out. More than `sampling.rare` "
            "of the nodes, whose slowest rows come so late."
        ),
    )
    deadline: Annotated[DurationS, at_least(0.1, "100ms")] = Field(
        default=10.0, description="Time limit of one question to the store, and of one look."
    )
    keep_every: Annotated[DurationS, at_least(1, "1s")] = Field(
        default=30.0, description="How often the state is written to disk."
    )
    catch_up: Annotated[DurationS, at_least(60, "60s")] = Field(
        default=3600.0, description="After a longer absence the loop begins anew so far back, and says so."
    )
    forget: Annotated[DurationS, at_least(60, "60s")] = Field(
        default=86_400.0, description="How long a node or a part that is silent is missed."
    )
    feeds: dict[str, Names] = Field(
        default={},
        description=(
            "Nodes by the feed, PDU or bus bar that they hang on, a node with two feeds under both; tags `feed` and "
            "`pdu` tell as well."
        ),
    )
    racks: dict[str, Names] = Field(
        default={}, description="Nodes by the rack whose air they breathe; the tag `rack` tells as well."
    )

    act: FleetAct = FleetAct()

    @model_validator(mode="after")
    def _has_a_share(self) -> Self:
        if self.act.budget_shares and self.name not in self.act.budget_shares:
            raise ValueError(f"a share in fleet.act.budget_shares for {self.name}, the name of this service")
        return self

    @model_validator(mode="after")
    def _whole_seconds(self) -> Self:
        if self.every != int(self.every) or self.lateness != int(self.lateness):
            raise ValueError("fleet.every and fleet.lateness in whole seconds")
        return self

    @model_validator(mode="after")
    def _a_node_stands_in_one_rack(self) -> Self:
        counts = Counter(name for members in self.racks.values() for name in members)
        twice = sorted(name for name, count in counts.items() if count > 1)
        if twice:
            raise ValueError(f"each node in one rack, since it breathes the air of one: {', '.join(twice)}")
        return self

    @property
    def above(self) -> Above:
        """Return what stands above the nodes."""
        return Above(feeds=dict(self.feeds), racks=dict(self.racks))
