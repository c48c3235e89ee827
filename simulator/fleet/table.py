"""All operating points that a group of nodes has met, stacked so that each GPU looks up its own."""

from dataclasses import dataclass, fields

import numpy as np

from simulator.files.gpu import GpuPart
from simulator.files.workload import Idle, Workload
from simulator.fleet.loads import rhythm_of, stalled
from simulator.fleet.operating import BUSY_SHARES, OperatingPoints, operating_points
from simulator.fleet.schedule import NOTHING, STALLED, IndexArray
from simulator.plant.power import part_power
from telemetry.frames import FloatArray, MaskArray

_IDLE = Idle(kind="idle", name="idle", description="Nothing runs.", memory_share=0.0, clock_bound_share=0.0)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Operation:
    """Operating points of each GPU in a step: `OperatingPoints` at its clock cap.

    Arrays are ``(n_nodes, n_gpus)`` and ``(n_nodes, n_gpus, n_levels)``; what the slowest GPU decides is
    ``(n_nodes,)`` and ``(n_nodes, n_levels)``. A load that a scenario scales is scaled here.
    """

    level_w: FloatArray
    leak_w_per_k: FloatArray
    start_w: FloatArray
    rise_w: FloatArray
    deep_rise_w: FloatArray
    mean_mhz: FloatArray
    mean_level: FloatArray
    shares: FloatArray
    rises_per_s: FloatArray
    deep_rises_per_s: FloatArray
    steps_per_s: FloatArray
    pace_ratio: FloatArray

    def mean_w(self, levels: FloatArray) -> FloatArray:
        """Return the mean over the time of values per level, ``(n_nodes, n_gpus)``."""
        mean: FloatArray = np.einsum("ngk,nk->ng", levels, self.shares)
        return mean


class OperatingPointTable:
    """The operating points by job, by what became of it, and by power limit."""

    def __init__(self, part: GpuPart, n_gpus: int) -> None:
        curve = part_power(part)
        self._part = part
        self._n_gpus = n_gpus
        self._idle_w, self._idle_leak_w = curve.idle_w, curve.leak_w_per_k(np.zeros(1))
        self._rows: dict[tuple[Workload, int, float], int] = {}
        self._points: list[OperatingPoints] = []
        self._stacks: dict[str, FloatArray] = {}
        self._together: list[bool] = []
        self.clocks_mhz = np.array(part.clocks.supported_mhz, dtype=np.float64)

    def rows(
        self, jobs: tuple[Workload, ...], *, job: IndexArray, became: IndexArray, limit_w: FloatArray
    ) -> IndexArray:
        """Return the row of each GPU, ``(n_nodes, n_gpus)``.

        Parameters
        ----------
        job, became
            Index into `jobs` and RUNNING, STALLED or NOTHING, ``(n_nodes,)``.
        limit_w
            Power limit of each GPU.
        """
        limits, limit = np.unique(limit_w, return_inverse=True)
        key = (job[:, None] * 3 + became[:, None]) * len(limits) + limit.reshape(limit_w.shape)
        found, place = np.unique(key, return_inverse=True)
        rows = [
            self._row(
                jobs[int(code) // len(limits) // 3], int(code) // len(limits) % 3, limits[int(code) % len(limits)]
            )
            for code in found
        ]
        found_rows: IndexArray = np.array(rows, dtype=np.intp)[place].reshape(limit_w.shape)
        return found_rows

    @staticmethod
    def level_at(position: FloatArray) -> IndexArray:
        """Return the busy level that holds at a position in the busy time, 0 to 1."""
        level: IndexArray = np.minimum(np.searchsorted(_BUSY_EDGES, position, side="right"), len(_BUSY_EDGES) - 1)
        return level

    def together(self, rows: IndexArray) -> MaskArray:
        """Return which GPUs change level with their siblings."""
        together: MaskArray = np.array(self._together, dtype=np.bool_)[rows]
        return together

    def clock_index(self, cap_mhz: FloatArray) -> IndexArray:
        """Return the highest clock at or below each cap, by index; the lowest clock where none is."""
        return np.maximum(np.searchsorted(self.clocks_mhz, cap_mhz + 1e-6, side="right") - 1, 0)

    def hottest_index(self, rows: IndexArray, allowed_w: FloatArray) -> IndexArray:
        """Return the highest clock whose mean power at 50 degC stays within what is allowed; one-dimensional."""
        within: IndexArray = (self._stacks["mean_w"][rows] <= allowed_w[:, None]).sum(axis=1)
        return np.maximum(within - 1, 0)

    def operation(self, rows: IndexArray, clock: IndexArray, scale: FloatArray) -> Operation:
        """Look up all GPUs; `scale` multiplies the load of each node, ``(n_nodes,)``."""
        nodes = np.arange(len(rows))
        slowest = clock.argmin(axis=1)
        pacing = (rows[nodes, slowest], clock[nodes, slowest])
        own = {name: self._stacks[name][rows, clock] for name in _OWN}
        paced = {name: self._stacks[name][pacing] for name in _PACED}
        if (scale != 1.0).any():
            by = scale[:, None, None]
            own["abreast_w"] = self._idle_w + by * (own["abreast_w"] - self._idle_w)
            own["leak_w_per_k"] = self._idle_leak_w + by * (own["leak_w_per_k"] - self._idle_leak_w)
            own["start_w"] = self._idle_w + scale[:, None] * (own["start_w"] - self._idle_w)
            for name in ("rise_w", "deep_rise_w", "mean_level"):
                own[name] = own[name] * scale[:, None]
        return Operation(level_w=own.pop("abreast_w"), **own, **paced)

    def own_w(self, rows: IndexArray, clock: IndexArray, level: IndexArray, scale: FloatArray) -> FloatArray:
        """Return the power of each GPU by itself at a level of its own, at 50 degC."""
        own_w: FloatArray = self._stacks["own_w"][rows, clock, level]
        return self._idle_w + scale[:, None] * (own_w - self._idle_w)

    def _row(self, workload: Workload, became: int, limit_w: float) -> int:
        key = (_IDLE if became == NOTHING else workload, became, float(limit_w))
        row = self._rows.get(key)
        if row is None:
            rhythm = rhythm_of(key[0])
            rhythm = stalled(rhythm) if became == STALLED else rhythm
            row = self._rows[key] = len(self._points)
            self._points.append(operating_points(self._part, rhythm, limit_w=key[2], n_gpus=self._n_gpus))
            self._together.append(rhythm.together)
            names = (field.name for field in fields(OperatingPoints))
            self._stacks = {name: np.stack([getattr(points, name) for points in self._points]) for name in names}
            self._stacks["mean_w"] = (self._stacks["own_w"] * self._stacks["shares"]).sum(axis=2)
        return row


_BUSY_EDGES = np.cumsum(BUSY_SHARES)
_OWN = ("abreast_w", "leak_w_per_k", "start_w", "rise_w", "deep_rise_w", "mean_mhz", "mean_level")
_PACED = ("shares", "rises_per_s", "deep_rises_per_s", "steps_per_s", "pace_ratio")
