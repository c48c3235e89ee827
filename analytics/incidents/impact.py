"""What an incident is expected to cost if nothing is done: an estimate, for ranking and not for accounting.

impact = GPUs at or below the root x (restart + lost work) x probability that they lose their job.
"""

from telemetry.records import Cause, Severity

# Restart of a large training job: 5 to 20 min, upper end (Meta RSC clusters, HPCA'25, arXiv 2410.21680).
RESTART_H = 20 / 60
# Assumption: a checkpoint every 30 min, so 15 min of work are lost on average.
LOST_WORK_H = 15 / 60
# Assumption, one figure per severity until outcomes are there to fit it. A lost GPU has cost its job already.
LOSS_PROBABILITY = {Severity.INFO: 0.001, Severity.WARNING: 0.1, Severity.CRITICAL: 0.5}


def impact_gpu_hours(*, n_gpus: int, cause: Cause, severity: Severity) -> float:
    """Give the expected loss in GPU-hours."""
    probability = 1.0 if cause is Cause.GPU_LOST else LOSS_PROBABILITY[severity]
    return n_gpus * (RESTART_H + LOST_WORK_H) * probability
