"""Expected cost of an incident if nothing is done: an estimate, for ranking and not for accounting.

impact = GPUs that lose their work x (restart + lost work) x probability that they lose it.
"""

from collections.abc import Sequence

from telemetry.records import Cause, FaultClass, Hypothesis, Severity

# Restart of a large training job: 5 to 20 min, upper end (Meta RSC clusters, HPCA'25, arXiv 2410.21680).
RESTART_H = 20 / 60
# Assumption: a checkpoint every 30 min, so 15 min of work are lost on average, where nobody tells its age.
LOST_WORK_H = 15 / 60
# Assumption, one figure per severity until outcomes are there to fit it. A lost GPU has cost its job already, and so
# has one that hangs.
LOSS_PROBABILITY = {Severity.INFO: 0.001, Severity.WARNING: 0.1, Severity.CRITICAL: 0.5}
_LOST_ALREADY = frozenset({Cause.GPU_LOST, Cause.HANG})
# These take nothing from a job: what is wrong is what measures it.
_HARMLESS = frozenset({FaultClass.SENSOR_FAULT, FaultClass.EXPORTER_FAULT})
# From these probabilities of a loss on, an incident is at least a warning, and critical. Heuristic: bands of a tenth
# of a per cent, and of more than ten per cent.
_WARNING_ABOVE, _CRITICAL_ABOVE = 0.001, 0.1
# From so many expected GPU-hours on a person is worth waking, and worth a ticket. Heuristic: a node of eight GPUs for
# an hour, one GPU for half an hour.
_PAGE_GPU_HOURS, _TICKET_GPU_HOURS = 8.0, 0.5


def loss_probability(*, cause: Cause, severity: Severity, hypotheses: Sequence[Hypothesis] = ()) -> float:
    """Return the probability that a job loses its work for it within a day.

    What is likelier a fault of sensors than of what they measure threatens no job by that share.
    """
    if cause in _LOST_ALREADY:
        return 1.0
    harmless = sum(one.probability for one in hypotheses if one.cause in _HARMLESS)
    return LOSS_PROBABILITY[severity] * (1.0 - harmless if harmless > 0.5 else 1.0)


def severity_of(probability: float) -> Severity:
    """Return the least severity that goes with a probability of loss."""
    if probability > _CRITICAL_ABOVE:
        return Severity.CRITICAL
    return Severity.WARNING if probability > _WARNING_ABOVE else Severity.INFO


def at_stake_gpu_hours(*, n_gpus: int, checkpoint_age_s: float | None = None) -> float:
    """Return what is lost if it comes to it: the restart, and the work since the last checkpoint."""
    lost_h = LOST_WORK_H if checkpoint_age_s is None else checkpoint_age_s / 3600
    return n_gpus * (RESTART_H + lost_h)


def urgency(impact_gpu_hours: float) -> str:
    """Return what an expected loss is worth: a page, a ticket, or a place in the record."""
    if impact_gpu_hours > _PAGE_GPU_HOURS:
        return "page"
    return "ticket" if impact_gpu_hours > _TICKET_GPU_HOURS else "record"
