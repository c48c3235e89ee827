"""How soon a thread of this process runs once its time has come."""

import contextlib
import gc
import os


def use_realtime_priority() -> bool:
    """Let this thread run the moment it has something to do; False without the permission, and it comes as others do.

    For threads that work less than a millisecond at a time. Measured beside five busy processes on two cores: looks at
    1 kHz came more than a period late every fifth time without it.
    """
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(1))
        return True
    return False


def freeze_loaded_objects() -> None:
    """Let the garbage collector never again look at what there is now; call once, when everything is loaded."""
    gc.collect()
    gc.freeze()
