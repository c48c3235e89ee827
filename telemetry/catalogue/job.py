"""Signals of a job."""

from telemetry.catalogue.ranges import BY_UNIT
from telemetry.catalogue.signal import RateClass, SignalKind, Source, declare
from telemetry.entities import EntityKind

_C = SignalKind.COUNTER

_JOB = declare(
    EntityKind.JOB,
    Source.JOB,
    RateClass.SLOW,
    (
        ("steps", "", _C, 0, "Training steps that have ended."),
        ("checkpoint_step", "", _C, 0, "The step that the newest checkpoint holds."),
    ),
    ranges=BY_UNIT,
)

JOB_SIGNALS = (*_JOB,)
