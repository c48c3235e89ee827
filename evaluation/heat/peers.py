"""Two rules that anybody would try first, judged on the same frames as railwatch's detectors.

`FixedSiblings` allows a GPU so many kelvin over the median of its siblings. `LearntPeers` is a plain comparison of
peers with learnt offsets: windows of ``theta = (T - T_inlet) / P``, the logarithm of each GPU's over the median of its
siblings' less what it was in the first windows, smoothed; an eighth more is a call.
"""

from dataclasses import dataclass, field

import numpy as np

from analytics.connectivity import sibling_median
from analytics.connectivity.siblings import MIN_SIBLINGS, GroupArray
from telemetry.clock import NS_PER_S
from telemetry.frames import FloatArray, Frame, MaskArray, TimeArray

# heuristic: what a GPU takes that works, as a share of its limit: as `hotter_than_siblings`.
_WORKS_RATIO = 0.4
# heuristic: faster is no state of balance: 0.1 K/s.
_STEADY_C_PER_S = 0.1
# heuristic: the share of a new window, and the logarithm that is a call.
_SHARE, _CALL = 0.3, np.log(1.12)
# A rule that takes slots as alike within this, in kelvin.
_ALIKE_C = 2.5


@dataclass(slots=True, kw_only=True)
class PeerCalls:
    """When each rule called each GPU first after each time that it had not, in ns and as the place of the GPU."""

    fixed: list[tuple[int, int]] = field(default_factory=list)
    learnt: list[tuple[int, int]] = field(default_factory=list)


class PeerRules:
    """Both rules over a stretch of frames; `calls` grows."""

    def __init__(self, groups: GroupArray, *, window_s: float, learn_windows: int) -> None:
        self._groups, self._window_ns = groups, round(window_s * NS_PER_S)
        self._learn = learn_windows
        self._rows: list[tuple[TimeArray, FloatArray, FloatArray, FloatArray, FloatArray]] = []
        self._number = -1
        count = len(groups)
        self._seen: list[list[float]] = [[] for _ in range(count)]
        self._offset = np.full(count, np.nan)
        self._level = np.zeros(count)
        self._on = {"fixed": np.zeros(count, dtype=np.bool_), "learnt": np.zeros(count, dtype=np.bool_)}
        self.calls = PeerCalls()

    def step(self, gpus: Frame, inlet_c: FloatArray) -> None:
        """Add rows; `inlet_c` is that of the node of each GPU, ``(n_rows, n_gpus)``."""
        numbers = gpus.time_ns // self._window_ns
        temps_c, powers_w, limits_w = (gpus.signal(name) for name in ("gpu_temp_c", "power_w", "power_limit_w"))
        for number in np.unique(numbers).tolist():
            if number != self._number and self._rows:
                self._end()
            self._number, rows = number, numbers == number
            self._rows.append((gpus.time_ns[rows], temps_c[rows], powers_w[rows], limits_w[rows], inlet_c[rows]))

    def _end(self) -> None:
        times_ns, temps_c, powers_w, limits_w, inlet_c = (
            np.concatenate(column) for column in zip(*self._rows, strict=True)
        )
        self._rows = []
        mean_c, mean_w, now_ns = temps_c.mean(axis=0), powers_w.mean(axis=0), int(times_ns[-1])
        third = max(len(temps_c) // 3, 1)
        drift_c = np.abs(temps_c[-third:].mean(axis=0) - temps_c[:third].mean(axis=0))
        seconds = (now_ns - int(times_ns[0])) / NS_PER_S * 2.0 / 3.0
        works = (mean_w > _WORKS_RATIO * limits_w[-1]) & (drift_c < _STEADY_C_PER_S * max(seconds, 1.0))
        theta = np.where(works, (mean_c - inlet_c.mean(axis=0)) / mean_w, np.nan)
        others = sibling_median(theta, self._groups, min_siblings=MIN_SIBLINGS)
        self._call("fixed", (theta - others) * mean_w > _ALIKE_C, seen=np.isfinite(others), now_ns=now_ns)
        more = np.log(theta / others)
        self._learnt(more)
        beyond = more - self._offset
        known = np.isfinite(beyond)
        self._level = np.where(known, self._level + _SHARE * (np.where(known, beyond, 0.0) - self._level), self._level)
        self._call("learnt", self._level > _CALL, seen=known, now_ns=now_ns)

    def _learnt(self, more: FloatArray) -> None:
        for place in np.flatnonzero(np.isfinite(more) & np.isnan(self._offset)).tolist():
            self._seen[place].append(float(more[place]))
            if len(self._seen[place]) >= self._learn:
                self._offset[place] = np.median(self._seen[place])

    def _call(self, rule: str, over: MaskArray, *, seen: MaskArray, now_ns: int) -> None:
        begins = over & seen & ~self._on[rule]
        calls: list[tuple[int, int]] = getattr(self.calls, rule)
        calls.extend((now_ns, place) for place in np.flatnonzero(begins).tolist())
        self._on[rule] = np.where(seen, over, self._on[rule])
