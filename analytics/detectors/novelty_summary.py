"""Summaries and evidence of the `novelty` detector."""

from dataclasses import dataclass

import numpy as np

from analytics.detectors.limits import NoveltyLimits
from analytics.detectors.statements import Statement, evidence
from analytics.novelty.features import FEATURE_SIGNALS
from telemetry.entities import Entity
from telemetry.frames import FloatArray
from telemetry.quantities import duration, quantity
from telemetry.records import FindingStatus, Severity


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LastWindow:
    """The last judged window ``(n_gpus, n_senses)``: values, what is usual in steps, and parts of the distance."""

    values: FloatArray
    usual: FloatArray
    shares: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalDeviation:
    """GPU and its deviation from the learnt behaviour."""

    entity: Entity
    status: FindingStatus
    is_explained: bool
    is_settled: bool
    is_alone: bool
    seconds: float
    far: float
    threshold: float


def _why(subject: SignalDeviation) -> str:
    if subject.is_explained:
        return "something else accounts for it"
    if subject.is_settled:
        return f"learnt as usual after {duration(subject.seconds)}"
    return "behaves as learnt again"


def describe(
    subject: SignalDeviation, senses: tuple[str, ...], sensed: LastWindow, index: int, limits: NoveltyLimits
) -> Statement:
    """Return the statement on one GPU, with the signal that deviates most."""
    shares = np.where(np.isfinite(sensed.shares[index]), sensed.shares[index], -np.inf)
    place = int(np.argmax(shares))
    sense = FEATURE_SIGNALS[senses[place]]
    value, usual = float(sensed.values[index, place]), sense.value(float(sensed.usual[index, place]))
    name = subject.entity.label
    if subject.status is FindingStatus.CLEARED:
        why = _why(subject)
        summary = f"{name} no longer unusual: {why}"
    else:
        unit = sense.unit or "ratio"
        doubt = "; or a new kind of job" if subject.is_alone else ""
        summary = (
            f"{name} unusual: {sense.label} {quantity(value, unit)}, usually {quantity(usual, unit)} "
            f"({subject.far:.1f} deviations){doubt}"
        )
    return Statement(
        severity=Severity.INFO,
        # heuristic: twice the threshold is the upper end of the score.
        score=subject.far / (2.0 * subject.threshold) if subject.far > 0 else 0.0,
        summary=summary,
        evidence=evidence(
            ("distance", subject.far, "deviations"),
            ("limit", subject.threshold, "deviations"),
            (f"{sense.signal}", value, sense.unit or "ratio"),
            (f"usual_{sense.signal}", usual, sense.unit or "ratio"),
            ("window_s", limits.window_s, "s"),
            ("seconds", subject.seconds, "s"),
        ),
    )
