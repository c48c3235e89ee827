"""Lost feed: one of several feeds of a node carries nothing, and the others took over what it did.

Watts alone are enough. A feed whose volts are gone is seen by `input_voltage` as well; this also finds a supply that
is dead behind a sound feed, and a feed of which no volts are read.

Disproved by a load of its own on that feed, or by a supply that was put to sleep: those wake under load.
"""

from dataclasses import dataclass, replace

import numpy as np

from analytics.connectivity import Siblings
from analytics.detectors.condition import Changes, Conditions, Holds, judge
from analytics.detectors.statements import Statement, evidence, findings_from
from analytics.detectors.streaks import begun
from analytics.feeds.readings import FeedPeriod, FeedReadings
from analytics.feeds.takeover import Takeover, after_period
from telemetry.clock import NS_PER_S
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.frames import Frame, TableSpec, filled
from telemetry.quantities import volts
from telemetry.records import Cause, Finding, FindingStatus, Severity

# heuristic: two readings in a row, as one may have failed.
_READINGS = 2.0
_HOLDS = Holds.of_seconds(set_s=0.0, clear_s=5.0)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FeedLostState:
    """State between rows."""

    siblings: Siblings
    readings: FeedReadings
    takeover: Takeover
    lost: Conditions


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedLost:
    """Raises `Cause.SUPPLY_LOST` on feeds whose load the others took over."""

    name: str = "feed_lost"
    kind: EntityKind = EntityKind.SUPPLY
    signals: tuple[str, ...] = ()

    def start(self, spec: TableSpec) -> FeedLostState:
        """Return the state before the first row."""
        return filled(FeedLostState, len(spec.entities))

    def rests(self, state: FeedLostState) -> bool:
        """Return True where the table has no feed."""
        return state.readings.idle

    def step(self, state: FeedLostState, frame: Frame, topology: Topology) -> tuple[FeedLostState, tuple[Finding, ...]]:
        """Judge each second of a frame when the next one begins."""
        entities = frame.spec.entities
        state = replace(state, siblings=state.siblings.under(topology, entities))
        findings: list[Finding] = []
        for readings, _, ended in state.readings.periods(frame, state.siblings.groups, every_s=1):
            if ended is not None and ended.is_feed.any():
                state, changes = _judged(state, ended)
                if changes.some:
                    findings += _findings(self.name, state, changes, ended, entities)
            state = replace(state, readings=readings)
        return state, tuple(findings)


def _judged(state: FeedLostState, period: FeedPeriod) -> tuple[FeedLostState, Changes]:
    takeover = after_period(state.takeover, period)
    lost, changes = judge(
        state.lost,
        now_ns=period.now_ns,
        elapsed_ns=round(period.passed_s * NS_PER_S),
        over=takeover.taken & (takeover.readings >= _READINGS),
        under=~takeover.dead,
        seen=np.isfinite(period.watts),
        holds=_HOLDS,
    )
    return replace(state, takeover=takeover, lost=begun(lost, changes, takeover.since_ns)), changes


def _findings(
    name: str, state: FeedLostState, changes: Changes, period: FeedPeriod, entities: tuple[Entity, ...]
) -> tuple[Finding, ...]:
    takeover, n_feeds = state.takeover, period.counted(period.is_feed)

    def describe(index: int, status: FindingStatus) -> Statement:
        feed, now_w, usual_w = entities[index].label, float(takeover.now_w[index]), float(takeover.watts[index])
        taken_w = float(takeover.others_now_w[index] - takeover.others_w[index])
        at_v = float(period.volts[index])
        at = f" at {volts(at_v)}" if np.isfinite(at_v) else ""
        if status is FindingStatus.CLEARED:
            summary = f"{feed} carries {now_w:.0f} W again"
        else:
            others = f"the other {n_feeds[index] - 1:.0f} feeds" if n_feeds[index] > 2 else "the other feed"
            summary = f"{feed} carries {now_w:.0f} W of {usual_w:.0f} W{at}; {others} took over {taken_w:.0f} W"
        return Statement(
            severity=Severity.CRITICAL,
            score=1.0,
            summary=summary,
            evidence=evidence(
                ("power_w", now_w, "W"),
                ("usual_power_w", usual_w, "W"),
                ("taken_over_w", taken_w, "W"),
                ("voltage_v", at_v, "V"),
                ("duration_s", state.lost.lasted_s(index, period.now_ns), "s"),
                ("feeds", float(n_feeds[index]), ""),
            ),
        )

    return findings_from(
        name, Cause.SUPPLY_LOST, entities, state.lost, changes, now_ns=period.now_ns, describe=describe
    )
