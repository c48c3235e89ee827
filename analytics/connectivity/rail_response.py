"""Bus whose load a rail of the board follows, where several are possible.

The load of a bus pulls the rail down that shows it, and no other. Loads that rise and fall together show nothing: what
counts is the part of the load of a bus that those of the others do not explain. A controller shows a reading for a
round of up to ten seconds in coarse steps, so means over such rounds are compared.
"""

import numpy as np

from telemetry.frames import FloatArray

# heuristic: the longest usual round of a controller.
ROUND_S = 10.0
# heuristic: with fewer rounds chance looks like a load.
_LEAST_ROUNDS = 8
# heuristic: rounding moves a mean by half a step each way, so that a fall by two is one.
_LEAST_STEPS = 2.0
# heuristic: the other buses may take a fourth of it, as their loads and meters are not quite apart.
_OTHERS_RATIO = 0.25
# heuristic: what the load of one bus leaves unexplained is rounding and the moment of the reading.
_LEAST_EXPLAINED = 0.8


def followed_bus(rail_v: FloatArray, bus_w: FloatArray, *, step_s: float) -> int | None:
    """Return the bus whose load alone a rail follows; None where that is not sure.

    `rail_v` is of shape ``(n_times,)``, the power of the buses ``(n_times, n_buses)``, at times `step_s` apart.
    """
    rows = round(ROUND_S / step_s)
    count = len(rail_v) // rows
    means = np.column_stack([rail_v, bus_w])[: count * rows].reshape(count, rows, -1).mean(axis=1)
    means = means[np.isfinite(means).all(axis=1)]
    moves_v = np.abs(np.diff(rail_v[np.isfinite(rail_v)]))
    moves_v = moves_v[moves_v > 0.0]
    if len(means) < _LEAST_ROUNDS or not moves_v.size:
        return None
    voltage_v, load_w = means[:, 0] - means[:, 0].mean(), means[:, 1:] - means[:, 1:].mean(axis=0)
    falls_v = _falls(voltage_v, load_w)
    followed = int(np.argmax(falls_v))
    others_v = np.abs(np.delete(falls_v, followed))
    is_alone = not others_v.size or others_v.max() < _OTHERS_RATIO * falls_v[followed]
    if falls_v[followed] < _LEAST_STEPS * moves_v.min() or not is_alone:
        return None
    return followed if _explained(voltage_v, load_w[:, followed]) >= _LEAST_EXPLAINED else None


def _falls(voltage_v: FloatArray, load_w: FloatArray) -> FloatArray:
    """Return how far the part of each bus's load that the others do not explain pulls the rail down."""
    slopes = np.linalg.lstsq(load_w, voltage_v, rcond=None)[0]
    own = np.zeros(load_w.shape[1])
    for bus in range(load_w.shape[1]):
        others_w = np.delete(load_w, bus, axis=1)
        left_w = load_w[:, bus] - others_w @ np.linalg.lstsq(others_w, load_w[:, bus], rcond=None)[0]
        own[bus] = np.ptp(left_w)
    return np.asarray(-slopes * own, dtype=np.float64)


def _explained(voltage_v: FloatArray, load_w: FloatArray) -> float:
    """Return the share of a rail's variance that a line over one load explains."""
    return float(np.corrcoef(voltage_v, load_w)[0, 1] ** 2) if np.ptp(load_w) > 0.0 else 0.0
