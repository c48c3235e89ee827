"""Rows of the table of signs, and the weights and reasons that many rows share."""

from dataclasses import dataclass

from analytics.classification.sign import Sign
from telemetry.records import FaultClass

# heuristic: a symptom that five classes share tells half of what its number says; a telling of somebody else, whose
# clock and wording are not ours, four fifths.
SYMPTOM, REPORTED, FINGERPRINT = 0.5, 0.8, 1.0
RARE = "assumption: by chance within the same minutes"
BY_DEFINITION = "the detector's own rule, less what its gates refuse (assumption: 5 to 10 %)"
SOMETIMES = "assumption: it may, and mostly does not"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Row of one sign: its weight, and its probability under each class with the reason.

    Signs that come together for one reason must not count as if each were news, so symptoms weigh less than
    fingerprints.
    """

    sign: Sign
    weight: float
    otherwise: tuple[float, str]
    given: tuple[tuple[FaultClass, float, str], ...]
