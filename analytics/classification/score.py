"""From signs to ranked hypotheses.

score(c) = ln prior(c) + sum of w (ln P(e | c) - ln P(e | not c)) + precedence - contradiction, and a softmax over the
classes with a temperature. P(e | not c) is the mean over the other classes, weighted by their priors. What could not
see adds nothing.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from analytics.classification.answers import FAULT_CLASS_GUIDES
from analytics.classification.classes import CONTRADICTIONS, PRIORS
from analytics.classification.sign import Observation, SignRow
from analytics.classification.table import ROWS
from telemetry.records import FaultClass, Hypothesis

# Below this a hypothesis is not reported; the others keep their proportions. heuristic
_LEAST_PROBABILITY = 0.01
# Only what moves the odds by a tenth is worth a line. heuristic
_LEAST_GAIN = 0.1
_LOG_PRIORS = {cause: math.log(prior) for cause, prior in PRIORS.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """Parameters of the score outside the table.

    Parameters
    ----------
    temperature
        Above 1 flattens the probabilities, below 1 sharpens them. Fitted by log loss to the answers about faults of
        machines of another hand (`evaluate domain`, odd seeds, 63 answers, 97 % right at a stated 90 %): least at 0.89.
    precedence
        Bonus for the classes whose evidence came first, in natural logarithms. Heuristic: odds of 1.6.
    contradiction
        Penalty for each sign that does not go with a class. Heuristic: odds of 1 to 7.
    """

    temperature: float = 0.89
    precedence: float = 0.5
    contradiction: float = 2.0

    def __post_init__(self) -> None:
        """Refuse what is no temperature."""
        if not self.temperature > 0:
            raise ValueError("temperature above 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Contribution:
    """Contribution of one sign to the score of one class, in natural logarithms, with its text."""

    gain: float
    text: str


DEFAULT_WEIGHTS = Weights()
Extras = dict[FaultClass, list[Contribution]]


def classify(observed: Sequence[Observation], weights: Weights = DEFAULT_WEIGHTS) -> tuple[Hypothesis, ...]:
    """Return the hypotheses, likeliest first; their probabilities add up to 1. Without any sign that is the priors."""
    extras = _extras(observed, weights)
    shares = _softmax(_scores(observed, extras), weights.temperature)
    reported = {cause: share for cause, share in shares.items() if share >= _LEAST_PROBABILITY}
    total = sum(reported.values())
    ranked = []
    for cause in sorted(reported, key=lambda one: -reported[one]):  # equals keep the order of the table
        plain = [Contribution(gain=GAINS[one.present][one.sign][cause], text=one.text) for one in observed]
        parts = [*plain, *extras.get(cause, ())]
        ranked.append(
            Hypothesis(
                cause=cause,
                probability=reported[cause] / total,
                for_=_lines(part for part in parts if part.gain >= _LEAST_GAIN),
                against=_lines(part for part in parts if part.gain <= -_LEAST_GAIN),
                would_disprove=FAULT_CLASS_GUIDES[cause].would_disprove,
            )
        )
    return tuple(ranked)


def _scores(observed: Sequence[Observation], extras: Extras) -> dict[FaultClass, float]:
    """Return the score of every class: the logarithm of its weight before all are made to add up to 1."""
    tables = [GAINS[one.present][one.sign] for one in observed]
    return {
        cause: log_prior + sum([table[cause] for table in tables]) + sum([part.gain for part in extras.get(cause, ())])
        for cause, log_prior in _LOG_PRIORS.items()
    }


def _softmax(scores: dict[FaultClass, float], temperature: float) -> dict[FaultClass, float]:
    most = max(scores.values())
    raised = {cause: math.exp((score - most) / temperature) for cause, score in scores.items()}
    total = sum(raised.values())
    return {cause: value / total for cause, value in raised.items()}


def _extras(observed: Sequence[Observation], weights: Weights) -> Extras:
    """Return what the order of the signs and their contradictions add, by class."""
    found: Extras = {}
    there = [one for one in observed if one.present]
    if len(there) > 1:
        first_ns = min(one.since_ns for one in there)
        first = [one.sign for one in there if one.since_ns == first_ns]
        for cause in dict.fromkeys(owner for sign in first if (owner := OWNERS[sign]) is not None):
            found.setdefault(cause, []).append(Contribution(gain=weights.precedence, text="its evidence came first"))
    seen = {(one.sign, one.present) for one in observed}
    for clash in CONTRADICTIONS:
        if (clash.sign, clash.present) in seen:
            for cause in clash.against:
                text = f"contradiction: {clash.why}"
                found.setdefault(cause, []).append(Contribution(gain=-weights.contradiction, text=text))
    return found


def _likelihoods(row: SignRow) -> dict[FaultClass, float]:
    return dict.fromkeys(PRIORS, row.otherwise[0]) | {cause: value for cause, value, _ in row.given}


def _owner(row: SignRow) -> FaultClass | None:
    first, second = sorted(_likelihoods(row).items(), key=lambda one: -one[1])[:2]
    return first[0] if first[1] > second[1] and first[0] is not FaultClass.UNKNOWN else None


def _gains(row: SignRow, *, present: bool) -> dict[FaultClass, float]:
    given = _likelihoods(row)
    gains = {}
    for cause, own in given.items():
        others = sum(PRIORS[other] * given[other] for other in PRIORS if other is not cause) / (1.0 - PRIORS[cause])
        odds = math.log(own) - math.log(others) if present else math.log1p(-own) - math.log1p(-others)
        gains[cause] = row.weight * odds
    return gains


# The class that each sign is evidence for, more than for any other.
OWNERS = {row.sign: _owner(row) for row in ROWS}
# What a sign adds to the score of a class, by whether it is present.
GAINS = {present: {row.sign: _gains(row, present=present) for row in ROWS} for present in (False, True)}


def _lines(parts: Iterable[Contribution]) -> tuple[str, ...]:
    ordered = sorted(parts, key=lambda part: -abs(part.gain))
    return tuple(f"{part.text} ({part.gain:+.1f})" for part in ordered)
