"""Connectivity: kinship in the topology, siblings as arrays, and the entity that explains several others.

The topology is known, so it is the graph: nothing is discovered blindly. Siblings that deviate together point to what
they share. Also: how strongly and how late one series follows another (`lagged`), and how one GPU's clock can
prove which voltage its current moves (`dither`); which supply feeds which GPU, from load steps (`wiring_learning`) and
from GPUs that were moved on purpose (`load_response`).
"""

from analytics.connectivity.kinship import Kinship, root_of
from analytics.connectivity.siblings import (
    GroupArray,
    Siblings,
    any_sibling,
    sibling_groups,
    sibling_median,
    sums_of_others,
)

__all__ = [
    "GroupArray",
    "Kinship",
    "Siblings",
    "any_sibling",
    "root_of",
    "sibling_groups",
    "sibling_median",
    "sums_of_others",
]
