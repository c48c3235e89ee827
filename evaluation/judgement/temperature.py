"""The temperature that makes the probabilities of answers right: above the one in force they said too much."""

import math
from collections.abc import Sequence

import numpy as np

from evaluation.measures import NOTHING, Measured

# Each hypothesis of one incident, the likeliest first: its probability, and whether it names what was wrong.
Answer = Sequence[tuple[float, bool]]

# heuristic: four times bolder to four times as cautious, in steps of 3 %.
_GRID = np.exp(np.linspace(-math.log(4.0), math.log(4.0), 95))
# What is not told has at most this, see `analytics.classification.score`.
_UNTOLD = 0.01


def fitted_temperature(answers: Sequence[Answer]) -> Measured:
    """Return the temperature of least log loss, as a multiple of the one in force; nothing without any answer.

    Where every answer was right the loss falls for ever with the temperature. So one more answer is assumed in which
    the second hypothesis was right, as the rule of succession does (Laplace 1814): n right ones of n prove n + 1 of
    n + 2, and no more.
    """
    if not answers:
        return NOTHING
    losses = [sum(_loss(one, float(times)) for one in answers) + _surprise(answers, float(times)) for times in _GRID]
    return Measured(value=float(_GRID[int(np.argmin(losses))]))


def _surprise(answers: Sequence[Answer], times: float) -> float:
    """Return the mean loss if the second hypothesis had been right."""
    turned = [[(probability, place == 1) for place, (probability, _) in enumerate(one)] for one in answers]
    return sum(_loss(one, times) for one in turned) / len(answers)


def _loss(answer: Answer, times: float) -> float:
    raised = [probability ** (1.0 / times) for probability, _ in answer]
    untold = _UNTOLD ** (1.0 / times)
    right = sum(power for power, (_, names) in zip(raised, answer, strict=True) if names)
    return -math.log((right or untold) / (sum(raised) + untold))
