"""Spans that detectors judged, from their states and from how often the rails of a table were read."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from analytics.connectivity.kinship import ByIdentity
from analytics.detectors.rail_sag import RailSagState
from analytics.detectors.sensor_lost import SensorLostState
from analytics.detectors.source_resistance import SourceResistanceState
from analytics.judged import DIPS, PATHS, JudgedSpans, places_of
from telemetry.clock import NS_PER_MS, NS_PER_S
from telemetry.entities import Entity
from telemetry.frames import Frame, MaskArray, TableSpec, TimeArray

# heuristic: a dip lasts as long as the plateau of a training step, some tenths of a second. A rail that is read less
# often than this may dip between two readings.
DIP_GAP_NS = 250 * NS_PER_MS
# heuristic: load steps identify a path once a block of two seconds, a sensor that is read once a second gives a block
# in half a minute. A window of resistance holds for a minute before and after it.
PATH_HOLDS_NS = 60 * NS_PER_S
_RAIL_SIGNAL = "voltage_v"
_LONGEST_NS = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReadingSpans:
    """Newest stretch in which each rail of a table was read without a gap, shape ``(n_rails,)``; 0 before the first."""

    spec: TableSpec
    since_ns: TimeArray
    until_ns: TimeArray

    @staticmethod
    def start(spec: TableSpec) -> "ReadingSpans":
        """Return the state before the first row of a table."""
        zeros = np.zeros(len(spec.entities), dtype=np.int64)
        return ReadingSpans(spec=spec, since_ns=zeros, until_ns=zeros)

    def after(self, frame: Frame) -> "ReadingSpans":
        """Return the spans after the rows of a frame of this table; rows that go back in time begin anew."""
        known: MaskArray = ~np.isnan(frame.signal(_RAIL_SIGNAL))
        after = self
        # No gap fits between rows so close together: they are taken at once.
        together = len(frame) if frame.time_ns[-1] - frame.time_ns[0] <= DIP_GAP_NS else 1
        for row in range(0, len(frame), together):
            rows = slice(row, row + together)
            after = after._after_rows(frame.time_ns[rows, np.newaxis], known[rows])
        return after

    def _after_rows(self, time_ns: TimeArray, known: MaskArray) -> "ReadingSpans":
        """Return the spans after rows without a gap between them, times ``(n_rows, 1)``, mask ``(n_rows, n_rails)``."""
        first_ns = np.where(known, time_ns, _LONGEST_NS).min(axis=0)
        last_ns = np.where(known, time_ns, 0).max(axis=0)
        passed_ns, read = first_ns - self.until_ns, last_ns > 0
        broken = read & ((passed_ns > DIP_GAP_NS) | (passed_ns < 0))
        return ReadingSpans(
            spec=self.spec,
            since_ns=np.where(broken, first_ns, self.since_ns),
            until_ns=np.where(read, last_ns, self.until_ns),
        )


def has_rails(spec: TableSpec) -> bool:
    """Return True if the rows of a table are readings of rails."""
    return _RAIL_SIGNAL in spec.signals


def _of_dips(state: RailSagState, entities: tuple[Entity, ...], readings: ReadingSpans) -> JudgedSpans:
    """Return the rails with a limit that were read often enough to see a dip; mains have none and are no subject."""
    places = places_of(ByIdentity(entities))
    own = [places[entity.id] for entity in readings.spec.entities]
    nominal_v, scale = state.rails.nominal_v[own], state.rails.scale[own]
    return JudgedSpans(
        detector=DIPS,
        entities=readings.spec.entities,
        subject=np.isnan(nominal_v) | np.isfinite(scale),
        since_ns=readings.since_ns,
        until_ns=np.where(np.isfinite(scale) & (readings.until_ns > 0), readings.until_ns + DIP_GAP_NS, -1),
    )


def _of_paths(state: SourceResistanceState, entities: tuple[Entity, ...]) -> JudgedSpans:
    """Return the paths that have a reference and a window of their resistance about then."""
    judged = np.isfinite(state.reference.ohm) & np.isfinite(state.reference.now_ohm)
    return JudgedSpans(
        detector=PATHS,
        entities=entities,
        subject=np.ones(len(entities), dtype=np.bool_),
        since_ns=state.reference.seen_ns - PATH_HOLDS_NS,
        until_ns=np.where(judged, state.reference.seen_ns + PATH_HOLDS_NS, -1),
    )


def _of_sensors(name: str, state: SensorLostState, entities: tuple[Entity, ...]) -> JudgedSpans:
    """Return the entities that have answered at all: the others cannot fall silent."""
    answered = state.absence.answered.any(axis=1)
    return JudgedSpans(
        detector=name,
        entities=entities,
        subject=np.ones(len(entities), dtype=np.bool_),
        since_ns=np.zeros(len(entities), dtype=np.int64),
        until_ns=np.where(answered, _LONGEST_NS, -1),
    )


def spans_of(
    name: str, state: Any, entities: tuple[Entity, ...], readings: Mapping[str, ReadingSpans]
) -> tuple[JudgedSpans, ...]:
    """Return the spans of one detector; none for a detector whose silence states nothing."""
    match state:
        case RailSagState():
            return tuple(_of_dips(state, entities, one) for one in readings.values())
        case SourceResistanceState():
            return (_of_paths(state, entities),)
        case SensorLostState():
            return (_of_sensors(name, state, entities),)
    return ()
