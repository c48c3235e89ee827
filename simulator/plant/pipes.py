"""Activity of the arithmetic pipes of a GPU, by the precision of its job."""

from types import MappingProxyType

import numpy as np

from simulator.driver.layout import PIPES
from simulator.files.precision import Architecture, JobPrecision, precision_on
from simulator.files.workload import Workload
from telemetry.frames import FloatArray


def _shares(**busy: float) -> FloatArray:
    shares = np.array([busy.get(pipe, 0.0) for pipe in PIPES])
    shares[PIPES.index("tensor")] = sum(busy.get(pipe, 0.0) for pipe in ("dfma", "hmma", "dmma", "imma"))
    shares.setflags(write=False)
    return shares


# Share of the time in each pipe at full load. Source of 0.45 in bfloat16: arXiv 2407.21783, table 4, 38 to 43 % of the
# peak over whole steps, whose load is 0.93 on average in llm-pretrain. heuristic: all others, so that the same work
# takes longer in TF32, which has half the rate, and less of the time in eight bits, where the rest does not shrink;
# address arithmetic and sums beside it. heuristic: FP8 counts as HMMA, as NVML has no metric of its own for it.
SHARES = MappingProxyType(
    {
        JobPrecision.FP64: _shares(occupancy=0.5, integer=0.15, fp64=0.4, fp32=0.02),
        JobPrecision.FP64_TENSOR: _shares(occupancy=0.2, integer=0.1, dmma=0.6, fp64=0.1),
        JobPrecision.FP32: _shares(occupancy=0.4, integer=0.15, fp32=0.6),
        JobPrecision.TF32: _shares(occupancy=0.25, integer=0.1, hmma=0.55, fp32=0.1),
        JobPrecision.BF16: _shares(occupancy=0.25, integer=0.1, hmma=0.45, fp32=0.1),
        JobPrecision.FP16: _shares(occupancy=0.25, integer=0.1, hmma=0.45, fp32=0.08, fp16=0.03),
        JobPrecision.FP8: _shares(occupancy=0.25, integer=0.1, hmma=0.35, fp32=0.12),
        JobPrecision.INT8: _shares(occupancy=0.25, integer=0.15, imma=0.3, fp32=0.1),
    }
)
# heuristic: who spins for a sibling that never comes looks at memory on a few blocks: its integer pipe turns a little,
# and every other one stands still.
SPINNING = _shares(occupancy=0.05, integer=0.1)


def pipe_shares(workload: Workload, architecture: Architecture) -> FloatArray:
    """Return the share of the time in which each of `PIPES` works at full load, ``(n_pipes,)``."""
    return SHARES[precision_on(workload.precision, architecture)]
