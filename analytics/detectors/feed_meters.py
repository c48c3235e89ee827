"""Meter of a feed or node that sticks: volts, amperes or watts repeat to the last digit for longer than it ever does.

Only meters of alternating current and of whole nodes are judged so: mains and the load behind them are never still.
Where watts alone are read they are judged under load, as a node that idles may lie still. Rails of direct current,
whose meters are coarse, are those of `supply_plausibility`.

Disproved by a meter that is read more rarely than its rows come; `analytics.feeds.repeats` learns that.
"""

from dataclasses import dataclass, replace

import numpy as np

from analytics.detectors.columns import optional, renewed
from analytics.detectors.condition import Changes, Conditions, Holds, elapsed_ns, judge
from analytics.detectors.statements import Statement, evidence, findings_from
from analytics.detectors.streaks import begun
from analytics.feeds.node_watts import SIGNAL
from analytics.feeds.repeats import VALUES, Repeats
from analytics.supply.input_fall import MAINS_V
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.frames import FloatArray, Frame, FromZero, MaskArray, TableSpec, filled
from telemetry.quantities import duration, volts
from telemetry.records import Cause, Finding, FindingStatus, Severity

# heuristic: ten readings of a meter that is read once a second.
_HOLDS = Holds.of_seconds(set_s=0.0, clear_s=10.0)
_NAMES = ("voltage", "current", "power")
_RAILS = ("voltage_v", "output_voltage_v", "rail_voltage_v", "input_voltage_v")
_W = VALUES.index("power_w")
# Below that nothing is distributed in a server; a reading of nothing is not that of a rail.
_LEAST_RAIL_V = 1.0
# heuristic: watts of less than three fifths of the most are those of a node that idles, and may lie still.
_LOADED_RATIO = 0.6


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FeedMetersState:
    """State between rows.

    `is_feed` marks supplies that have shown a voltage of mains, `is_rail` those that have shown another one; `most_w`
    is the most that watts alone have shown.
    """

    last_ns: int | None
    is_feed: MaskArray
    is_rail: MaskArray
    most_w: FromZero
    repeats: Repeats
    stuck: Conditions


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedMeters:
    """Raises `Cause.SENSOR_FAULT` on feeds and nodes whose meter repeats its readings."""

    name: str = "feed_meters"
    kind: EntityKind = EntityKind.SUPPLY

    @property
    def signals(self) -> tuple[str, ...]:
        """Required signals."""
        return (SIGNAL,) if self.kind is EntityKind.NODE else ()

    def start(self, spec: TableSpec) -> FeedMetersState:
        """Return the state before the first row."""
        return filled(FeedMetersState, len(spec.entities))

    def step(
        self, state: FeedMetersState, frame: Frame, topology: Topology
    ) -> tuple[FeedMetersState, tuple[Finding, ...]]:
        """Judge the rows of a frame one by one."""
        del topology
        names = VALUES if self.kind is EntityKind.SUPPLY else (*VALUES[:2], SIGNAL)
        values = np.stack([optional(frame, name) for name in names], axis=2)
        fresh = np.stack([renewed(frame, name) for name in names], axis=2)
        rails = np.stack([optional(frame, name) for name in _RAILS], axis=2)
        findings: list[Finding] = []
        for row, now_ns in enumerate(frame.time_ns.tolist()):
            state, changes = _after_row(state, now_ns, values[row], fresh[row], rails[row])
            if changes.some:
                findings.extend(_findings(self.name, state, changes, now_ns, frame.spec.entities))
        return state, tuple(findings)

    def rests(self, state: FeedMetersState) -> bool:
        """Return True where every supply is one of direct current."""
        return bool(state.is_rail.all())


def _after_row(
    state: FeedMetersState, now_ns: int, values: FloatArray, fresh: MaskArray, rails: FloatArray
) -> tuple[FeedMetersState, Changes]:
    is_feed = state.is_feed | (values[:, 0] > MAINS_V)
    with_rail = np.any((rails > _LEAST_RAIL_V) & (rails <= MAINS_V), axis=1)
    is_rail = state.is_rail | (with_rail & ~is_feed)
    watts = values[:, _W]
    bare = ~is_feed & ~is_rail & np.isnan(rails).all(axis=1) & (watts > 0.0)
    most_w = np.fmax(state.most_w, np.where(bare, watts, 0.0))
    counts = is_feed | (bare & (watts >= _LOADED_RATIO * most_w))
    repeats = state.repeats.after(now_ns, values, fresh & counts[:, np.newaxis])
    sticks = repeats.stuck & counts[:, np.newaxis]
    any_sticks: MaskArray = np.any(sticks, axis=1)
    stuck, changes = judge(
        state.stuck,
        now_ns=now_ns,
        elapsed_ns=elapsed_ns(state.last_ns, now_ns),
        over=any_sticks,
        under=~any_sticks,
        seen=np.any(fresh, axis=1) & (is_feed | bare),
        holds=_HOLDS,
    )
    since_ns = np.where(sticks, repeats.since_ns, now_ns).min(axis=1)
    stuck = begun(stuck, changes, since_ns)
    return replace(
        state, last_ns=now_ns, is_feed=is_feed, is_rail=is_rail, most_w=most_w, repeats=repeats, stuck=stuck
    ), changes


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
