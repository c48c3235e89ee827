"""Input voltage: a feed that sags or is lost, seen by the meters at the inputs of the supplies.

Supplies ride through a sag by drawing more current, so that their outputs show nothing of it. All supplies of a feed
that fall together have a feed that fell; one alone has an inlet, a cable or a meter that is bad. Feeds are those of the
described wiring; without it all supplies of a node are compared. An input that is gone while its supply carries nothing
is a supply that its feed lost, whatever its other readings repeat. One that carries current has input by a second inlet
or a battery, or a meter that shows none: that is information.

Disproved by a steady voltage at the PDU or UPS of the feed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from analytics.connectivity import GroupArray, Siblings
from analytics.connectivity.kinship import ByIdentity
from analytics.detectors.columns import optional
from analytics.detectors.condition import Changes, Conditions, Holds, judge, report_worse
from analytics.detectors.input_voltage_summary import describe_loss, describe_sag
from analytics.detectors.seconds import newest, stretches
from analytics.detectors.statements import findings_from
from analytics.detectors.streaks import begun
from analytics.supply.input_fall import MAINS_V
from analytics.supply.input_voltage import (
    PLAIN_METER,
    InputLevels,
    InputMeter,
    InputReadings,
    after_second,
    forget,
    outlasts,
    shown,
    starved,
)
from physics.wiring import Wiring
from telemetry.clock import NS_PER_S
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.frames import FloatArray, Frame, MaskArray, TableSpec, filled
from telemetry.records import Cause, Finding

# heuristic: five readings of a meter that is read once a second.
_HOLDS = Holds.of_seconds(set_s=0.0, clear_s=5.0)
# heuristic: three rounds of a controller that takes ten seconds for one; what is further apart leaves a gap.
_LONGEST_S = 30
# A tenth deeper is worth an update, and so is a sag that outlasts the ITIC curve.
_BADNESS_OF_DEPTH, _BADNESS_OF_CURVE = 10.0, 2.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class InputVoltageState:
    """State between rows; `second` is the one that is open, None before the first row, `readings` are those in it."""

    second: int | None
    siblings: Siblings
    readings: InputReadings
    levels: InputLevels
    sag: Conditions
    lost: Conditions


@dataclass(frozen=True, slots=True, kw_only=True)
class InputVoltage:
    """Raises `Cause.INPUT_SAG` on supplies, and `Cause.SUPPLY_LOST` where `sees_loss`.

    `signal` is the meter's, `meter` what is known of such meters. An outlet of a PDU that shows nothing may be one that
    is switched off.
    """

    signal: str
    name: str
    sees_loss: bool
    meter: InputMeter = PLAIN_METER
    wiring: Wiring | None = None
    kind: EntityKind = EntityKind.SUPPLY

    @property
    def signals(self) -> tuple[str, ...]:
        """Required signals."""
        return (self.signal,)

    def with_wiring(self, wiring: Wiring | None) -> "InputVoltage":
        """Return the detector of a node with this wiring."""
        return replace(self, wiring=wiring)

    def start(self, spec: TableSpec) -> InputVoltageState:
        """Return the state before the first row."""
        return filled(InputVoltageState, len(spec.entities))

    def accept(self, state: InputVoltageState, accepted: MaskArray) -> InputVoltageState:
        """Reset the usual voltage of the accepted inputs."""
        return replace(state, levels=forget(state.levels, accepted))

    def step(
        self, state: InputVoltageState, frame: Frame, topology: Topology
    ) -> tuple[InputVoltageState, tuple[Finding, ...]]:
        """Judge the rows of a frame, once a second."""
        entities = frame.spec.entities
        state = replace(state, siblings=state.siblings.under(topology, entities))
        volts, fresh = frame.signal(self.signal), frame.fresh[:, :, frame.spec.signals.index(self.signal)]
        if self.meter.paired and state.second is None and not (volts > MAINS_V).any():
            return state, ()  # rails of direct current
        amps = np.fmax(optional(frame, "current_a"), optional(frame, "output_current_a"))
        factor = _factor(frame) if self.meter.paired else np.broadcast_to(np.nan, volts.shape)
        findings: list[Finding] = []
        for second, rows, ended_ns in stretches(frame.time_ns, state.second):
            if ended_ns is not None and state.second is not None:
                state, found = self._judged(state, ended_ns, _passed_s(state.second, second), entities)
                findings.extend(found)
                state = replace(state, readings=InputReadings.start(len(entities)))
            readings = _with_rows(state.readings, volts[rows], fresh[rows], amps[rows])
            readings = replace(readings, factor=newest(readings.factor, factor[rows]))
            state = replace(state, second=second, readings=readings)
        return state, tuple(findings)

    def _judged(
        self, state: InputVoltageState, now_ns: int, seconds: int, entities: tuple[Entity, ...]
    ) -> tuple[InputVoltageState, tuple[Finding, ...]]:
        """Judge the second that ended; costs a comparison where no input is low, or was."""
        levels = after_second(state.levels, now_ns, state.readings, passed_s=seconds, meter=self.meter)
        state = replace(state, levels=levels)
        if not (levels.low.any() or state.sag.busy or state.lost.busy):
            return state, ()
        groups = _feeds(ByIdentity(self.wiring), ByIdentity(entities), ByIdentity(state.siblings.groups))
        known = np.isfinite(state.readings.voltage_v)
        low = shown(levels, groups)
        without = starved(levels)
        off = low & without.off & self.sees_loss
        state, sag = self._sag(state, now_ns, seconds, low & ~off & ~without.undecided & known)
        lost, gone = judge(
            state.lost, now_ns=now_ns, elapsed_ns=seconds * NS_PER_S, over=off & known, under=~levels.low, seen=known,
            holds=_HOLDS,
        )  # fmt: skip
        state = replace(state, lost=begun(lost, gone, levels.since_ns))
        return state, (
            *self._found(state, Cause.INPUT_SAG, sag, now_ns, entities=entities, groups=groups),
            *self._found(state, Cause.SUPPLY_LOST, gone, now_ns, entities=entities, groups=groups),
        )

    def _sag(
        self, state: InputVoltageState, now_ns: int, seconds: int, over: MaskArray
    ) -> tuple[InputVoltageState, Changes]:
        levels = state.levels
        sag, changes = judge(
            state.sag, now_ns=now_ns, elapsed_ns=seconds * NS_PER_S, over=over, under=~levels.low,
            seen=np.isfinite(state.readings.voltage_v), holds=_HOLDS,
        )  # fmt: skip
        sag = begun(sag, changes, levels.since_ns)
        badness = _BADNESS_OF_DEPTH * (1.0 - levels.ratio) + _BADNESS_OF_CURVE * _outlasts(levels)
        sag, changes = report_worse(sag, changes, now_ns=now_ns, over=over, badness=np.nan_to_num(badness))
        return replace(state, sag=sag), changes

    def _found(
        self,
        state: InputVoltageState,
        cause: Cause,
        changes: Changes,
        now_ns: int,
        *,
        entities: tuple[Entity, ...],
        groups: GroupArray,
    ) -> tuple[Finding, ...]:
        if not changes.some:
            return ()
        sags = cause is Cause.INPUT_SAG
        known = np.isfinite(state.levels.usual_v)
        describe = (
            describe_sag(state.levels, known, entities, groups, dip_ratio=self.meter.dip_ratio)
            if sags
            else describe_loss(state.levels, known, entities, groups)
        )
        name, conditions = (self.name, state.sag) if sags else (f"{self.name}.{cause.value}", state.lost)
        return findings_from(name, cause, entities, conditions, changes, now_ns=now_ns, describe=describe)


def _passed_s(before: int, after: int) -> int:
    """Return the seconds from one to the other, 0 across a gap or where the clock was set back."""
    return after - before if 0 < after - before <= _LONGEST_S else 0


def _with_rows(readings: InputReadings, volts: FloatArray, fresh: MaskArray, amps: FloatArray) -> InputReadings:
    return replace(
        readings,
        voltage_v=newest(readings.voltage_v, volts),
        is_new=readings.is_new | fresh.any(axis=0),
        current_a=np.fmax(readings.current_a, np.fmax.reduce(amps, axis=0)),
    )


def _factor(frame: Frame) -> FloatArray:
    """Return the power over voltage times current of every row, NaN where one of them is nothing or unknown."""
    product_w = frame.signal("voltage_v") * optional(frame, "current_a")
    return optional(frame, "power_w") / np.where(product_w > 0.0, product_w, np.nan)


def _outlasts(levels: InputLevels) -> MaskArray:
    """Return a mask of inputs that have been low for longer than the ITIC curve is ridden through."""
    pairs = zip(levels.ratio.tolist(), levels.lasted_s.tolist(), strict=True)
    return np.array([outlasts(ratio, lasted_s) for ratio, lasted_s in pairs], dtype=np.bool_)


@lru_cache(maxsize=16)
def _feeds(
    wiring: ByIdentity[Wiring | None], entities: ByIdentity[Sequence[Entity]], siblings: ByIdentity[GroupArray]
) -> GroupArray:
    """Return a number for each supply, the same for those of one node that draw from one feed."""
    wired = [None if wiring.it is None else wiring.it.supply_of(entity) for entity in entities.it]
    feeds = ["" if one is None else one.feed for one in wired]
    numbers: dict[tuple[int, str], int] = {}
    pairs = zip(siblings.it.tolist(), feeds, strict=True)
    return np.array([numbers.setdefault(pair, len(numbers)) for pair in pairs], dtype=np.intp)
