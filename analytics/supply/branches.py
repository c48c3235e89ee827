"""Branches that share a load: imbalance, and power lost in each joint.

A joint that ages passes its current on to its siblings, so the imbalance of a node with three branches rises before the
resistance of its bus does: 90 % more in one of three branches is 19 % on the bus.
"""

import numpy as np

from analytics.connectivity import GroupArray
from telemetry.frames import FloatArray

# Ten watts in a ring lug, the point from which it warms by some twenty kelvin at 2 K/W (assumption).
HOT_JOINT_W = 10.0


def group_sum(values: FloatArray, groups: GroupArray) -> FloatArray:
    """Return for each branch the sum over its group without NaN."""
    known = np.where(np.isnan(values), 0.0, values)
    return np.asarray(np.bincount(groups, weights=known)[groups] if len(groups) else known, dtype=np.float64)


def others_sum(values: FloatArray, groups: GroupArray) -> FloatArray:
    """Return for each branch the sum over the others of its group."""
    return np.asarray(group_sum(values, groups) - np.where(np.isnan(values), 0.0, values), dtype=np.float64)


def known_count(values: FloatArray, groups: GroupArray) -> FloatArray:
    """Return for each branch the number of values in its group."""
    return group_sum(np.where(np.isnan(values), np.nan, 1.0), groups)


def imbalance(current_a: FloatArray, groups: GroupArray) -> FloatArray:
    """Return the deviation of each branch from the mean of its group, as a share of that mean."""
    mean = group_sum(current_a, groups) / np.where(known_count(current_a, groups) > 0, 1.0, np.nan)
    mean = mean / known_count(current_a, groups)
    return np.asarray((current_a - mean) / np.where(mean > 0.0, mean, np.nan), dtype=np.float64)


def joint_power_w(current_a: FloatArray, resistance_ohm: FloatArray) -> FloatArray:
    """Return the power lost in a path at a current, I^2 r."""
    return np.asarray(current_a * current_a * resistance_ohm, dtype=np.float64)
