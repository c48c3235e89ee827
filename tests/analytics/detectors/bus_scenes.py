"""Tables in which links err, jobs hang and ranks lag: 400 rows of four GPUs, with gaps."""

import numpy as np
import numpy.typing as npt

from telemetry.entities import EntityKind
from telemetry.frames import Frame
from tests.analytics.scenes import frame_of, gpu

Column = npt.NDArray[np.float64]
GPUS = tuple(gpu(number) for number in range(4))
# A step of 10 rows: seven of compute, three of waiting and exchange.
STEP_ROWS, COMPUTE_ROWS = 10, 7


def with_gaps(column: Column, rng: np.random.Generator) -> Column:
    """Take single values away, one in a hundred."""
    return np.where(rng.random(column.shape) < 0.01, np.nan, column)


def hanging(seed: int = 1, *, rows: int = 400, hung_row: int = 150, rate_hz: float = 5.0) -> Frame:
    """Four GPUs train until a collective never returns; the driver's thread spins from then on."""
    rng = np.random.default_rng(seed)
    at = np.arange(rows)[:, np.newaxis]
    hung = at >= hung_row
    computes = at % STEP_ROWS < COMPUTE_ROWS
    power_w = np.where(hung, 115.0, np.where(computes, 320.0, 150.0)) + rng.normal(0, 1.5, (rows, 4))
    columns = {
        "power_w": with_gaps(power_w, rng),
        "gpu_util_ratio": np.ones((rows, 4)),
        "memory_used_bytes": np.full((rows, 4), 12e9),
        "nv_queue_ratio": np.where(hung, 0.97, 0.01) + np.zeros((1, 4)),
        "nv_irq_ratio": np.zeros((rows, 4)),
        "nvlink_crc_errors": np.zeros((rows, 4)),
        "steps": np.minimum(at, hung_row) // STEP_ROWS + np.zeros((1, 4)),
    }
    return frame_of(EntityKind.GPU, GPUS, columns, rate_hz=rate_hz)


def lagging(seed: int = 1, *, rows: int = 400, late_rows: int = 2, rate_hz: float = 2.0) -> Frame:
    """Four GPUs train in step; the first computes some rows longer, and the others wait for it."""
    rng = np.random.default_rng(seed)
    phase = np.arange(rows) % STEP_ROWS
    ends = COMPUTE_ROWS - 2 + np.array([late_rows, 0, 0, 0])
    power_w = np.where(phase[:, np.newaxis] < ends, 300.0, 130.0) + rng.normal(0, 3.0, (rows, 4))
    clock_mhz = np.where(np.arange(4) == 0, 1005.0 if late_rows else 1400.0, 1400.0) + np.zeros((rows, 1))
    columns = {"power_w": with_gaps(power_w, rng), "sm_clock_mhz": clock_mhz}
    return frame_of(EntityKind.GPU, GPUS, columns, rate_hz=rate_hz)


def erring(seed: int = 1, *, rows: int = 400, rate_hz: float = 1.0) -> Frame:
    """The links of the third GPU make an error now and then."""
    rng = np.random.default_rng(seed)
    errors = np.cumsum(rng.random((rows, 4)) < np.array([0.0, 0.0, 0.1, 0.0]), axis=0).astype(np.float64)
    columns = {
        "pcie_width": np.full((rows, 4), 16.0),
        "pcie_replays": np.zeros((rows, 4)),
        "nvlink_crc_errors": with_gaps(errors, rng),
        "gpu_util_ratio": np.ones((rows, 4)),
    }
    return frame_of(EntityKind.GPU, GPUS, columns, rate_hz=rate_hz)


SCENES = {"hang": hanging, "straggler": lagging, "link_health": erring}
