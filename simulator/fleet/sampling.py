"""The power of each GPU at the moments of a step when all sensors are read."""

import numpy as np

from simulator.fleet.settling import Settled
from simulator.fleet.table import PointTable
from telemetry.frames import FloatArray

DRAWS = 2  # uniform numbers that each GPU needs for a step


def sampled_w(table: PointTable, settled: Settled, drawn: FloatArray, *, scale: FloatArray) -> FloatArray:
    """Return the power at the samples of a step, ``(SAMPLES, n_nodes, n_gpus)``.

    Where the job keeps its GPUs together, the first sample is busy, at a level that holds by its share of the busy
    time, and the second quiet. Else each GPU follows its own chance in both.

    Parameters
    ----------
    drawn
        Uniform numbers, ``(DRAWS, n_nodes, n_gpus)``.
    scale
        What multiplies the load of each node, ``(n_nodes,)``.
    """
    rows, operation = settled.rows, settled.operation
    together = table.together(rows)
    common = np.where(together, drawn[:, :, :1], drawn)
    busy = operation.shares[:, :-1].sum(axis=1)[:, None]
    last = operation.shares.shape[1] - 1
    first, second = (np.where(place < busy, table.level_at(place / np.maximum(busy, 1e-9)), last) for place in common)
    levels = (np.where(together, table.level_at(common[0]), first), np.where(together, last, second))
    nodes, gpus = np.ogrid[: rows.shape[0], : rows.shape[1]]
    return np.stack(
        [
            table.own_w(rows, settled.clock, level, scale)
            + operation.leak_w_per_k[nodes, gpus, level] * settled.excess_k
            for level in levels
        ]
    )
