"""Figures of the groups of siblings, each as an array over the entities: of the whole group, or of the others in it."""

import numpy as np

from analytics.connectivity import GroupArray
from telemetry.frames import FloatArray

# Sums are taken in these parts of one, finer than any reading: they are exact then, in whatever order entities come.
_PARTS = 2.0**20


def group_size(groups: GroupArray) -> GroupArray:
    """Return the size of each entity's group, itself included."""
    return np.bincount(groups, minlength=1)[groups]


def group_most(values: FloatArray, groups: GroupArray) -> FloatArray:
    """Return for each entity the highest value of its group; NaN counts as none, and 0 where all are."""
    most = np.zeros(int(groups.max(initial=0)) + 1)
    np.maximum.at(most, groups, np.where(np.isnan(values), 0.0, values))
    of_group: FloatArray = most[groups]
    return of_group


def group_median(values: FloatArray, groups: GroupArray, *, min_siblings: int) -> FloatArray:
    """Return for each entity the median of the values known in its group, its own included: one level for all of it.

    NaN where fewer than `min_siblings` others are known. The medians of the others alone lie apart where a group has
    two halves, and would have each half learn the whole difference.
    """
    order = np.lexsort((values, groups))  # NaN comes last within a group
    size = np.bincount(groups, minlength=1)
    known = np.bincount(groups, weights=~np.isnan(values), minlength=1).astype(np.intp)
    first = np.cumsum(size) - size
    ranked = values[order]

    def at(place: GroupArray) -> FloatArray:
        found: FloatArray = ranked[np.minimum(first + np.maximum(place, 0), len(ranked) - 1)]
        return found

    middle = (0.5 * (at((known - 1) // 2) + at(known // 2)))[groups]
    others = known[groups] - ~np.isnan(values)
    median: FloatArray = np.where(others >= min_siblings, middle, np.nan)
    return median


def others_most(values: FloatArray, groups: GroupArray) -> FloatArray:
    """Return for each entity the highest value known of the others of its group; NaN below two of them."""
    ranks = np.where(np.isnan(values), -np.inf, values)
    order = np.lexsort((ranks, groups))
    last = np.cumsum(np.bincount(groups, minlength=1)) - 1
    first = np.append(0, last[:-1] + 1)

    def highest(place: int) -> FloatArray:
        at = last - place
        return np.where(at >= first, ranks[order[np.maximum(at, 0)]], -np.inf)[groups]

    most, second, third = highest(0), highest(1), highest(2)
    is_most = ranks >= most
    least_other = np.where(ranks >= second, third, second)
    return np.where(np.isfinite(least_other), np.where(is_most, second, most), np.nan)


def others_sum(values: FloatArray, groups: GroupArray) -> FloatArray:
    """Return for each entity the sum over the others of its group."""
    parts = np.round(values * _PARTS)
    sums: FloatArray = (np.bincount(groups, weights=parts, minlength=1)[groups] - parts) / _PARTS
    return sums


def others_mean(values: FloatArray, groups: GroupArray) -> FloatArray:
    """Return for each entity the mean over the others of its group; NaN without any."""
    others = group_size(groups) - 1.0
    mean: FloatArray = others_sum(values, groups) / np.where(others > 0, others, np.nan)
    return mean


def others_variance(values: FloatArray, groups: GroupArray) -> FloatArray:
    """Return for each entity the mean square of the others of its group about their mean; 0 without any."""
    if not values.any():
        return np.zeros(len(values))
    mean = others_mean(values, groups)
    variance = np.maximum(others_mean(values * values, groups) - mean * mean, 0.0)
    return np.where(np.isnan(variance), 0.0, variance)


def group_part(values: FloatArray, groups: GroupArray) -> FloatArray:
    """Return each value, ``(n_times, n_entities)``, over the mean of its group at that row; NaN stays NaN."""
    n_groups = int(groups.max(initial=0)) + 1
    places = np.arange(len(values))[:, np.newaxis] * n_groups + groups
    known = ~np.isnan(values)
    size = len(values) * n_groups
    sums = np.bincount(places.ravel(), weights=np.where(known, values, 0.0).ravel(), minlength=size)
    counts = np.bincount(places.ravel(), weights=known.ravel(), minlength=size)
    means = (sums / np.maximum(counts, 1.0))[places]
    part: FloatArray = values / np.where(means > 0, means, np.nan)
    return part


def coolest(values: FloatArray, groups: GroupArray) -> FloatArray:
    """Return for each entity the lowest known value of its group, NaN where there is none."""
    lowest = np.full(int(groups.max(initial=0)) + 1, np.inf)
    np.minimum.at(lowest, groups, np.where(np.isnan(values), np.inf, values))
    found = lowest[groups]
    return np.where(np.isfinite(found), found, np.nan)
