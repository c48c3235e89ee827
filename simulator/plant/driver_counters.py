"""Counters of the driver for each GPU: energy, time under limits, utilisation, pipes, memory, link bytes."""

from types import MappingProxyType

import numpy as np

from simulator.driver.layout import PIPES
from simulator.files.gpu import Architecture, JobPrecision, precision_on
from simulator.files.node import NodeFile
from simulator.files.workload import Workload
from simulator.plant.state import GpuState
from telemetry.frames import FloatArray
from telemetry.gpu import REASON_HW_THERMAL, REASON_POWER_BRAKE, REASON_POWER_CAP, REASON_SW_THERMAL

# The counters that the driver keeps, and the reasons under which each runs.
COUNTED = {
    "power_violation": REASON_POWER_CAP,
    "thermal_violation": REASON_SW_THERMAL | REASON_HW_THERMAL,
    "sw_thermal": REASON_SW_THERMAL,
    "hw_thermal": REASON_HW_THERMAL,
    "power_brake": REASON_POWER_BRAKE,
}
_ANY = np.uint64(REASON_POWER_CAP | REASON_SW_THERMAL | REASON_HW_THERMAL | REASON_POWER_BRAKE)
UTIL_BLOCKS = 16  # utilisation is renewed six times a second, nvidia-smi --help-query-gpu
BUSY_LEVEL = 0.02  # assumption: below that no kernel runs; NCCL's kernels run while they wait
MEMORY_BUSY = 0.6  # assumption: a training job keeps memory busy 60 % of the time
PCIE_RX_BYTES_S = 0.6e9  # assumption: input data at full load
PCIE_TX_SHARE = 0.1  # assumption: what goes back
NVLINK_SHARE = 0.1  # assumption: of what a link can carry, over a step at full load
MIB = 1 << 20


class DriverCounters:
    """Updates the counters in `GpuState`, in place; a lost GPU keeps its last ones."""

    def __init__(self, node: NodeFile) -> None:
        gpu = node.gpu
        self._total_bytes = gpu.memory_total_bytes
        self._reserved_bytes = gpu.memory_reserved_bytes
        self._link_bytes_s = 0.0 if node.fabric == "none" else NVLINK_SHARE * gpu.nvlink_mib_s * MIB
        self._busy = np.zeros(node.gpu_count)
        self._level = np.zeros(node.gpu_count)
        self._pipes = np.zeros((node.gpu_count, len(PIPES)))
        self._blocks = 0
        self._held: tuple[float, bytes] | None = None

    def add(
        self,
        gpus: GpuState,
        *,
        mean_w: FloatArray,
        level: FloatArray,
        moving: bool,
        memory_share: float,
        pipes: FloatArray,
    ) -> None:
        """Add a block: its mean power, ``(n_gpus,)``, and the level per millisecond, ``(n_ms, n_gpus)``.

        `moving` is True if the job moves data, so False where it hangs; `memory_share` is what it holds of each GPU,
        and `pipes` the share of the time in which it keeps each pipe busy at full load, ``(n_pipes,)``.
        """
        n_ms = len(level)
        mean_level = level.sum(axis=0) / n_ms
        gpus.energy_j += mean_w * (n_ms / 1000.0)
        if (gpus.reasons & _ANY).any():
            for name, bits in COUNTED.items():
                running = ((gpus.reasons & np.uint64(bits)) != 0) & gpus.present
                gpus.counters_ms[name] += np.where(running, n_ms, 0)
        if moving:
            bytes_in = mean_level * (PCIE_RX_BYTES_S * n_ms / 1000.0)
            gpus.pcie_rx_bytes += bytes_in
            gpus.pcie_tx_bytes += PCIE_TX_SHARE * bytes_in
            if self._link_bytes_s:
                gpus.nvlink_bytes += (mean_level * (self._link_bytes_s * n_ms / 1000.0))[:, None] * gpus.nvlink_up
        self._use(gpus, level, mean_level, pipes)
        self._hold(gpus, memory_share)

    def reset(self, gpus: GpuState) -> None:
        """Reset everything that the driver itself counts, as a reload does."""
        gpus.energy_j[:] = 0.0
        for counter in gpus.counters_ms.values():
            counter[:] = 0
        for count in (gpus.pcie_rx_bytes, gpus.pcie_tx_bytes, gpus.nvlink_bytes):
            count[:] = 0.0

    def _use(self, gpus: GpuState, level: FloatArray, mean_level: FloatArray, pipes: FloatArray) -> None:
        self._busy += np.count_nonzero(level > BUSY_LEVEL, axis=0) / len(level)
        self._level += mean_level
        self._pipes += np.outer(mean_level, pipes)
        self._blocks += 1
        if self._blocks < UTIL_BLOCKS:
            return
        gpus.util_ratio = np.where(gpus.present, self._busy / UTIL_BLOCKS, gpus.util_ratio)
        gpus.mem_util_ratio = np.where(gpus.present, MEMORY_BUSY * self._level / UTIL_BLOCKS, gpus.mem_util_ratio)
        worked = np.where(self._busy[:, None] > 0.0, self._pipes / UTIL_BLOCKS, 0.0)  # where no kernel ran no pipe did
        gpus.pipe_ratio = np.where(gpus.present[:, None], worked, gpus.pipe_ratio)
        self._busy[:] = self._level[:] = 0.0
        self._pipes[:] = 0.0
        self._blocks = 0

    def _hold(self, gpus: GpuState, memory_share: float) -> None:
        held = (memory_share, gpus.present.tobytes())
        if held != self._held:
            self._held = held
            used = min(self._reserved_bytes + memory_share * self._total_bytes, float(self._total_bytes))
            gpus.memory_used_bytes = np.where(gpus.present, used, gpus.memory_used_bytes)


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
