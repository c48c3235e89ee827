"""Branches that share a load: imbalance, power lost in each joint, and a branch that is dead.

A joint that ages passes its current on to its siblings, so the imbalance of a node with three branches rises before the
resistance of its bus does: 90 % more in one of three branches is 19 % on the bus.

A dead branch carries no current while its siblings take over, so the supply is off and not the load. A load that ends
takes all branches down together. A failed sensor leaves the siblings unchanged. Where the load changes at the same
time, the bus voltage decides: it lies below the open-circuit voltage of the dead supply.

Cold-redundant supplies sleep at a light load and wake within some tenths of a second when it grows. At a light load a
branch that carries nothing is therefore no lost one, unless its own output is gone too: it is one as soon as the load
has grown and it still carries nothing. Light is half of the most that the bus was seen at, or what a bus carries whose
GPUs draw less than half of their limits, or all idle: supplies are chosen for GPUs that work. One that fell silent at a
light load need not wake before the others carry more than they did of the most: they bear that, whatever their rating.
One that lowered its own output as it fell asleep is alive, and wakes at a share of its rating that may lie far above
any load seen so far: while its output stays, it is no lost one.

Where outputs share loosely, a branch may carry nothing each time that the load is light, for seconds and again and
again; meters that take turns show the others at another moment then. It is lost once that lasts much longer than usual.
"""

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from analytics.connectivity import GroupArray
from analytics.supply.pair_rows import PairRows
from physics.rail_classes import LEAST_PLAUSIBLE_RATIO, times_measured
from telemetry.clock import NS_PER_S
from telemetry.frames import FloatArray, FromZero, MaskArray, TimeArray

# Ten watts in a ring lug, the point from which it warms by some twenty kelvin at 2 K/W (assumption).
HOT_JOINT_W = 10.0

# heuristic: shares that differ by less are those of another load.
_OTHER_SHARE = 0.1


def positive(values: FloatArray) -> FloatArray:
    """Return the values above 0, NaN for the others."""
    return np.where(values > 0.0, values, np.nan)


def group_sum(values: FloatArray, groups: GroupArray) -> FloatArray:
    """Return for each branch the sum over its group without NaN."""
    known = np.where(np.isnan(values), 0.0, values)
    return np.asarray(np.bincount(groups, weights=known)[groups] if len(groups) else known, dtype=np.float64)


def group_most(values: FloatArray, groups: GroupArray) -> FloatArray:
    """Return for each branch the largest value of its group, 0 where none is larger or known."""
    most = np.zeros(int(groups.max(initial=-1)) + 1)
    np.fmax.at(most, groups, values)
    return np.asarray(most[groups], dtype=np.float64)


def others_sum(values: FloatArray, groups: GroupArray) -> FloatArray:
    """Return for each branch the sum over the others of its group."""
    return np.asarray(group_sum(values, groups) - np.where(np.isnan(values), 0.0, values), dtype=np.float64)


def known_count(values: FloatArray, groups: GroupArray) -> FloatArray:
    """Return for each branch the number of values in its group."""
    return group_sum(np.where(np.isnan(values), np.nan, 1.0), groups)


def share_moved(current_a: FloatArray, usual_a: FloatArray, groups: GroupArray) -> MaskArray:
    """Return a mask of branches that carry another share of their group than usual."""
    own = current_a * positive(others_sum(usual_a, groups))
    others = usual_a * positive(others_sum(current_a, groups))
    return np.asarray(np.abs(own - others) > _OTHER_SHARE * others, dtype=np.bool_)


def imbalance(current_a: FloatArray, groups: GroupArray) -> FloatArray:
    """Return the deviation of each branch from the mean of its group, as a share of that mean."""
    mean = group_sum(current_a, groups) / np.where(known_count(current_a, groups) > 0, 1.0, np.nan)
    mean = mean / known_count(current_a, groups)
    return np.asarray((current_a - mean) / np.where(mean > 0.0, mean, np.nan), dtype=np.float64)


def joint_power_w(current_a: FloatArray, resistance_ohm: FloatArray) -> FloatArray:
    """Return the power lost in a path at a current, I^2 r."""
    return np.asarray(current_a * current_a * resistance_ohm, dtype=np.float64)


# heuristic: a tenth of the usual current is within what supplies without share signal differ at light load.
DEAD_RATIO = 0.1
# heuristic: a quarter more on the siblings; with four alike it is a third, with two the double. Of many siblings each
# takes over little, so three quarters of what the branch carried is enough where its own readings show it dead.
TAKEN_OVER_RATIO = 1.25
TAKEN_OVER_SHARE = 0.75
SURELY_TAKEN_OVER_RATIO = 1.3
# heuristic: a current that repeats nothing exactly is that of a dead supply where the siblings took it over then and
# there, over some training steps. Later they may carry more because the load is another one.
_SILENT_FROM_NS, _SILENT_UNTIL_NS = 4 * NS_PER_S, 20 * NS_PER_S
# heuristic: the bus hangs on others when it lies this far below the branch's own open-circuit voltage, three times
# the 9.7 mV of noise on real feeds (Oxford GPU_Power_Benchmark).
BELOW_OPEN_V = 0.03
# heuristic: usual is the mean of some blocks, at least 3 A at 12 V, so that a sensor's offset is no current.
USUAL_SHARE = 0.2
MIN_USUAL_A = 3.0
MIN_ROWS = 3
# heuristic: supplies are put to sleep below some 40 % of what those that stay awake can carry (cold redundancy), and a
# bus was seen at less than its capacity.
LIGHT_RATIO = 0.5
# heuristic: a supply that sleeps wakes within a tenth of a second; a meter that averages shows it a little later.
WAKES_NS = 3 * NS_PER_S // 10
# heuristic: firmware lets no supply sleep for less. What carries nothing for a shorter time and wakes by itself, three
# times and more, has a load that leaves it nothing now and then: a lost one carries nothing for three times as long.
_LULL_NS = 6 * NS_PER_S
_LULLS, _LONGER_THAN_LULLS = 3, 3
# heuristic: supplies sleep at a set point some per cent lower; usual differences between meters repeat within a tenth.
SLEEPS_LOWER_RATIO = 0.01


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Branches:
    """Usual current and voltage of each branch, and since when it carries none; shape ``(n_branches,)``.

    `since_ns` is 0 where it carries something. `rows`, `others_a`, `lowest_a` and `highest_a` are since then: rows
    seen, the siblings' current summed, and the own extremes. `usual_others_a` is what those that take over usually
    carry, NaN where there are none, `most_a` the most that was ever usual for the whole bus. `heavy_ns` is the time
    since which a branch without current cannot be asleep at the load of its bus, 0 where it may be. `lowered` marks
    those that lowered their own output as they fell asleep. `least_a` is the least usual current of a branch that is
    watched, 3 A at 12 V and the same power elsewhere. `lulls` counts the short times without current that ended by
    themselves, `lull_ns` is the longest of them.
    """

    usual_a: FloatArray
    usual_v: FloatArray
    usual_others_a: FloatArray
    most_a: FloatArray
    since_ns: TimeArray
    heavy_ns: TimeArray
    lowered: MaskArray
    least_a: Annotated[FloatArray, MIN_USUAL_A]
    rows: FromZero
    others_a: FromZero
    lowest_a: Annotated[FloatArray, np.inf]
    highest_a: Annotated[FloatArray, -np.inf]
    lulls: FromZero
    lull_ns: TimeArray

    def mean_others_a(self) -> FloatArray:
        """Return the siblings' mean current since the branch is dead, NaN where it is not."""
        return self.others_a / np.where(self.rows > 0, self.rows, np.nan)


def are_light(power_w: FloatArray, limit_w: FloatArray, idle: MaskArray) -> MaskArray:
    """Return a mask of supplies whose GPUs draw less than half of their limits, or all report that nothing runs."""
    return np.asarray(idle | (power_w < LIGHT_RATIO * limit_w), dtype=np.bool_)


def are_light_for_others(power_w: FloatArray, rated_w: FloatArray, buses: GroupArray) -> FloatArray:
    """Return 1 for supplies without which the others of the bus carry less than half of their rating, 0 for the rest.

    NaN where a rating or the power of the bus is unknown.
    """
    others_w = others_sum(np.where(np.isnan(rated_w), 0.0, rated_w), buses)
    unknown = group_sum(np.isnan(rated_w).astype(np.float64), buses) > 0
    is_light = group_sum(power_w, buses) < LIGHT_RATIO * others_w
    return np.where(unknown | (known_count(power_w, buses) == 0), np.nan, is_light)


def carries_nothing(branches: Branches, rows: PairRows) -> MaskArray:
    """Return a mask of rows, shape ``(n_rows,)``, in which a branch that carried something carries nothing."""
    return np.asarray(_dead(branches, rows.current_a, rows.used).any(axis=1), dtype=np.bool_)


def _dead(branches: Branches, current_a: FloatArray, used: MaskArray) -> MaskArray:
    dead = used & (current_a < DEAD_RATIO * branches.usual_a) & (branches.usual_a > branches.least_a)
    return np.asarray(dead, dtype=np.bool_)


def watch_row(
    branches: Branches,
    now_ns: int,
    *,
    current_a: FloatArray,
    voltage_v: FloatArray,
    used: MaskArray,
    groups: GroupArray,
    nodes: GroupArray,
    buses: GroupArray,
    gpus_light: MaskArray,
    rated_w: FloatArray,
) -> Branches:
    """Add one row, `used` where it is a new sample; a held value is neither dead nor alive.

    `groups` are the supplies that take over from each other, `nodes` those of one node: what the others of the node
    carry shows that it runs, where a supply is alone on its bus. `buses` are those of one bus: by its load a supply
    sleeps. `gpus_light` marks supplies whose GPUs draw little, see `are_light`; it counts where `rated_w`, the rating
    of each, is unknown.
    """
    dead = _dead(branches, current_a, used)
    was = branches.since_ns > 0
    if not dead.any() and not was.any():
        return branches
    alive = used & ~dead
    still = was & ~alive
    empty_ns = now_ns - branches.since_ns
    lull = was & alive & (empty_ns < _LULL_NS)
    counts = np.where(still, branches.rows, 0.0)
    by_rating = are_light_for_others(voltage_v * current_a, rated_w, buses)
    light_a = np.where(was & (branches.heavy_ns == 0), _borne_a(branches, buses), LIGHT_RATIO * branches.most_a)
    by_load = (group_sum(current_a, buses) < light_a) | gpus_light
    light = np.where(np.isnan(by_rating), by_load, by_rating > 0)
    begins = dead & ~was
    heavy_ns = np.where(_awake(branches, now_ns) | (~light & (branches.heavy_ns > 0)), branches.heavy_ns, now_ns)
    heavy_ns = np.where(light & ~_awake(branches, now_ns), 0, np.where(begins, now_ns - WAKES_NS, heavy_ns))
    others_a = np.where(is_alone(groups), others_sum(current_a, nodes), others_sum(current_a, groups))
    return replace(
        branches,
        since_ns=np.where(still, branches.since_ns, np.where(dead, now_ns, 0)),
        heavy_ns=np.where(still | dead, heavy_ns, 0),
        lowered=(still | dead) & (branches.lowered | (light & _is_lower(branches, voltage_v, dead, buses))),
        rows=counts + dead,
        others_a=np.where(still, branches.others_a, 0.0) + np.where(dead, others_a, 0.0),
        lowest_a=np.fmin(np.where(still, branches.lowest_a, np.inf), np.where(dead, current_a, np.inf)),
        highest_a=np.fmax(np.where(still, branches.highest_a, -np.inf), np.where(dead, current_a, -np.inf)),
        lulls=branches.lulls + lull,
        lull_ns=np.where(lull, np.maximum(branches.lull_ns, empty_ns), branches.lull_ns),
    )


def _borne_a(branches: Branches, buses: GroupArray) -> FloatArray:
    """Return for each branch the current below which its bus need not wake it, where no rating is known."""
    usual_a = group_sum(branches.usual_a, buses)
    share = others_sum(branches.usual_a, buses) / np.where(usual_a > 0.0, usual_a, np.nan)
    return np.asarray(np.fmax(LIGHT_RATIO, share) * branches.most_a, dtype=np.float64)


def _is_lower(branches: Branches, voltage_v: FloatArray, dead: MaskArray, buses: GroupArray) -> MaskArray:
    """Return a mask of branches without current whose output is on, and lower than its siblings' by more than usual."""
    level = voltage_v / branches.usual_v
    others = np.where(dead, np.nan, level)
    usual = group_sum(others, buses) / np.fmax(known_count(others, buses), 1.0)
    return np.asarray(
        dead & (level > LEAST_PLAUSIBLE_RATIO) & (level < (1.0 - SLEEPS_LOWER_RATIO) * usual), dtype=np.bool_
    )


def is_alone(groups: GroupArray) -> MaskArray:
    """Return a mask of branches from which no other one takes over."""
    return np.asarray(np.bincount(groups)[groups] == 1 if len(groups) else groups > 0, dtype=np.bool_)


def _awake(branches: Branches, now_ns: int) -> MaskArray:
    """Return a mask of branches without current whose load was heavy for long enough to wake a supply that sleeps."""
    return np.asarray((branches.heavy_ns > 0) & (now_ns - branches.heavy_ns >= WAKES_NS), dtype=np.bool_)


def gone(
    branches: Branches, now_ns: int, *, voltage_v: FloatArray, open_v: FloatArray, first_v: FloatArray
) -> MaskArray:
    """Return a mask of branches that are off, from their siblings, the bus and their own output.

    `open_v` is the open-circuit voltage, NaN where unknown, `first_v` the first reading of each branch. A job that
    ends in the same second takes the siblings' current down too: a branch whose own output is gone as well, while
    they carry current, is off whatever they carried before. One that may be asleep is not off, nor is one that lowered
    its output as it fell asleep.
    """
    enough = (branches.since_ns > 0) & (branches.rows >= MIN_ROWS)
    others_a = branches.mean_others_a()
    taken_over = others_a > TAKEN_OVER_RATIO * branches.usual_others_a
    share_taken = took_over(others_a, branches.usual_others_a, branches.usual_a)
    off = voltage_v < LEAST_PLAUSIBLE_RATIO * np.fmax(open_v, first_v)
    below = voltage_v < open_v - BELOW_OPEN_V * times_measured(open_v)
    carried = (others_a > branches.least_a) & (below | off)
    # A sensor that hangs at nothing repeats one value; one that measures nothing shows its noise.
    measures = branches.highest_a > branches.lowest_a
    dead_ns = now_ns - branches.since_ns
    at_once = (dead_ns >= _SILENT_FROM_NS) & (dead_ns <= _SILENT_UNTIL_NS)
    lulled = (branches.lulls >= _LULLS) & (dead_ns < _LONGER_THAN_LULLS * branches.lull_ns)
    shown = (taken_over | (share_taken & (off | measures | at_once)) | (carried & measures)) & (off | ~lulled)
    return np.asarray(enough & shown & (off | (_awake(branches, now_ns) & ~branches.lowered)), dtype=np.bool_)


def took_over(others_a: FloatArray, usual_others_a: FloatArray, usual_a: FloatArray) -> MaskArray:
    """Return a mask of branches whose siblings carry most of what the branch carried, by Kirchhoff's law."""
    return np.asarray(others_a > usual_others_a + TAKEN_OVER_SHARE * usual_a, dtype=np.bool_)


def surely_gone(branches: Branches) -> MaskArray:
    """Return a mask of branches whose siblings carry a third more, and whose own sensor works."""
    taken_over = branches.mean_others_a() > SURELY_TAKEN_OVER_RATIO * branches.usual_others_a
    return np.asarray(taken_over & (branches.highest_a > branches.lowest_a), dtype=np.bool_)


def usual_after_block(
    branches: Branches, mean_a: FloatArray, mean_v: FloatArray, groups: GroupArray, *, buses: GroupArray
) -> Branches:
    """Learn usual currents from a block's means, except where a dead branch is among those that take over."""
    least_a = MIN_USUAL_A / times_measured(mean_v)
    hurt = others_sum(np.where(branches.since_ns > 0, 1.0, 0.0), groups) + (branches.since_ns > 0) > 0
    seen = np.isfinite(mean_a) & ~hurt
    # From a branch that is alone nothing can be taken over.
    others_a = np.where(is_alone(groups), np.nan, others_sum(mean_a, groups))
    first = seen & np.isnan(branches.usual_a)
    step = np.where(first, 1.0, USUAL_SHARE)
    usual_a = np.where(np.isnan(branches.usual_a), 0.0, branches.usual_a)
    usual_others_a = np.where(np.isnan(branches.usual_others_a), others_a, branches.usual_others_a)
    usual_v = np.where(np.isnan(branches.usual_v), mean_v, branches.usual_v)
    now_usual_a = np.where(seen, usual_a + step * (mean_a - usual_a), branches.usual_a)
    return replace(
        branches,
        usual_a=now_usual_a,
        usual_v=np.where(seen, usual_v + step * (mean_v - usual_v), branches.usual_v),
        least_a=np.where(seen & np.isfinite(least_a), least_a, branches.least_a),
        most_a=np.fmax(branches.most_a, group_sum(now_usual_a, buses)),
        usual_others_a=np.where(seen, usual_others_a + step * (others_a - usual_others_a), branches.usual_others_a),
    )
