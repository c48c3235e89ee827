"""Events of one node of a fleet, in the form of a plant's events."""

import numpy as np

from simulator.fleet.losses import Drop, DropCause
from simulator.fleet.schedule import TIMEOUT_S
from simulator.fleet.stretch import FleetStretch
from simulator.plant.bus import XID_DELAY_S
from simulator.plant.events import PlantEvent, PlantEventKind
from telemetry.frames import MaskArray
from telemetry.gpu import XID_FALLEN_OFF_THE_BUS

_XID_AFTER_S = 0.5 * sum(XID_DELAY_S)  # mean of the delay that the millisecond tier draws


class FleetEvents:
    """Converter of the stretches of a run, one after the other, into events.

    Changes are reported at the beginning of the step that shows them first, drops and held jobs at their own time. A
    step reports no errors of links, no reload of the driver and no second Xid.

    Parameters
    ----------
    node
        Its index in the fleet.
    """

    def __init__(self, node: int = 0) -> None:
        self._node = node
        self._job: int | None = None
        self._on: MaskArray = np.empty(0, dtype=np.bool_)
        self._stopped_s = np.nan
        self._died = False

    def of(self, stretch: FleetStretch, *, step_s: float) -> tuple[PlantEvent, ...]:
        """Return the events of a stretch in the order of time."""
        events = [event for drop in stretch.drops if drop.node == self._node for event in _loss(drop)]
        truth = stretch.truth
        for step, time_s in enumerate(stretch.time_s):
            events += self._jobs(float(time_s), int(truth.job[step, self._node]))
            events += self._supplies(float(time_s), truth.supply_on[step, self._node])
            events += self._stops(float(time_s) + step_s, float(truth.stopped_s[step, self._node]))
        return tuple(sorted(events, key=lambda event: event.time_ms))

    def _jobs(self, time_s: float, job: int) -> list[PlantEvent]:
        started = self._job is not None and job != self._job
        self._job = job
        return [_event(time_s, PlantEventKind.JOB_STARTED)] if started else []

    def _supplies(self, time_s: float, on: MaskArray) -> list[PlantEvent]:
        before = self._on if len(self._on) else np.ones_like(on)
        self._on = on.copy()
        events = [
            _event(time_s, PlantEventKind.SUPPLY_ON if on[unit] else PlantEventKind.SUPPLY_OFF, supply=int(unit))
            for unit in np.flatnonzero(on != before)
        ]
        if on.any() != before.any():
            events.append(_event(time_s, PlantEventKind.POWER_ON if on.any() else PlantEventKind.POWER_OFF))
        return events

    def _stops(self, end_s: float, stopped_s: float) -> list[PlantEvent]:
        events = []
        if np.isnan(stopped_s) or stopped_s != self._stopped_s:
            self._died = False
            if not np.isnan(stopped_s):
                events.append(_event(stopped_s, PlantEventKind.JOB_HUNG))
        self._stopped_s = stopped_s
        if not self._died and end_s > stopped_s + TIMEOUT_S:  # never for NaN
            self._died = True
            events.append(_event(stopped_s + TIMEOUT_S, PlantEventKind.JOB_DIED))
        return events


def _loss(drop: Drop) -> list[PlantEvent]:
    hot = [_event(drop.time_s, PlantEventKind.GPU_SHUTDOWN, gpu=drop.gpu)] if drop.cause is DropCause.HEAT else []
    return [
        *hot,
        _event(drop.time_s, PlantEventKind.GPU_LOST, gpu=drop.gpu),
        _event(drop.time_s + _XID_AFTER_S, PlantEventKind.XID, gpu=drop.gpu, code=XID_FALLEN_OFF_THE_BUS),
    ]


def _event(time_s: float, kind: PlantEventKind, **about: int) -> PlantEvent:
    return PlantEvent(time_ms=round(1000.0 * time_s), kind=kind, **about)
