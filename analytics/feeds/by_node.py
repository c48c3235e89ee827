"""Periods of a table of nodes or feeds, judged node by node, beside what the GPUs of each draw."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from analytics.connectivity import Siblings
from analytics.feeds.gpus_beside import GpusBeside
from analytics.feeds.node_watts import NodeReadings, WattsPeriod, node_period, periods_of
from analytics.feeds.readings import FeedPeriod, FeedReadings
from telemetry.frames import Frame
from telemetry.records import Finding


class ByNodeState(Protocol):
    """State of a detector of nodes; `feeds` is used where the entities are feeds, `meters` where they are nodes."""

    @property
    def siblings(self) -> Siblings:
        """Which entities are of one node."""
        ...

    @property
    def feeds(self) -> FeedReadings:
        """Readings of feeds."""
        ...

    @property
    def meters(self) -> NodeReadings:
        """Readings of nodes."""
        ...

    @property
    def gpus(self) -> GpusBeside:
        """What the GPUs of each node draw."""
        ...


State = TypeVar("State", bound=ByNodeState)
JudgePeriod = Callable[[State, WattsPeriod, FeedPeriod | WattsPeriod], tuple[State, Sequence[Finding]]]


def judged_by_node(
    state: State, frame: Frame, judge_period: JudgePeriod[State], *, every_s: int
) -> tuple[State, tuple[Finding, ...]]:
    """Judge each period of a frame when the next one begins: its nodes, and the feeds that they are read by."""
    findings: list[Finding] = []
    for readings, rows, period in periods_of(frame, state.meters, state.feeds, state.siblings.groups, every_s=every_s):
        if period is not None:
            ended = node_period(period) if isinstance(period, FeedPeriod) else period
            state, found = judge_period(state, ended, period)
            findings += found
        state = _with_rows(state, frame, rows, readings)
    return state, tuple(findings)


def _with_rows(state: Any, frame: Frame, rows: slice, readings: dict[str, Any]) -> Any:
    return replace(state, gpus=state.gpus.with_rows(frame, rows), **readings)
