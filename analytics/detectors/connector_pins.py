"""Pins of a GPU's power connector: a contact that ages or opens, a pin over its rating, a monitor that shows nothing.

Readings are summed as they come and judged in blocks of 2 s: currents against the rating, shares and voltages against
the fingerprint that the connector showed first (`analytics.pins.levels`). Readings of zeros and readings that repeat
are refused, and reported once they last. Without load nothing is judged, and what was found stays.

Disproved by a card that shifts its load from pin to pin by design, as one with a converter for each pin could.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from analytics.detectors.condition import Changes, Conditions, Holds, judge, report_worse
from analytics.detectors.connector_pins_summary import PinScene, describe_contact, describe_meter, describe_rating
from analytics.detectors.pin_limits import ConnectorPinsLimits
from analytics.detectors.seconds import passed_s, running_sum, stretches
from analytics.detectors.statements import Statement, findings_from
from analytics.detectors.streaks import begun
from analytics.pins.comparison import PinComparison, open_pins
from analytics.pins.levels import KEEP, LEVELS_A, LIGHT, NOISE_A, Fingerprint, LevelSums
from analytics.pins.quiet import QuietTime
from analytics.pins.rows import PinRows
from telemetry.catalogue.pins import PIN_COUNT, PINS
from telemetry.clock import NS_PER_S
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.frames import FloatArray, Frame, FromZero, MaskArray, TableSpec, filled
from telemetry.records import Cause, Finding, FindingStatus

# Intel 336521, table 3-5, limits the mean over 1 s; a monitor that is read once a second gives two readings.
BLOCK_S = 2
_BADNESS_OF_STATE = 100.0  # a pin that opens, or that exceeds the rating of its contact, is worth an update at once
_BADNESS_OF_LOAD = 10.0  # and so is a tenth more of a limit
_CLEAR_RATIO = 0.95  # as `supply_margins.clear_ratio`


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PinBlock:
    """Sums of the good readings of the open block: their number, volts and amperes ``(n_gpus, 12)``, and by level."""

    readings: FromZero
    values: Annotated[FloatArray, 0.0, len(PINS)]
    levels: LevelSums

    def add(self, rows: PinRows) -> "PinBlock":
        """Add the good readings of rows, one by one."""
        new = np.flatnonzero(rows.good.any(axis=1))
        if not new.size:
            return self
        rows = rows.part(new)
        good = rows.good[:, :, np.newaxis]
        return PinBlock(
            readings=running_sum(self.readings, rows.good.astype(np.float64)),
            values=running_sum(self.values, np.where(good, rows.values, 0.0)),
            levels=self.levels.add(rows),
        )

    @property
    def means(self) -> FloatArray:
        """Mean volts and amperes, ``(n_gpus, 12)``; NaN where nothing was read."""
        readings = self.readings[:, np.newaxis]
        return np.where(readings > 0, self.values / np.maximum(readings, 1.0), np.nan)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ConnectorPinsState:
    """State between rows.

    `block_number` is that of the open block, None before the first row. `usual` is the fingerprint, `recent` what the
    pins showed of late.
    """

    block_number: int | None
    quiet: QuietTime
    block: PinBlock
    usual: Fingerprint
    recent: LevelSums
    contact: Conditions
    rating: Conditions
    meter: Conditions


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorPins:
    """Raises `Cause.JOINT_AGEING`, `Cause.PLUG_OVER_RATING` and `Cause.SENSOR_FAULT` on GPUs whose pins are measured.

    One finding of each cause for a connector; it names the worst pin.
    """

    limits: ConnectorPinsLimits
    name: str = "connector_pins"
    kind: EntityKind = EntityKind.GPU
    signals: tuple[str, ...] = PINS

    def start(self, spec: TableSpec) -> ConnectorPinsState:
        """Return the state before the first row."""
        return filled(ConnectorPinsState, len(spec.entities))

    def accept(self, state: ConnectorPinsState, accepted: MaskArray) -> ConnectorPinsState:
        """Reset the fingerprint of the accepted GPUs."""
        usual, recent = state.usual.forget(accepted), state.recent.forget(accepted)
        return replace(state, usual=usual, recent=recent)

    def step(
        self, state: ConnectorPinsState, frame: Frame, topology: Topology
    ) -> tuple[ConnectorPinsState, tuple[Finding, ...]]:
        """Sum the rows of a frame; judge where a block ends."""
        del topology
        if not len(frame):
            return state, ()
        rows = PinRows.of(frame)
        findings: list[Finding] = []
        for number, part, ended_ns in stretches(frame.time_ns, state.block_number, every_s=BLOCK_S):
            if ended_ns is not None:
                state, found = self._block_ended(state, number, ended_ns, frame.spec.entities)
                findings.extend(found)
            own = rows.part(part)
            learns = ~state.meter.active
            state = replace(
                state, block_number=number, quiet=state.quiet.after(own, learns=learns), block=state.block.add(own)
            )
        return state, tuple(findings)

    def _block_ended(
        self, state: ConnectorPinsState, number: int, now_ns: int, entities: tuple[Entity, ...]
    ) -> tuple[ConnectorPinsState, list[Finding]]:
        passed_ns = passed_s(state.block_number or 0, number, every_s=BLOCK_S) * NS_PER_S
        if passed_ns == 0:
            began = filled(PinBlock, len(entities))
            return replace(state, block=began, quiet=state.quiet.restarted(now_ns)), []
        means = state.block.means
        stuck = self._stuck(state.quiet, now_ns)
        levels = state.block.levels
        opened = open_pins(means[:, PIN_COUNT:], self.limits)
        usual = state.usual.learn(levels, ~stuck & ~opened.any(axis=1))
        new = ((levels.readings > 0.0) & ~stuck[:, np.newaxis]).astype(np.float64)
        recent = state.recent.plus(levels, keep=KEEP, where=new)
        refused = state.quiet.refused + np.where(stuck, state.block.readings, 0.0)
        quiet = replace(state.quiet, refused=refused)
        scene = PinScene(
            means=means,
            opened=opened,
            levels=levels.readings > 0.0,
            compared=PinComparison.of(recent, usual, self.limits),
            quiet=quiet,
        )
        state = replace(state, quiet=quiet, block=filled(PinBlock, len(entities)), usual=usual, recent=recent)
        return self._judged(state, scene, stuck, passed_ns=passed_ns, now_ns=now_ns, entities=entities)

    def _stuck(self, quiet: QuietTime, now_ns: int) -> MaskArray:
        """Return which connectors have repeated their readings for too long; that takes longer at a low load."""
        limits, total_a = self.limits, quiet.last[:, PIN_COUNT:].sum(axis=1)
        least_s = np.where(total_a >= NOISE_A, limits.stuck_s, limits.idle_stuck_s)
        return np.asarray(quiet.quiet_s(now_ns) >= np.maximum(least_s, limits.longer * quiet.longest_s))

    def _judged(
        self,
        state: ConnectorPinsState,
        scene: PinScene,
        stuck: MaskArray,
        *,
        passed_ns: int,
        now_ns: int,
        entities: tuple[Entity, ...],
    ) -> tuple[ConnectorPinsState, list[Finding]]:
        contact, contact_changes = self._contact(state.contact, scene, stuck, passed_ns=passed_ns, now_ns=now_ns)
        rating, rating_changes = self._rating(state.rating, scene, stuck, passed_ns=passed_ns, now_ns=now_ns)
        meter, meter_changes = self._meter(state.meter, scene, stuck, passed_ns=passed_ns, now_ns=now_ns)
        reports: tuple[tuple[Cause, Conditions, Changes, Callable[..., Statement]], ...] = (
            (Cause.JOINT_AGEING, contact, contact_changes, describe_contact),
            (Cause.PLUG_OVER_RATING, rating, rating_changes, describe_rating),
            (Cause.SENSOR_FAULT, meter, meter_changes, describe_meter),
        )
        findings: list[Finding] = []
        for cause, conditions, changes, describe in reports:
            if not changes.some:
                continue

            def stated(index: int, status: FindingStatus, describe: Callable[..., Statement] = describe) -> Statement:
                return describe(scene, self.limits, entities[index].label, index, status, now_ns=now_ns)

            name = f"{self.name}.{cause.value}"
            findings += findings_from(name, cause, entities, conditions, changes, now_ns=now_ns, describe=stated)
        return replace(state, contact=contact, rating=rating, meter=meter), findings

    def _contact(
        self, held: Conditions, scene: PinScene, stuck: MaskArray, *, passed_ns: int, now_ns: int
    ) -> tuple[Conditions, Changes]:
        """Advance the condition that a contact is open, ages, or is unlike the others."""
        limits, opened = self.limits, scene.opened.any(axis=1) & ~stuck
        loaded = (scene.total_a >= LEVELS_A[LIGHT]) & ~stuck
        over = opened | (loaded & (scene.worst_now > 1.0)) | (loaded & scene.unequal_now(limits))
        # A contact that shows at a full load only is not mended once the load is light.
        under = loaded & ~over & (scene.compared.worst() <= limits.clear_ratio)
        held, changes = judge(
            held,
            now_ns=now_ns,
            elapsed_ns=passed_ns,
            over=over,
            under=under,
            seen=loaded | opened,
            holds=Holds.of_seconds(set_s=limits.hold_s, clear_s=limits.clear_after_s),
        )
        badness = np.where(opened, _BADNESS_OF_STATE, np.maximum(scene.worst_now, 0.0))
        return report_worse(held, changes, now_ns=now_ns, over=over, badness=badness)

    def _rating(
        self, held: Conditions, scene: PinScene, stuck: MaskArray, *, passed_ns: int, now_ns: int
    ) -> tuple[Conditions, Changes]:
        """Advance the condition that a pin carries more than it may."""
        limits, most_a = self.limits, scene.most_a
        with np.errstate(invalid="ignore"):
            over = (most_a > limits.limit_a) & ~stuck
            under = most_a < _CLEAR_RATIO * limits.limit_a
            critical = most_a > limits.critical_a
        held, changes = judge(
            held,
            now_ns=now_ns,
            elapsed_ns=passed_ns,
            over=over,
            under=under,
            seen=np.isfinite(most_a) & ~stuck,
            holds=Holds.of_seconds(set_s=limits.hold_s, clear_s=limits.rating_clear_after_s),
        )
        badness = np.where(critical, _BADNESS_OF_STATE, 0.0) + _BADNESS_OF_LOAD * np.nan_to_num(most_a) / limits.limit_a
        return report_worse(held, changes, now_ns=now_ns, over=over, badness=badness)

    def _meter(
        self, held: Conditions, scene: PinScene, stuck: MaskArray, *, passed_ns: int, now_ns: int
    ) -> tuple[Conditions, Changes]:
        """Advance the condition that the monitor shows nothing of the pins."""
        over = stuck | (scene.quiet.empty_s(now_ns) >= self.limits.empty_s)
        seen = np.asarray(np.isfinite(scene.quiet.last).all(axis=1))
        held, changes = judge(
            held,
            now_ns=now_ns,
            elapsed_ns=passed_ns,
            over=over & seen,
            under=seen & ~over,
            seen=seen,
            holds=Holds.of_seconds(set_s=0.0, clear_s=self.limits.hold_s),
        )
        return begun(held, changes, scene.quiet.since_ns(now_ns)), changes
