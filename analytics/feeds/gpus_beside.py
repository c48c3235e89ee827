"""GPUs of a node as they bear on its watts: how many there are, and what their own meters show."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Annotated

import numpy as np

from analytics.connectivity import Kinship
from analytics.connectivity.kinship import ByIdentity
from analytics.detectors.columns import optional
from analytics.detectors.joined_columns import JoinedColumn, Relation
from analytics.detectors.seconds import newest
from analytics.feeds.levels import RING, WINDOW
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.frames import FloatArray, Frame, MaskArray

SUM, MOST = "gpus_power_w", "gpu_most_power_w"
JOINED = (
    JoinedColumn(kind=EntityKind.GPU, signal="power_w", how=Relation.SUM_BESIDE, column=SUM),
    JoinedColumn(kind=EntityKind.GPU, signal="power_w", how=Relation.MAX_BESIDE, column=MOST),
)
# heuristic: half of what the node drew less must be that of its GPUs, and the busiest of them draw what it did.
_OWN_PART, _AS_BEFORE = 0.5, 0.95


@lru_cache(maxsize=16)
def nodes_and_gpus(
    topology: ByIdentity[Topology], entities: ByIdentity[Sequence[Entity]]
) -> tuple[tuple[Entity, ...], FloatArray]:
    """Return the node of each entity, itself where it has none, and the number of its GPUs, 0 where none is known."""
    kinship = Kinship.of(topology.it)
    tops = [kinship.top(entity.id) for entity in entities.it]
    nodes = tuple(
        topology.it.entity(top) if kinship.knows(top) else entity for top, entity in zip(tops, entities.it, strict=True)
    )
    counts = {top: float(len(kinship.gpus_under(top))) for top in dict.fromkeys(tops)}
    return nodes, np.array([counts[top] for top in tops], dtype=np.float64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GpusBeside:
    """Newest sums and highest powers of the GPUs of each node, by periods: ``(n_entities, 20)``, the newest last.

    `now` has the newest sum and highest power of the open period; NaN where no GPU shows its power.
    """

    sums: Annotated[FloatArray, np.nan, RING]
    most: Annotated[FloatArray, np.nan, RING]
    now: Annotated[FloatArray, np.nan, 2]

    def with_rows(self, frame: Frame, rows: slice) -> "GpusBeside":
        """Return it with the newest powers of some rows."""
        if SUM not in frame.spec.signals:
            return self
        columns = [optional(frame, name)[rows] for name in (SUM, MOST)]
        if np.isnan(columns[0][-1]).all():
            return self
        now = np.stack([newest(self.now[:, place], column) for place, column in enumerate(columns)], axis=1)
        return replace(self, now=now)

    def after_period(self, is_new: MaskArray) -> "GpusBeside":
        """Return it with the period closed, for nodes whose watts were read in it."""
        if np.isnan(self.now).all():
            return self
        sums, most = (
            np.where(is_new[:, np.newaxis], np.column_stack((ring[:, 1:], now)), ring)
            for ring, now in zip((self.sums, self.most), self.now.T, strict=True)
        )
        return replace(self, sums=sums, most=most)

    def one_left(self, step_w: FloatArray, periods_ago: int) -> MaskArray:
        """Return a mask of nodes whose GPUs do not contradict that one of them left so many periods ago.

        Its own power fell by as much while the busiest one draws what it did. Without readings nothing contradicts.
        """
        before, now = slice(None, -periods_ago - 1), slice(-WINDOW, None)
        with np.errstate(invalid="ignore"):
            sums = np.median(self.sums[:, before], axis=1) - np.median(self.sums[:, now], axis=1)
            most = np.median(self.most[:, now], axis=1) / np.median(self.most[:, before], axis=1)
        known = np.isfinite(sums) & np.isfinite(most)
        return np.asarray(~known | ((sums >= _OWN_PART * step_w) & (most >= _AS_BEFORE)), dtype=np.bool_)

    def explained_w(self) -> FloatArray:
        """Return by how much the GPUs draw more than twenty seconds ago, NaN where they show no power."""
        before = np.median(self.sums[:, -WINDOW - 4 : -WINDOW], axis=1)
        return np.asarray(np.median(self.sums[:, -2:], axis=1) - before, dtype=np.float64)
