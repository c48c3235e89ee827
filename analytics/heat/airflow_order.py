"""Range in which healthy GPUs of one node differ, by the order in which air passes their slots.

In a chassis some slots stand in the air of others, and their GPUs are hotter for good by as much as each other. Which
ones is known for some boards. Where one of these orders shows in a node, each GPU is compared with the others of the
same air; else with all others, of which a slot may differ by more, and with the hottest of them where they differ much.
A GPU beyond its range is no matter of its slot: that finds a fault that was there on the first day.
"""

from dataclasses import dataclass

import numpy as np

from analytics.connectivity import GroupArray, sibling_median
from analytics.connectivity.siblings import MIN_SIBLINGS
from analytics.heat.groups import group_median, group_size, others_most
from analytics.heat.slots import OWN_SD_RATIO
from physics.constants import MAD_TO_SD
from telemetry.frames import FloatArray, MaskArray

# By the number of GPUs of a node, in the order of their PCI addresses: the slots that stand in other air than the rest.
# 0, 3, 4, 7: two air-cooled nodes of 8 H100 SXM (computed from public recordings at 10 Hz), and 8 A100 SXM4 at 341 to
# 413 W (github.com/Beomi/KoAlpaca, train_v1.1b/README.md at 052c925). 2, 3, 6, 7: a DGX B200 (an early Readme.md of
# github.com/DragonDescentZerotsu/Intern-S1-recipe).
ORDERS = {8: ((0, 3, 4, 7), (2, 3, 6, 7))}
# An order shows where both airs differ by this logarithm, and GPUs of one air scatter no more than their own parts do.
# heuristic: half of what was seen on the H100, less is within what GPUs of one air differ by.
_SHOWS, _SCATTER_MOST = 0.1, 1.25 * OWN_SD_RATIO
# With those of the same air a GPU is beyond the range from so many standard deviations of its own part on. heuristic:
# one GPU in 4,000 of a normal distribution.
_SIGMAS = 3.5
# Where no order is known, a healthy GPU may stand by itself in warmer air: the logarithm of the quarter that was seen,
# and so many standard deviations, as the others scatter. heuristic: temperatures in whole kelvin scatter by 3 %, and
# where they scatter by more than 5 % they stand in several airs.
_BY_ITSELF, _SIGMAS_BY_ITSELF, _SCATTER_RANGE = 0.22, 2.5, (0.03, 0.05)
# heuristic: a GPU comes back within the range below this share of it.
_BACK_RATIO = 0.7


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OrderCheck:
    """Each GPU beside those of the same air, shape ``(n_gpus,)``: logarithm of its resistance over theirs, and limit.

    NaN where fewer than two of them work.
    """

    more: FloatArray
    limit: FloatArray

    @property
    def beyond(self) -> MaskArray:
        """Return where a GPU is hotter than its slot explains; False where it is not known."""
        beyond: MaskArray = self.more > self.limit
        return beyond

    @property
    def back(self) -> MaskArray:
        """Return where a GPU is well within the range."""
        back: MaskArray = self.more < _BACK_RATIO * self.limit
        return back


def check_order(theta_k_per_w: FloatArray, groups: GroupArray, *, reference: MaskArray) -> OrderCheck:
    """Return how each GPU stands beside those of the same air; only those marked `reference` are compared with."""
    log = np.log(np.where(theta_k_per_w > 0, theta_k_per_w, np.nan))
    known = np.where(reference, log, np.nan)
    # In a chassis of two airs the median lies in one of them: what exceeds the hottest is beyond either.
    more, scatter = _beside(log, known, groups, groups)
    more = np.where(scatter > 2.0 * _SCATTER_RANGE[1], log - others_most(known, groups), more)
    limit = _BY_ITSELF + _SIGMAS_BY_ITSELF * np.clip(scatter, *_SCATTER_RANGE)
    for size, orders in ORDERS.items():
        whole = group_size(groups) == size
        if not whole.any():
            continue
        place = _places(groups)
        for order in orders:
            air = 2 * groups + (whole & np.isin(place, order))
            more_in, scatter_in = _beside(log, known, air, groups)
            shows = whole & (np.abs(_between(known, air)) >= _SHOWS) & (scatter_in <= _SCATTER_MOST)
            own = _SIGMAS * np.maximum(scatter_in, OWN_SD_RATIO)
            more, limit = np.where(shows, more_in, more), np.where(shows, own, limit)
    return OrderCheck(more=more, limit=limit)


def _beside(log: FloatArray, known: FloatArray, air: GroupArray, groups: GroupArray) -> tuple[FloatArray, FloatArray]:
    """Return how far each is above the median of the others of its air, and how far the others of its node scatter."""
    reference = sibling_median(known, air, min_siblings=MIN_SIBLINGS)
    off = np.abs(known - reference)
    return log - reference, MAD_TO_SD * sibling_median(off, groups, min_siblings=MIN_SIBLINGS)


def _between(known: FloatArray, air: GroupArray) -> FloatArray:
    """Return how far apart both airs of a node are, its own less the other; of its own without itself."""
    own = sibling_median(known, air, min_siblings=MIN_SIBLINGS)
    of_air = np.full(int(air.max(initial=0)) + 2, np.nan)
    of_air[air] = group_median(known, air, min_siblings=MIN_SIBLINGS)
    between: FloatArray = own - of_air[air ^ 1]
    return between


def _places(groups: GroupArray) -> GroupArray:
    """Return the place of each entity among those of its group, in the order of the table."""
    order = np.argsort(groups, kind="stable")
    first = np.flatnonzero(np.diff(groups[order], prepend=-1))
    lengths = np.diff(np.append(first, len(groups)))
    places = np.empty(len(groups), dtype=np.intp)
    places[order] = np.arange(len(groups)) - np.repeat(first, lengths)
    return places
