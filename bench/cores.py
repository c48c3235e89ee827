"""Placement of processes: the subject has a core of its own, everything else shares another.

Subjects import this module alone, so that it adds nothing to the memory that is measured.
"""

import os


def measured_core() -> int:
    """Return the core for the process that is measured: the last one this process may use."""
    return max(os.sched_getaffinity(0))


def other_core() -> int:
    """Return the core for what feeds it: the first one, which is the same where there is only one."""
    return min(os.sched_getaffinity(0))


def pin(core: int) -> None:
    """Keep this process on one core."""
    os.sched_setaffinity(0, {core})
