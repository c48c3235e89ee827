"""What the novelty detector says of one GPU, with the numbers that say so."""

from dataclasses import dataclass, replace

import numpy as np

from analytics.detectors.novelty_limits import NoveltyLimits
from analytics.detectors.statements import Statement, evidence
from analytics.novelty.features import SENSES
from telemetry.entities import Entity
from telemetry.frames import FloatArray, MaskArray
from telemetry.records import FindingStatus, Severity


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LastWindow:
    """The last judged window ``(n_gpus, n_senses)``: values, what is usual in steps, and parts of the distance."""

    values: FloatArray
    usual: FloatArray
    shares: FloatArray

    @staticmethod
    def nothing(n_gpus: int, n_senses: int) -> "LastWindow":
        """Return what holds before the first window."""
        unknown = np.full((n_gpus, n_senses), np.nan)
        return LastWindow(values=unknown, usual=unknown, shares=unknown)

    def renewed(self, values: FloatArray, usual: FloatArray, shares: FloatArray, *, where: MaskArray) -> "LastWindow":
        """Return the newest window of the GPUs marked."""
        there = where[:, np.newaxis]
        return replace(
            self,
            values=np.where(there, values, self.values),
            usual=np.where(there, usual, self.usual),
            shares=np.where(there, shares, self.shares),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """One GPU as it is told of."""

    entity: Entity
    status: FindingStatus
    is_explained: bool
    is_alone: bool
    seconds: float
    far: float
    threshold: float


def describe(
    subject: Subject, senses: tuple[str, ...], sensed: LastWindow, index: int, limits: NoveltyLimits
) -> Statement:
    """Word one finding: by which signal the most, against what is usual."""
    shares = np.where(np.isfinite(sensed.shares[index]), sensed.shares[index], -np.inf)
    place = int(np.argmax(shares))
    sense = SENSES[senses[place]]
    value, usual = float(sensed.values[index, place]), sense.value(float(sensed.usual[index, place]))
    name = subject.entity.name
    if subject.status is FindingStatus.CLEARED:
        why = "something else accounts for it" if subject.is_explained else "all is as it was learnt"
        summary = f"{name} is told of as new no longer: {why}"
    else:
        against = "for its load" if subject.is_alone else "beside its siblings"
        doubt = "; a new kind of job looks the same" if subject.is_alone else ""
        unit = f" {sense.unit}" if sense.unit else ""
        summary = (
            f"{name} behaves as it never did while it was learnt, and nothing else says why: {sense.words} {value:.4g}"
            f"{unit} where {usual:.4g}{unit} is usual {against}; {subject.far:.1f} deviations off, limit "
            f"{subject.threshold:.1f}{doubt}"
        )
    return Statement(
        severity=Severity.INFO,
        # Twice the distance at which it is told is the far end of the score. Heuristic.
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
