"""The fleet loop: windows, lateness of data, and the feeds and racks above the nodes."""

from collections import Counter
from enum import StrEnum
from typing import Annotated, Self

from pydantic import Field, model_validator

from analytics.fleet.topology import FeedsAndRacks
from config.control import FleetAct
from config.section import Section, at_least
from telemetry.durations import DurationS
from telemetry.key_problems import KeyProblemError, missing_key

Names = tuple[str, ...]


class FleetStore(StrEnum):
    """Query language of the nodes' store."""

    INFLUXQL = "influxql"
    VICTORIAMETRICS = "victoriametrics"


class Fleet(Section):
    """The fleet loop, `railwatch fleet`: reads the nodes' store and judges the whole fleet."""

    name: str = Field(
        default="fleet", min_length=1, max_length=200, description="Node name of the fleet service in its own records."
    )
    reads: FleetStore = Field(
        default=FleetStore.INFLUXQL,
        description="Query language of the server in section `store`, for the fleet, the page and `explain`.",
    )
    every: Annotated[DurationS, at_least(1, "1s")] = Field(
        default=5.0, description="Length of a window in whole seconds; also the interval of the loop."
    )
    lateness: Annotated[DurationS, at_least(0, "0s")] = Field(
        default=15.0,
        description=(
            "How long the loop waits for rows; later ones are counted and ignored. Must exceed `sampling.rare` of the "
            "nodes, the interval of their slowest rows."
        ),
    )
    deadline: Annotated[DurationS, at_least(0.1, "100ms")] = Field(
        default=10.0, description="Time limit of one query, and of one round of the loop."
    )
    keep_every: Annotated[DurationS, at_least(1, "1s")] = Field(
        default=30.0, description="Interval at which the state is written to disk."
    )
    catch_up: Annotated[DurationS, at_least(60, "60s")] = Field(
        default=3600.0, description="After a longer outage the loop restarts this far back and logs it."
    )
    forget: Annotated[DurationS, at_least(60, "60s")] = Field(
        default=86_400.0, description="How long a silent node or device counts as missing."
    )
    feeds: dict[str, Names] = Field(
        default={},
        description=(
            "Nodes by feed, PDU or bus bar; a node with two feeds is listed under both. The tags `feed` and `pdu` do "
            "the same."
        ),
    )
    racks: dict[str, Names] = Field(default={}, description="Nodes by rack; the tag `rack` does the same.")

    act: FleetAct = FleetAct()

    @model_validator(mode="after")
    def _has_a_share(self) -> Self:
        if self.act.budget_shares and self.name not in self.act.budget_shares:
            raise missing_key(f"act.budget_shares.{self.name}", "the share of this service, a number from 0 to 1")
        return self

    @model_validator(mode="after")
    def _whole_seconds(self) -> Self:
        for key, seconds in (("every", self.every), ("lateness", self.lateness)):
            if seconds != int(seconds):
                raise KeyProblemError(key, f"got {seconds:g} s", "whole seconds, such as 5s")
        return self

    @model_validator(mode="after")
    def _each_node_in_one_rack(self) -> Self:
        counts = Counter(name for members in self.racks.values() for name in members)
        twice = sorted(name for name, count in counts.items() if count > 1)
        if twice:
            raise KeyProblemError("racks", f"in two racks: {', '.join(twice)}", "each node in one rack")
        return self

    @property
    def above(self) -> FeedsAndRacks:
        """Return the feeds and racks above the nodes."""
        return FeedsAndRacks(feeds=dict(self.feeds), racks=dict(self.racks))
