"""Meter of a feed that sticks: volts, amperes or watts repeat to the last digit for longer than that meter ever does.

Only meters of alternating current are judged so: mains and the load behind them are never still. Rails of direct
current, whose meters are coarse, are those of `supply_plausibility`.

Disproved by a meter that is read more rarely than its rows come; `analytics.feeds.repeats` learns that.
"""

from dataclasses import dataclass, replace

import numpy as np

from analytics.detectors.columns import optional
from analytics.detectors.condition import Changes, Conditions, Holds, elapsed_ns, judge
from analytics.detectors.statements import Statement, evidence, findings_from
from analytics.detectors.streaks import begun
from analytics.feeds.repeats import VALUES, Repeats
from analytics.supply.input_fall import MAINS_V
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.frames import FloatArray, Frame, MaskArray, TableSpec, filled
from telemetry.quantities import duration, volts
from telemetry.records import Cause, Finding, FindingStatus, Severity

# heuristic: ten readings of a meter that is read once a second.
_HOLDS = Holds.of_seconds(set_s=0.0, clear_s=10.0)
_NAMES = ("voltage", "current", "power")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FeedMetersState:
    """State between rows; `is_feed` marks supplies that have shown a voltage of mains."""

    last_ns: int | None
    is_feed: MaskArray
    repeats: Repeats
    stuck: Conditions


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedMeters:
    """Raises `Cause.SENSOR_FAULT` on feeds whose meter repeats its readings."""

    name: str = "feed_meters"
    kind: EntityKind = EntityKind.SUPPLY
    signals: tuple[str, ...] = ("voltage_v",)

    def start(self, spec: TableSpec) -> FeedMetersState:
        """Return the state before the first row."""
        return filled(FeedMetersState, len(spec.entities))

    def step(
        self, state: FeedMetersState, frame: Frame, topology: Topology
    ) -> tuple[FeedMetersState, tuple[Finding, ...]]:
        """Judge the rows of a frame one by one; a table without feeds costs one comparison."""
        del topology
        if not (state.is_feed.any() or (frame.signal("voltage_v") > MAINS_V).any()):
            return state, ()
        values = np.stack([optional(frame, name) for name in VALUES], axis=2)
        fresh = np.stack([_fresh(frame, name) for name in VALUES], axis=2)
        findings: list[Finding] = []
        for row, now_ns in enumerate(frame.time_ns.tolist()):
            state, changes = _after_row(state, now_ns, values[row], fresh[row])
            if changes.some:
                findings.extend(_findings(self.name, state, changes, now_ns, frame.spec.entities))
        return state, tuple(findings)


def _fresh(frame: Frame, name: str) -> MaskArray:
    if name not in frame.spec.signals:
        return np.zeros(frame.values.shape[:2], dtype=np.bool_)
    return frame.fresh[:, :, frame.spec.signals.index(name)]


def _after_row(
    state: FeedMetersState, now_ns: int, values: FloatArray, fresh: MaskArray
) -> tuple[FeedMetersState, Changes]:
    is_feed = state.is_feed | (values[:, 0] > MAINS_V)
    repeats = state.repeats.after(now_ns, values, fresh & is_feed[:, np.newaxis])
    sticks = repeats.stuck
    any_sticks: MaskArray = np.any(sticks, axis=1)
    stuck, changes = judge(
        state.stuck,
        now_ns=now_ns,
        elapsed_ns=elapsed_ns(state.last_ns, now_ns),
        over=any_sticks,
        under=~any_sticks,
        seen=np.any(fresh, axis=1) & is_feed,
        holds=_HOLDS,
    )
    since_ns = np.where(sticks, repeats.since_ns, now_ns).min(axis=1)
    stuck = begun(stuck, changes, since_ns)
    return replace(state, last_ns=now_ns, is_feed=is_feed, repeats=repeats, stuck=stuck), changes


def _findings(
    name: str, state: FeedMetersState, changes: Changes, now_ns: int, entities: tuple[Entity, ...]
) -> tuple[Finding, ...]:
    def describe(index: int, status: FindingStatus) -> Statement:
        last, lasted_s = state.repeats.last[index], state.stuck.lasted_s(index, now_ns)
        held = np.flatnonzero(state.repeats.stuck[index]).tolist()
        shown = (volts(float(last[0])), f"{last[1]:.2f} A", f"{last[2]:.0f} W")
        what = ", ".join(f"{_NAMES[one]} {shown[one]}" for one in held)
        cleared = status is FindingStatus.CLEARED
        return Statement(
            severity=Severity.WARNING,
            score=0.5,
            summary=f"{entities[index].label} meter {'moves again' if cleared else f'repeats {what} exactly'}"
            + ("" if cleared else f" for {duration(lasted_s)}: stuck"),
            evidence=evidence(
                ("voltage_v", float(last[0]), "V"),
                ("current_a", float(last[1]), "A"),
                ("power_w", float(last[2]), "W"),
                ("duration_s", lasted_s, "s"),
            ),
        )

    return findings_from(name, Cause.SENSOR_FAULT, entities, state.stuck, changes, now_ns=now_ns, describe=describe)
