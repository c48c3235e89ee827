"""The processes of the job, one rank on each GPU, as driver, kernel log and /proc name them alike."""

import numpy as np

from simulator.files.node import NodeFile
from simulator.plant.state import GpuState
from telemetry.frames import MaskArray

# Of the rank on GPU 0. Beyond PID_MAX_LIMIT (2^22 on 64 bit, include/linux/threads.h of the Linux kernel): no process
# of the machine that the node is served on can have it, so no program takes one for the other, or signals it.
RANK_PID = 5_000_000
_RANK_BYTES = 64 * 2**20  # assumption: with more than this in use, a process holds memory on the GPU


def ranks_running(node: NodeFile, gpus: GpuState) -> MaskArray:
    """Return whether a rank holds memory on each GPU, shape ``(n_gpus,)``."""
    running: MaskArray = np.asarray(gpus.memory_used_bytes > node.gpu.memory_reserved_bytes + _RANK_BYTES)
    return running
